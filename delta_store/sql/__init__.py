"""SQL over the streams by DuckDB, embedded and read only: views, points in the past, a fence around the statement.

May import ``reading`` and below; DuckDB is imported when a statement runs.
"""
