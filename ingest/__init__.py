"""Links to NATS, the publish decision and the group commit."""
