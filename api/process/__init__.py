"""The common parts of our processes: arguments, log files, child processes. Imports no other room of `api`."""
