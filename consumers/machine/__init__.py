"""One consumer as a state machine: pending deliveries, waiting pulls, the next messages, the effects of acks.

Pure; imports `consumers.config` and pure rooms of `delta_store`.
"""
