"""SQL over the streams by DuckDB, embedded and read only: views, points in the past, a fence around the statement."""
