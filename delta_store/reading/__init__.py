"""Reads of now and of the past, over settled files and the journal above them.

IO; may import `log` and what is below, and `streams`.
"""
