"""The archive of a stream's backup (ADR-63, ``NATSARC1``) as bytes: S2 frames, and the entries inside. Pure."""
