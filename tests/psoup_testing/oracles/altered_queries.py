"""Changes of how the queries of a duel are kept, held against what `Keeping` says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from psoup.local import LocalPSoup
from psoup.plan.amounts import Keeping, KeepingChange


class Registration(Protocol):
    """A registered query."""

    @property
    def query_id(self) -> int:
        """Its ID."""
        ...


def parts_of(change: KeepingChange) -> dict[str, Any]:
    """The arguments of `alter_queries` for a change."""
    return {"amount": change.amount, "eager": change.eager, "active": change.active}


def alter(
    psoup: LocalPSoup, keepings: dict[int, Keeping], registered: Registration | None, change: KeepingChange
) -> None:
    """Change how a query is kept, twice: the second change finds it as asked. `keepings`: of all queries, by ID."""
    if registered is None:
        return
    query_id = registered.query_id
    before = keepings[query_id]
    after = Keeping.of(int(change.of(np.array([before.code], np.uint8))[0]))
    for changed in (before != after, False):
        assert psoup.alter_queries([query_id], **parts_of(change)) == changed
    keepings[query_id] = after
    assert psoup.engine.snapshot().query(query_id, "default").keeping == after


def alter_some(psoup: LocalPSoup, query_ids: Sequence[int], change: KeepingChange) -> None:
    """Change how some queries are kept."""
    psoup.alter_queries(query_ids, **parts_of(change))
