"""Queries that are not kept as usual, in the fixture of a format."""

from __future__ import annotations

from typing import Any

from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Amount, Keeping
from psoup.plan.sides import is_side
from psoup_testing.oracles.questions import again

BLOCK = "SELECT x, _id FROM kept WHERE x > ? AND x < 200"


def keep_otherwise(soup: LocalPSoup) -> None:
    """Queries with various amounts, and inactive ones. Some are altered."""
    soup.register("SELECT x FROM kept WHERE x > 7 AND x < 12", keeping=Keeping(Amount.NONE))
    soup.register("SELECT k.x FROM kept AS k, recent AS r WHERE k.x = r.x AND k.x > 30", keeping=Keeping(active=False))
    ids = soup.register_many(BLOCK, [[n] for n in (100, 150, 190)], keeping=Keeping(Amount.COMPLETE, eager=True))
    soup.alter_queries(ids[:2], amount=Amount.NONE)
    soup.alter_queries(ids[1:], active=False)
    soup.alter_queries(ids[2:], amount=Amount.PARTIAL, eager=False, active=True)


def shown_amounts(soup: LocalPSoup) -> list[Any]:
    """The queries that are not kept as usual, with their answers. Nothing if there are none."""
    records = [record for _, record in soup.engine.snapshot().queries.items() if record.keeping != AS_USUAL]
    return [
        [
            record.query_id,
            record.keeping.amount.name,
            record.keeping.eager,
            record.keeping.active,
            _rows(soup, record.query_id),
        ]
        for record in records
    ]


def _rows(soup: LocalPSoup, query_id: int) -> int:
    """The number of rows of an answer; 0 for a side of a join."""
    return 0 if is_side(query_id) else again(soup.invoke, query_id, accept_truncation=True).to_table().num_rows
