"""Direct Get as a decision: what a request asks for, which messages answer it, and the frames of the answer.

May import `api.jetstream` and the pure rooms of `delta_store`; does no IO.
"""
