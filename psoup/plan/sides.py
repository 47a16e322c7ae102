"""IDs of sides: a join has a hidden selection, its side, for each place in FROM.

    query 12                       the query that clients see
      side 2**40 + 12              its selection of the first stream of FROM
      side 2 * 2**40 + 12          of the second, …

The ID of a side follows from the ID of its query. Divided by 2**40, it gives the side's place plus 1, and the remainder
is the query's ID. For a query the quotient is 0. Sides of consecutive queries have consecutive IDs. In ascending order
all sides come after all queries.
"""

from __future__ import annotations

MOST_JOINED = 8
"""The most leaves of one join."""

MOST_SOURCES = 16
"""The most sources of a query: of its FROM, its subselects, and all SELECTs of a set operation."""

FIRST_RELATION = MOST_SOURCES
"""The place of the first relation of a query. The places of its sources are smaller."""

FIRST_SIDE = 1 << 40
"""The least ID of a side. All IDs of queries are less."""


def side_id(query_id: int, place: int) -> int:
    """The ID of a join's side at a place in FROM, from 0."""
    return FIRST_SIDE * (place + 1) + query_id


def is_side(query_id: int) -> bool:
    """Whether an ID belongs to a side."""
    return query_id >= FIRST_SIDE


def query_of(side: int) -> int:
    """The ID of the query of a side. For the ID of a query, the same ID."""
    return side % FIRST_SIDE


def place_of(side: int) -> int:
    """The place of a side in FROM, from 0."""
    return side // FIRST_SIDE - 1
