"""`silt up` and `silt doctor`: the parts of Silt as processes, started, watched and ended.

May import `api.hub`, `api.process` and what `api.rest` says of its door.
"""
