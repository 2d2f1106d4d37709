"""Spark's rooms, with `transforms`: the settle job, its table, maintenance, SQL views.

May import `reading`, `log` and what is below, and nothing of `api`, `ingest` and `consumers`: it runs on a cluster.
"""
