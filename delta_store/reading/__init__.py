"""Reads of now and of the past, over settled files and the journal above. Does IO; may import ``log`` and below."""
