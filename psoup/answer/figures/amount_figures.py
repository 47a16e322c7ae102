"""The number of queries by how they are kept: their amount, and whether they are active."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.plan.amounts import CODES, Amount, Keeping, parked_codes
from psoup.plan.sides import is_side
from psoup.published.paged_map import PagedMap
from psoup.published.records import QueryBlock, QueryRecord
from psoup.values.columns import Array


class QueryCounts(NamedTuple):
    """The numbers of queries, without sides; 0 if there are none.

    `by_amount` in force and whether they are active; `automatic`: AUTO queries among them, by the amount in force.
    `parked`: of parked ones, which are among the inactive ones. `eager`: of active ones.
    """

    by_amount: dict[tuple[Amount, bool], int]
    automatic: dict[Amount, int]
    parked: int = 0
    eager: int = 0


def queries_by_keeping(queries: PagedMap[QueryRecord], tenant: str | None = None) -> QueryCounts:
    """Count the queries of a tenant by how they are kept; without a tenant, all queries.

    O(blocks) and O(queries of blocks that were altered), and a step of Python for each query outside blocks.
    """
    counts: Array = np.zeros(CODES, np.int64)
    for block in queries.blocks:
        assert isinstance(block, QueryBlock)
        if not is_side(block.first) and tenant in (None, block.tenant):
            counts += np.bincount(block.codes_at(block.standing()), minlength=CODES)
    counted = (record for record in queries.single() if tenant in (None, record.tenant))
    single = [record.keeping.code for record in counted if not is_side(record.query_id)]
    counts += np.bincount(np.array(single, np.int64), minlength=CODES)
    numbers = {(amount, active): 0 for amount in Amount for active in (True, False)}
    automatic, eager = dict.fromkeys(Amount, 0), 0
    for code in np.flatnonzero(counts).tolist():
        keeping = Keeping.of(code)
        numbers[keeping.amount, keeping.active] += int(counts[code])
        automatic[keeping.amount] += int(counts[code]) if keeping.auto else 0
        eager += int(counts[code]) if keeping.ahead else 0
    return QueryCounts(numbers, automatic, int(counts[parked_codes(np.arange(CODES))].sum()), eager)
