"""Copies of streams of other domains and accounts: the consumer that each has at its origin, as nats-server's.

Pure; imports `ingest.protocol` and pure rooms of `delta_store`.
"""
