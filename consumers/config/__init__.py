"""A consumer's configuration: parsed, checked, compared.

Pure; may import `delta_store.config`, `delta_store.values` and `delta_store.dialect`.
"""
