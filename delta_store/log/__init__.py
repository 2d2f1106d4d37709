"""Both tables' logs read, followed, checked and mended.

IO; may import `entries`, `storage` and `values`.
"""
