"""Spark jobs, each thin: read, transform, write."""
