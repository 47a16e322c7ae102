"""ALTER STREAM inside the engine: a stream gets columns, with NULL in its old tuples, or another AHEAD.

    open chunk     closed early: a chunk has one schema
    closed chunks  wider views of the same tuples (`psoup.data.widening`)
    buffered       wider batches, which the memory budget is charged for

Clauses and results stay as they are: queries registered before do not know the new columns, `SELECT *` among them.
"""

from __future__ import annotations

from psoup.engine.stream.state import StreamState
from psoup.events.events import StreamAltered
from psoup.runner import Runner


def alter(state: StreamState, event: StreamAltered, run: Runner) -> int:
    """Apply `event`, once all tuples that came before it are released; returns the bytes of tuples charged in addition.

    O(chunks + buffered tuples).
    """
    return state.alter(event.spec, event.sql, run)
