"""Settings with their defaults, hard limits, clocks and the configuration of the embedded nats-server."""
