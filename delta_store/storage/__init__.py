"""Where files are kept and who may write there: local disk, object store, locks, reserve.

Does IO; may import ``values``.
"""
