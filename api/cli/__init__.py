"""The `silt` command: one verb a file, gathered by `main`."""
