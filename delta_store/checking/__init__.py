"""`silt verify` and `silt repair`: both tables looked through as a whole.

May import every room but `settling`.
"""
