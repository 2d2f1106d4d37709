"""The one committer of ``messages``: staged files into the table, its log and folder kept. Does IO; as ``journal``."""
