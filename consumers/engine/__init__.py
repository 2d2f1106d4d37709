"""All consumers of a store: their directory, creation, events, journal rows and wake times.

Pure; imports `consumers.machine`, `consumers.config` and pure rooms of `delta_store`.
"""
