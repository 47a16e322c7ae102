"""The idle clauses of AUTO queries, which followers are told although they are in no index.

The choice of AUTO changes no answer. A follower is told the matches of an AUTO query whatever its amount is. While it
is NONE, each page evaluates its clause. A round of AUTO then learns that the stream is followed, and gives its
queries another amount.
"""

from __future__ import annotations

import numpy as np

from psoup.plan.amounts import auto_codes
from psoup.published.idle_clauses import FIRST_IDLE, FIRST_INACTIVE
from psoup.published.reader_notes import NoteKind
from psoup.published.record_block import picked
from psoup.published.records import QueryBlock
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

_IDLE = NoteKind[int, Array](256)
"""The idle clauses of active AUTO queries, by stream ID."""


def idle_auto_clauses(snapshot: Snapshot, view: StreamView) -> Array:
    """The SQC IDs of the idle clauses of a stream's active AUTO queries, int64, ascending.

    O(AUTO queries) for the first call with a snapshot, then O(1).
    """
    if not snapshot.automatic:
        return _NONE
    table = snapshot.notes.table(_IDLE)
    clauses = table.get(view.stream_id)
    return table.note(view.stream_id, _idle_clauses(snapshot, view)) if clauses is None else clauses


_NONE: Array = np.zeros(0, np.int64)


def _idle_clauses(snapshot: Snapshot, view: StreamView) -> Array:
    lookup = snapshot.queries.find(snapshot.automatic.rows.ids)
    parts = [_NONE]
    for block, at in lookup.blocks:
        assert isinstance(block, QueryBlock)
        if block.stream_id == view.stream_id:
            sqc_ids = picked(block.sqc_ids, at).astype(np.int64)
            parts.append(sqc_ids[auto_codes(block.codes_at(at))])
    here = [record for record in lookup.records.values() if record.stream_id == view.stream_id]
    records = [record for record in here if record.keeping.auto]  # the rest was AUTO at the last round
    parts.append(np.array([record.sqc_id for record in records], np.int64))
    sqc_ids = np.concatenate(parts)
    return np.sort(sqc_ids[(sqc_ids >= FIRST_IDLE) & (sqc_ids < FIRST_INACTIVE)])
