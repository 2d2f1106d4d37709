"""Both tables' logs: read, followed, verified and repaired.

Does IO; may import ``entries``, ``storage`` and ``values``.
"""
