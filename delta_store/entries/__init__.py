"""What the bytes of both tables mean: log entries, checkpoints, data files, and what follows from them.

Pure; may import `values`.
"""
