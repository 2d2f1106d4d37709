"""The journal's one committer: groups made durable, the log kept short.

IO; may import `log`, `entries`, `storage`.
"""
