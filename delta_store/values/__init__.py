"""The words of the store: rows, columns, subjects, positions, watermarks, errors.

Pure, and imports no other room.
"""
