"""The settle job on Spark: its table, batches, maintenance; and SQL views.

May import ``reading``, ``settled``, ``log``, ``transforms`` and what is below; not ``api``, ``ingest`` and
``consumers``: it runs on a cluster.
"""
