"""The HTTP API: streams, messages and their past as JSON. Imports lower rooms of `api`, and `delta_store`."""
