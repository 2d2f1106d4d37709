"""Direct Get over NATS: carries out the decisions of `api.direct`, with reads on threads.

Used by the gateway and by the HTTP servers beside it. Imports `ingest.links`, `delta_store` and `conf` too.
"""
