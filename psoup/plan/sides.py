"""IDs of sides: a join of k streams stands as one query and k hidden selections, its sides, one for each place in FROM.

    query 12                       what a client knows
      side 2**40 + 12              its selection of the first stream of FROM
      side 2 * 2**40 + 12          of the second, …

So a side needs no ID of its own: it is told from a query by its size, and its query by the rest. Sides of consecutive
queries have consecutive IDs. In a list in ascending order all sides come after all queries.
"""

from __future__ import annotations

MOST_SOURCES = 8
"""Sources of a query at most."""

FIRST_SIDE = 1 << 40
"""All query IDs are below; all IDs of sides are not."""


def side_id(query_id: int, place: int) -> int:
    """The ID of a join's side at a place in FROM, from 0."""
    return FIRST_SIDE * (place + 1) + query_id


def is_side(query_id: int) -> bool:
    """Whether it is the ID of a side."""
    return query_id >= FIRST_SIDE


def query_of(side: int) -> int:
    """The query of a side; of a query itself."""
    return side % FIRST_SIDE


def place_of(side: int) -> int:
    """The place of a side in FROM, from 0."""
    return side // FIRST_SIDE - 1
