"""Changes of how the queries of a duel are kept, held against what `Keeping` says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from psoup.local import LocalPSoup
from psoup.plan.amounts import AMOUNTS, AS_USUAL, AUTOMATIC, Amount, Keeping, KeepingChange
from psoup.published.automatic import AmountChoice

CHOICES = ((Amount.PARTIAL, True), *((amount, False) for amount in AMOUNTS), (Amount.PARTIAL, True))
"""The choices of AUTO: an amount, and whether the pairs of joins are kept."""


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


def choose(psoup: LocalPSoup, query_ids: Sequence[int], amount: Amount, *, pairs: bool = False) -> None:
    """Let a choice of AUTO come now. It concerns the AUTO queries among them."""
    psoup.engine.snapshot().automatic.take_in(psoup.clock.now())
    psoup.engine.install(AmountChoice(amount, np.sort(np.array(query_ids, np.int64)), pairs=pairs))
    for record in map(psoup.engine.snapshot().queries.get, query_ids):
        assert record is None or not record.keeping.auto or record.keeping.amount is amount


def choose_any(psoup: LocalPSoup, query_ids: Sequence[int]) -> None:
    """Let a choice of AUTO come now: one of all choices, by the number of queries."""
    amount, pairs = CHOICES[len(query_ids) % len(CHOICES)]
    choose(psoup, query_ids, amount, pairs=pairs)


def register_paired(psoup: LocalPSoup, sql: str, keeping: Keeping = AS_USUAL) -> int:
    """Register a query. Instead of the usual keeping it is AUTO, and AUTO chooses to keep its pairs, if it has some."""
    if keeping is not AS_USUAL:
        return psoup.register(sql, keeping=keeping)
    query_id = psoup.register(sql, keeping=AUTOMATIC)
    choose(psoup, [query_id], Amount.PARTIAL, pairs=True)
    return query_id


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
    choose_any(psoup, sorted(keepings))
    assert asked(psoup.engine.snapshot().query(query_id, "default").keeping) == asked(after)


def alter_some(psoup: LocalPSoup, query_ids: Sequence[int], change: KeepingChange) -> None:
    """Change how some queries are kept."""
    psoup.alter_queries(query_ids, **parts_of(change))
    choose_any(psoup, query_ids)
