"""`silt up` and `silt doctor`: Silt's processes, started, watched and ended.

Imports `api.hub`, `api.process`, the door of `api.rest`, and the rooms below `api`.
"""
