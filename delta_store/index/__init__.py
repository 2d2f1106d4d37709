"""The live messages of a stream in numpy columns: by sequence, by subject; and its message ids.

Pure; may import ``values`` and ``config``, and not ``journal``, ``log`` or ``storage``.
"""
