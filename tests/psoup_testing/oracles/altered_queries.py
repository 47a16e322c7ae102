"""Changes of how the queries of a duel are kept, held against what `Keeping` says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from psoup.local import LocalPSoup
from psoup.plan.amounts import AMOUNTS, Amount, Keeping, KeepingChange
from psoup.published.automatic import AmountChoice


class Registration(Protocol):
    """A registered query."""

    @property
    def query_id(self) -> int:
        """Its ID."""
        ...


def parts_of(change: KeepingChange) -> dict[str, Any]:
    """The arguments of `alter_queries` for a change."""
    return {"amount": change.amount, "eager": change.eager, "active": change.active, "auto": change.auto}


def asked(keeping: Keeping) -> tuple[str, bool, bool]:
    """The facts of a request, without the choice for an AUTO query."""
    return keeping.name, keeping.eager, keeping.active


def choose(psoup: LocalPSoup, query_ids: Sequence[int], amount: Amount) -> None:
    """Let a choice of AUTO come now. It concerns the AUTO queries among them."""
    psoup.engine.snapshot().automatic.take_in(psoup.clock.now())
    psoup.engine.install(AmountChoice(amount, np.sort(np.array(query_ids, np.int64))))
    for record in map(psoup.engine.snapshot().queries.get, query_ids):
        assert record is None or not record.keeping.auto or record.keeping.amount is amount


def alter(
    psoup: LocalPSoup, keepings: dict[int, Keeping], registered: Registration | None, change: KeepingChange
) -> None:
    """Change how a query is kept, twice: the second change finds it as asked. Then let a choice of AUTO come.

    `keepings`: of all queries as they were asked for, by ID.
    """
    if registered is None:
        return
    query_id = registered.query_id
    before = keepings[query_id]
    after = Keeping.of(int(change.of(np.array([before.code], np.uint8))[0]))
    for changed in (before != after, False):
        assert psoup.alter_queries([query_id], **parts_of(change)) == changed
    keepings[query_id] = after
    assert asked(psoup.engine.snapshot().query(query_id, "default").keeping) == asked(after)
    choose(psoup, sorted(keepings), AMOUNTS[len(keepings) % len(AMOUNTS)])
    assert asked(psoup.engine.snapshot().query(query_id, "default").keeping) == asked(after)


def alter_some(psoup: LocalPSoup, query_ids: Sequence[int], change: KeepingChange) -> None:
    """Change how some queries are kept."""
    psoup.alter_queries(query_ids, **parts_of(change))
    choose(psoup, query_ids, AMOUNTS[len(query_ids) % len(AMOUNTS)])
