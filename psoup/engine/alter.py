"""ALTER STREAM inside the engine: a stream gets new columns, with NULL in its old tuples, or another option.

    open chunk     closed early: a chunk has one schema
    closed chunks  wider views of the same tuples (`psoup.data.schema_growth`)
    buffered       wider batches; the memory budget is charged for the added columns

Clauses and results do not change. Earlier queries do not show the new columns, not even those with `SELECT *`.
"""

from __future__ import annotations

from psoup.engine.stream.state import StreamState
from psoup.events.events import StreamAltered
from psoup.work.runner import Runner


def alter(state: StreamState, event: StreamAltered, run: Runner) -> int:
    """Apply `event`. The caller has released all earlier tuples. Returns the additional bytes charged for tuples.

    O(chunks + buffered tuples).
    """
    return state.alter(event.spec, event.sql, run)
