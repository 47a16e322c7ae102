"""HISTORY as maintenance: versions that ended before it leave their chunks, and so do forgotten deletions.

    edge = NOW - HISTORY ──> chunks with at most a quarter of their places to keep ──> thinned (`thin`)

A derived stream keeps the versions that held at instants which its pump has not passed (`psoup.engine.stream.pins`). No
answer changes: a reader leaves these versions out anyway (`psoup.execution.select.history`).
"""

from __future__ import annotations

from functools import partial

from psoup.data.archived_chunk import Chunk
from psoup.data.lost_versions import NEVER, most_left, rows_to_keep, worth_from
from psoup.data.versions import versions_of
from psoup.engine.maintenance.task import Begin
from psoup.engine.maintenance.thin import ThinTask
from psoup.engine.stream.state import StreamState
from psoup.model import SECOND, TableSpec

_PART = 8
"""The part of HISTORY after which a chunk is looked at again if rows must stay that are lost."""


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find a chunk of a table from which enough rows may leave. O(chunks), and O(rows) for a chunk that is due."""
    versions, table, now = state.versions, state.data.spec.table, state.now
    if versions is None or table is None or now is None:
        return None
    pinned, edge = state.shelf.pins.first_time, now - table.history
    edge = edge if pinned is None else min(edge, pinned - 1)
    for entry in state.shelf.in_memory:
        chunk = entry.data
        if _worth_from(chunk, table, everything) > edge or state.shelf.to_thin(chunk.number) is None:
            continue
        keep = rows_to_keep(chunk, table, versions.newest, edge, state.settled_id)
        if len(keep) <= most_left(chunk):
            return partial(ThinTask, state.stream_id, state.data.spec, chunk, keep, state.replace_file)
        versions_of(chunk).note_worth(table, edge + max(table.history // _PART, SECOND))
    return None


def _worth_from(chunk: Chunk, table: TableSpec, everything: bool) -> int:
    """The least edge with which a chunk is looked at. The first `ended` rows decide: later rows end later."""
    versions = versions_of(chunk)
    if everything or versions.worth is None or versions.worth[0] is not table or versions.worth[1] == NEVER:
        return versions.note_worth(table, worth_from(chunk, table))
    return versions.worth[1]
