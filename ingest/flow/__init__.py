"""Groups, copies and schedules: group commit, mirrors and sources, due schedules.

IO; imports `ingest.publishing`, `ingest.protocol` and `delta_store`.
"""
