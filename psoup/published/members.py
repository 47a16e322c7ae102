"""The queries that share a clause: a tuple while they are few, as they mostly are, else a map that shares its pages.

add((7,), [9])  ->  (7, 9)          past `few`: PagedMap, so that adding a query does not copy a million IDs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psoup.config import Shape
from psoup.published.paged import PagedMap

Members = tuple[int, ...] | PagedMap[bool]
"""Query IDs, ascending; never changes. `len` counts them."""


def add(members: Members, query_ids: Sequence[int], shape: Shape = Shape()) -> Members:
    """The members with further IDs, ascending and above all others. O(k), and a page."""
    if isinstance(members, tuple):
        if len(members) + len(query_ids) <= shape.few_members:
            return (*members, *query_ids)
        query_ids = (*members, *query_ids)
        members = PagedMap(page=shape.page)
    edited = members.edit()
    for query_id in query_ids:
        edited.set(query_id, True)
    return edited.freeze()


def remove(members: Members, query_id: int) -> Members:
    """The members without one ID, which must be there. O(members of a tuple), or a page."""
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
    """The IDs from `start` on, ascending."""
    if isinstance(members, tuple):
        return (query_id for query_id in members if query_id >= start)
    return (query_id for query_id, _ in members.items(start))
