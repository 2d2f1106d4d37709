"""Settings with their defaults, hard limits, clocks, the log, exit codes and error texts. Imports no other package."""
