"""The idle clauses of AUTO queries, which followers are told although they are in no index.

The choice of AUTO changes no answer. A follower is told the matches of an AUTO query whatever its amount is. While it
is NONE, each page evaluates its clause. A round of AUTO then learns that the stream is followed, and gives its
queries another amount.
"""

from __future__ import annotations

import numpy as np

from psoup.plan.amounts import auto_codes
from psoup.published.idle_clauses import FIRST_IDLE, FIRST_INACTIVE, by_stream_ids
from psoup.published.reader_notes import NoteKind
from psoup.published.record_block import picked
from psoup.published.records import QueryBlock
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

_IDLE = NoteKind[None, dict[int, Array]](1)
"""The idle clauses of active AUTO queries, by stream ID."""
_NONE: Array = np.zeros(0, np.int64)


def idle_auto_clauses(snapshot: Snapshot, view: StreamView) -> Array:
    """The SQC IDs of the idle clauses of a stream's active AUTO queries, int64, ascending.

    O(1), but O(AUTO queries) for the first call after a change of queries. That call takes a step of Python for each
    query outside blocks.
    """
    if not snapshot.automatic:
        return _NONE
    table = snapshot.queries.notes.table(_IDLE)
    by_stream = table.get(None)
    if by_stream is None:
        by_stream = table.note(None, _idle_by_stream(snapshot))
    return by_stream.get(view.stream_id, _NONE)


def _idle_by_stream(snapshot: Snapshot) -> dict[int, Array]:
    """The clauses by stream. A query that a round has not seen yet is PARTIAL, so all of them are in its columns."""
    lookup = snapshot.queries.find(snapshot.automatic.rows.ids)
    here = [record for record in lookup.records.values() if record.keeping.auto]  # the rest was AUTO at the last round
    facts = np.array([(record.stream_id, record.sqc_id) for record in here], np.int64).reshape(-1, 2)
    streams, sqc_ids = [facts[:, 0]], [facts[:, 1]]
    for block, at in lookup.blocks:
        assert isinstance(block, QueryBlock)
        sqc_ids.append(picked(block.sqc_ids, at).astype(np.int64)[auto_codes(block.codes_at(at))])
        streams.append(np.full(len(sqc_ids[-1]), block.stream_id))
    every = np.concatenate(sqc_ids)
    idle = (every >= FIRST_IDLE) & (every < FIRST_INACTIVE)
    return by_stream_ids(np.concatenate(streams)[idle], every[idle])
