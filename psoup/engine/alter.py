"""ALTER STREAM inside the engine: a stream gets new columns, with NULL in its old tuples, or another AHEAD.

    open chunk     closed early: a chunk has one schema
    closed chunks  wider views of the same tuples (`psoup.data.schema_growth`)
    buffered       wider batches, which are charged in the memory budget

Clauses and results do not change: earlier queries do not know the new columns, not even `SELECT *`.
"""

from __future__ import annotations

from psoup.engine.stream.state import StreamState
from psoup.events.events import StreamAltered
from psoup.work.runner import Runner


def alter(state: StreamState, event: StreamAltered, run: Runner) -> int:
    """Apply `event` after all earlier tuples are released; returns the additional bytes charged for tuples.

    O(chunks + buffered tuples).
    """
    return state.alter(event.spec, event.sql, run)
