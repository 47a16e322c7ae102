"""The queries that share a clause: a tuple if they are few, which is the usual case, else a map with shared pages.

add((7,), [9])  ->  (7, 9)          past `few`: PagedMap, so that adding a query does not copy a million IDs

Sides of joins are members too, after all queries. Clients see only queries, not sides (`since`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from psoup.config import Shape
from psoup.plan.sides import FIRST_SIDE
from psoup.published.paged_map import PagedMap

Members = tuple[int, ...] | PagedMap[bool]
"""The IDs of queries, ascending. The value never changes."""


def add(members: Members, query_ids: Sequence[int], shape: Shape = Shape()) -> Members:
    """The members with further IDs, ascending, which must be new. O(members + k) for a tuple, else O(k + pages)."""
    if isinstance(members, tuple):
        if len(members) + len(query_ids) <= shape.few_members:
            more = (*members, *query_ids)
            return more if not members or members[-1] < query_ids[0] else tuple(sorted(more))
        query_ids = (*members, *query_ids)
        members = PagedMap(page=shape.page)
    edited = members.edit()
    for query_id in query_ids:
        edited.set(query_id, True)
    return edited.freeze()


def remove(members: Members, query_id: int) -> Members:
    """The members without one ID, which must exist. O(members) for a tuple; a copy of one page for a map."""
    if isinstance(members, tuple):
        return tuple(member for member in members if member != query_id)
    edited = members.edit()
    edited.remove(query_id)
    return edited.freeze()


def remove_all(members: Members, query_ids: Sequence[int]) -> Members:
    """`remove` for some IDs."""
    if isinstance(members, tuple):
        gone = frozenset(query_ids)
        return tuple(member for member in members if member not in gone)
    edited = members.edit()
    for query_id in query_ids:
        edited.remove(query_id)
    return edited.freeze()


def since(members: Members, start: int) -> Iterator[int]:
    """The IDs of queries from `start` on, ascending, without sides."""
    return takewhile(FIRST_SIDE.__gt__, with_sides(members, start))


def with_sides(members: Members, start: int) -> Iterator[int]:
    """The IDs of queries and sides from `start` on, ascending."""
    if isinstance(members, tuple):
        return (query_id for query_id in members if query_id >= start)
    return (query_id for query_id, _ in members.items(start))
