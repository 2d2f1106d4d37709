"""Text as nats-server's Go reads and writes it: JSON, times, durations, integers, and its words for what is wrong.

Pure, and imports no other room.
"""
