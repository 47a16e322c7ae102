"""ALTER STREAM inside the engine: a stream gets columns, and its old tuples NULL in them; or another word of its own.

    open chunk     closed early: a chunk has one schema
    closed chunks  wider views of the same tuples (`psoup.data.widening`)
    buffered       wider batches, which the memory budget is charged for

Clauses and results stay as they are: queries of before do not know the new columns, `SELECT *` among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psoup.data.archived import Chunk
from psoup.engine.stream.state import StreamState
from psoup.events.events import StreamAltered
from psoup.published.snapshot import ChunkEntry
from psoup.runner import Runner


def alter(state: StreamState, event: StreamAltered, run: Runner) -> int:
    """Carry out `event`, all that came before it being released; returns the bytes of tuples charged in addition.

    O(chunks + buffered tuples).
    """
    state.sql, state.changed = event.sql, True
    if event.spec.schema == state.data.spec.schema:
        state.data.spec = event.spec
        return 0
    state.cover_new(run)
    if state.data.open.length:
        state.close_open()
    before = state.data.pending.nbytes
    state.data.alter(event.spec)
    state.archived = _with_chunks(state.archived, state.data.archived)
    state.results.entries = _with_chunks(state.closed, state.data.closed)
    return state.data.pending.nbytes - before


def _with_chunks(entries: Sequence[ChunkEntry], chunks: Iterable[Chunk]) -> list[ChunkEntry]:
    """The results of the entries beside these views of their chunks."""
    return [ChunkEntry(chunk, entry.results) for entry, chunk in zip(entries, chunks, strict=True)]
