"""Direct Get over NATS: carries out what `api.direct` decides, with reads on threads.

Used by the gateway and by HTTP servers that answer beside it.
"""
