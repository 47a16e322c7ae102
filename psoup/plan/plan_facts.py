"""A cache of facts about plan nodes, such as the layout of an answer or the ways of a join.

    node ──identity──> (node, fact)      one table for each kind of fact, bounded; `clear` empties all of them

Queries of one form share one plan object, so a fact serves all of them. The key is the identity of the node, which
takes 0.1 us. Its hash would take as long as finding the new rows of an answer. A table keeps its nodes alive, so Python
does not reuse an identity in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

MOST_FACTS = 4_096
"""The most facts in one table. A full table is emptied. Then the facts about plans in use are computed again."""

P = ParamSpec("P")
Fact = TypeVar("Fact")

_tables: list[dict[Hashable, tuple[object, Any]]] = []


def plan_fact(compute: Callable[P, Fact]) -> Callable[P, Fact]:
    """Decorate a function to cache its results. The first argument is a node, and its identity is part of the key.

    The other arguments are hashed. The result must depend only on the arguments. A hit takes O(1). Two threads may both
    compute a missing fact.
    """
    table: dict[Hashable, tuple[object, Any]] = {}
    _tables.append(table)

    @wraps(compute)
    def fact(node: object, *arguments: Hashable) -> Any:
        key = (id(node), *arguments) if arguments else id(node)
        entry = table.get(key)
        if entry is None:
            if len(table) >= MOST_FACTS:
                table.clear()
            entry = table[key] = node, cast(Any, compute)(node, *arguments)
        return entry[1]

    return cast(Callable[P, Fact], fact)


def clear() -> None:
    """Drop all facts, for tests."""
    for table in _tables:
        table.clear()
