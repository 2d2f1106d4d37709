"""`$JS.API` without IO: the shapes of requests, their handlers, and the JSON of the replies.

The gateway commits and reads. Imports `consumers`, `delta_store` and `ingest.publishing`.
"""
