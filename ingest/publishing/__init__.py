"""The publish decision: what becomes of one message, alone, in a batch or in a schedule.

Pure; may import `protocol` and the pure rooms of `delta_store`.
"""
