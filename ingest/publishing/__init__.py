"""The publish decision: the fate of a message, alone, in a batch or as a schedule.

Pure; imports `ingest.protocol` and pure rooms of `delta_store`.
"""
