"""A consumer's configuration: parsed, checked, compared.

Pure; may import `delta_store.config` and `delta_store.values`.
"""
