"""A whole store opened: by the gateway that owns it, or as a copy that follows it.

May import every room but `settling` and `checking`.
"""
