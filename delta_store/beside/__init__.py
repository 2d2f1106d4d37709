"""Tables beside ``messages``, made of what it holds: opened, committed to, kept up. Does IO; may import ``commits``."""
