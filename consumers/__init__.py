"""Consumers of streams: their state machine and the simplified client."""
