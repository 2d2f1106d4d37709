"""Commits to either table: put once, their outcome known, by the one owner. Does IO; may import ``log`` and below."""
