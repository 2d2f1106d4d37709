"""What of a stream is live, in numpy columns: by sequence, by subject, by message id.

Pure; may import `values` and `config`; a stranger to `journal` and to all IO.
"""
