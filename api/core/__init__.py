"""The gateway's decisions as one value: what comes over the links, time and durability change it, effects come out.

Joins `ingest.publishing` and `consumers.engine`, which do not know each other; does no IO.
"""
