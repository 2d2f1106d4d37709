"""A stream's configuration as a value, nats-server's errors, patterns. Pure; may import ``values`` and ``dialect``."""
