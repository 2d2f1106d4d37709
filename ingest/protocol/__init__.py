"""The protocols of the links without their IO: frames, handshakes, interest, addresses, pacing.

Pure.
"""
