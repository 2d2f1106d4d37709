"""What moves between links and commits: groups gathered, streams copied, schedules fired.

IO; may import every room of `ingest` and `delta_store`.
"""
