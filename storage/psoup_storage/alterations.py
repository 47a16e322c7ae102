"""The changes of queries' keeping that a store still needs. It drops the outdated ones.

    amount NONE      of 7 8 9      ── 8 and 9 have a later amount, 7 is gone ──>  not needed
    amount PARTIAL   of 8 9

A later change hides an earlier one of the same query if it changes the same parts, or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from psoup.events.events import QueriesAltered
from psoup.plan.amounts import KeepingChange
from psoup.values.columns import Array

LEAST = 64
"""The fewest changes that a store looks through."""


def parts_of(change: KeepingChange) -> frozenset[str]:
    """The parts that a change changes. To park a query makes it inactive, and to activate it ends its parking."""
    parts = {name for name in ("amount", "eager", "active", "parked") if getattr(change, name) is not None}
    return frozenset(parts | ({"active", "parked"} if change.parked or change.active else set()))


def needed(changes: Sequence[QueriesAltered], exist: Callable[[Array], Array]) -> list[QueriesAltered]:
    """The changes, in order, without queries that are gone or have a later change. A change without queries is left
    out.

    `changes`: in the order of their sequences, of any tenants. `exist`: for query IDs (int64[k], ascending), whether
    each is registered, bool[k]. O(k log k) for each different set of parts.
    """
    hiding: dict[frozenset[str], Array] = {}
    left = list[QueriesAltered]()
    for event in reversed(changes):
        ids, parts = event.query_ids, parts_of(event.change)
        hidden = [np.isin(ids, later) for other, later in hiding.items() if other >= parts]
        stays = ids[~np.logical_or.reduce([np.zeros(len(ids), np.bool_), *hidden])]
        stays = stays[exist(stays)]
        hiding[parts] = np.union1d(hiding.get(parts, ids[:0]), stays)
        if len(stays):
            left.append(event if len(stays) == len(ids) else replace(event, query_ids=stays))
    return left[::-1]
