"""Streams moved here from another JetStream: read there, restored here, compared, followed, cut over.

Imports `consumers.client`, `ingest.links` and the pure rooms of `delta_store`.
"""
