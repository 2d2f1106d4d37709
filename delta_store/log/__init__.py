"""Both tables' logs read by one reader, followed, checked and mended.

IO; may import `entries`, `storage` and `values`.
"""
