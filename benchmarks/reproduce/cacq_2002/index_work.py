"""The work of PSoup's index for the queries of CACQ's routing table: the tuples that it looks at, and counted tests.

PSoup routes no tuple through filters. Its index joins a push with all clauses at once: few tuples by the lists of the
clauses' most selective factors, many as bits, 64 at a time. `psoup top` shows the same counts for each query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reproduce.emulators.cacq.filters import Query
from psoup.answer.figures.top_queries import top_queries
from psoup.config import EngineConfig
from psoup.local import LocalPSoup


@dataclass(frozen=True, slots=True)
class Looks:
    """Counts for each pushed tuple, over all queries. `looked`: tests of a tuple for a query; `matched`: tests that it
    passed; `work`: the engine's estimate, in tests of a tuple in a list."""

    looked: float
    matched: float
    work: float


def looks(queries: Sequence[Query], tuples: npt.NDArray[np.int64], piece: int) -> Looks:
    """Push tuples (int64[attributes, n]) to a PSoup with the queries, `piece` at a time."""
    local, rows = LocalPSoup(EngineConfig()), tuples.shape[1]
    names = [f"a{at}" for at in range(len(tuples))]
    local.execute(f"CREATE STREAM s ({', '.join(f'{name} BIGINT NOT NULL' for name in names)})")
    where = [" AND ".join(f"a{at} > {bound}" for at, bound in query.items()) for query in queries]
    local.register_many([f"SELECT * FROM s WHERE {conditions}" for conditions in where])
    for start in range(0, rows, piece):
        local.push("s", pa.table(dict(zip(names, tuples[:, start : start + piece], strict=True))))
    snapshot = local.engine.snapshot()
    costs = [ranked.cost for ranked in top_queries(snapshot, tenant=local.tenant, limit=len(queries))]
    units = sum(float(view.index.costs.read().units.sum()) for view in snapshot.by_id.values())
    return Looks(
        sum(cost.candidates for cost in costs) / rows, sum(cost.matched_new for cost in costs) / rows, units / rows
    )
