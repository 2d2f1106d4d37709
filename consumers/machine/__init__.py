"""One consumer as a state machine: what is pending, who waits, what is delivered next, what an ack does.

Pure; knows neither streams nor links.
"""
