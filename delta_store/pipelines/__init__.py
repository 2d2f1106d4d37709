"""Spark jobs: read, transforms, write."""
