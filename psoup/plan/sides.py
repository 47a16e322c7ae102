"""IDs of sides: a join of k streams is one query and k hidden selections, its sides, one for each place in FROM.

    query 12                       the query that clients see
      side 2**40 + 12              its selection of the first stream of FROM
      side 2 * 2**40 + 12          of the second, …

So the ID of a side follows from its query: the quotient tells sides from queries, and the remainder is the query's ID.
Sides of consecutive queries have consecutive IDs. In ascending order all sides come after all queries.
"""

from __future__ import annotations

MOST_SOURCES = 8
"""The most sources of a query."""

FIRST_SIDE = 1 << 40
"""Query IDs are below this number, IDs of sides are not."""


def side_id(query_id: int, place: int) -> int:
    """The ID of a join's side at a place in FROM, from 0."""
    return FIRST_SIDE * (place + 1) + query_id


def is_side(query_id: int) -> bool:
    """Whether an ID belongs to a side."""
    return query_id >= FIRST_SIDE


def query_of(side: int) -> int:
    """The query of a side; for a query itself."""
    return side % FIRST_SIDE


def place_of(side: int) -> int:
    """The place of a side in FROM, from 0."""
    return side // FIRST_SIDE - 1
