"""Streams as state: the catalog, the effects of publishes and limits, and their replay from recorded rows.

Pure; may import ``index``, ``config``, ``values`` and ``dialect``, and not ``journal``, ``log`` or ``storage``.
"""
