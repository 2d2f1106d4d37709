"""``silt verify`` and ``silt repair``: both tables checked as a whole. May import every room but ``settling``."""
