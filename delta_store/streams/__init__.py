"""Streams as state: the catalog, what a publish or a limit changes, and the same again from recorded rows.

Pure; may import `index`, `config`, `values` and `dialect`; a stranger to `journal`.
"""
