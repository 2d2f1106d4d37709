"""A stream's configuration as a value, with nats-server's error codes and the patterns in it.

Pure; may import `values` and `dialect`.
"""
