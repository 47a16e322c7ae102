"""The pairs of a tuple and a query that a follower is told, as a record batch: see `matches_ipc` in follow.proto."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from psoup.values.columns import Array

_PAIRS = pa.schema([("tuple_id", pa.int64()), ("query", pa.int64())])
_CHANGES = _PAIRS.append(pa.field("change", pa.int8()))


def pairs_batch(tuple_ids: Array, queries: Array, changes: Array | None) -> pa.RecordBatch:
    """The batch of some pairs: int64[n] each. `changes`: of a table, as in `psoup.answer.follow.version_pairs`."""
    pairs = [pa.array(tuple_ids), pa.array(queries)]
    if changes is None:
        return pa.RecordBatch.from_arrays(pairs, schema=_PAIRS)
    return pa.RecordBatch.from_arrays([*pairs, pa.array(changes.astype(np.int8))], schema=_CHANGES)
