"""The gateway's decisions, without IO: messages of the links, time and durability in, effects out.

Joins `ingest.publishing` and `consumers.engine`, which do not import each other, with `api.jetstream` and `api.direct`.
"""
