"""Queries bound once in each of Spark's worker processes, for all tasks that it runs."""

from __future__ import annotations

from functools import lru_cache

from psoup.matching.outside import Beforehand
from psoup.sql import create_stream


@lru_cache(maxsize=1)
def known(statement: str, queries: tuple[tuple[int, str], ...]) -> Beforehand:
    """The queries (number, statement) of the stream that `statement` makes. One task at a time uses it."""
    return Beforehand(create_stream(statement), queries)
