"""A whole store opened: by the gateway that owns it, or as a replica that follows it.

May import every room but ``settling`` and ``checking``.
"""
