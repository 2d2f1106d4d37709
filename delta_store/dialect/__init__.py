"""Text as nats-server's Go reads and writes it: JSON, times, durations, integers, and the texts of their errors.

Pure; imports ``conf`` alone.
"""
