"""All consumers of a store: found, created, told what streams do, their rows and wake times.

Pure; drives `consumers.machine`.
"""
