"""Log entries, checkpoints and data files as bytes and as values, and rules about them. Pure; may import ``values``."""
