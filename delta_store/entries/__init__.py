"""The bytes of both tables as values, and back: log entries, checkpoints, data files, and rules about them.

Pure; may import ``values``.
"""
