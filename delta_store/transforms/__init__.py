"""DataFrame transforms without reads, writes or actions."""
