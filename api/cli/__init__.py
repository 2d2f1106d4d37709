"""The `silt` command: one verb a file, started by `main`. Imports any other room, each verb its own when it runs."""
