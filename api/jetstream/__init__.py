"""`$JS.API`: what a request says, which handler answers it, and the JSON of the answer.

Decides and does no IO; commits and reads are asked of the gateway.
"""
