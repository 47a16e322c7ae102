"""Decisions about queries: whether they may be registered or unregistered, and under which keys and labels.

`registration` and `removal` decide, and `bind_steps` binds statements. The other modules know the queries that are
registered.
"""
