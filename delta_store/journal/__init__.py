"""The journal's one committer: groups made durable, the log kept short. Does IO; may import ``log`` and below."""
