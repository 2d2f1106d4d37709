"""The HTTP API: streams, messages and points in time as JSON."""
