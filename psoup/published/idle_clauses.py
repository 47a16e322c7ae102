"""Idle clauses, of queries with amount NONE and of inactive queries. They are in no index.

A query with amount NONE has no idle clause while another query or side keeps its clause in the index.

    SQC IDs   1 … ALL           clauses that new tuples meet
              FIRST_IDLE …      clauses of active queries that are kept as NONE
              FIRST_INACTIVE …  clauses of inactive queries

No chunk covers an ID of at least ALL (`psoup.results.chunk_results`), so readers evaluate an idle clause. It belongs to
one query or side. It has no slot. It gets a new ID whenever the query becomes idle again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from psoup.plan.sides import is_side
from psoup.published.members import with_sides
from psoup.published.paged_map import PagedMap
from psoup.published.reader_notes import NoteKind
from psoup.published.record_block import picked
from psoup.published.records import ClauseBlock, ClauseRecord
from psoup.results.chunk_results import ALL
from psoup.values.columns import Array

FIRST_IDLE = ALL + 1
"""The least SQC ID of an idle clause. A query that is not registered has the ID ALL."""
FIRST_INACTIVE = ALL + (1 << 61)
"""The least SQC ID of a clause of an inactive query."""
_END = 2**63 - 1
_NONE: Array = np.zeros(0, np.int64)
NO_SLOT = 2**31 - 1
"""The slot of an idle clause: above all slots."""
_IDLE = NoteKind[None, dict[int, Array]](1)
"""The idle clauses of active queries, by stream ID."""


def is_idle(sqc_id: int) -> bool:
    """Whether a clause is idle."""
    return sqc_id >= FIRST_IDLE


def is_inactive(sqc_id: int) -> bool:
    """Whether a clause is of an inactive query."""
    return sqc_id >= FIRST_INACTIVE


def idle_clauses(clauses: PagedMap[ClauseRecord], stream_id: int) -> Array:
    """The SQC IDs of the idle clauses of a stream's active queries, int64, ascending.

    O(1). The first call with these clauses takes O(blocks + pages), and a step of Python for each idle clause outside
    blocks.
    """
    table = clauses.notes.table(_IDLE)
    by_stream = table.get(None)
    if by_stream is None:
        by_stream = table.note(None, _idle_by_stream(clauses))
    return by_stream.get(stream_id, _NONE)


def _idle_by_stream(clauses: PagedMap[ClauseRecord]) -> dict[int, Array]:
    singles = clauses.single_between(FIRST_IDLE, FIRST_INACTIVE)
    facts = np.array([(record.stream_id, sqc_id) for sqc_id, record in singles], np.int64).reshape(-1, 2)
    streams, sqc_ids = [facts[:, 0]], [facts[:, 1]]
    for block in clauses.blocks:
        assert isinstance(block, ClauseBlock)
        if FIRST_IDLE <= block.first < FIRST_INACTIVE:  # a block has only idle clauses, or none
            sqc_ids.append(picked(block.ids, block.standing()))
            streams.append(np.full(len(sqc_ids[-1]), block.stream_id))
    return by_stream_ids(np.concatenate(streams), np.concatenate(sqc_ids))


def by_stream_ids(streams: Array, sqc_ids: Array) -> dict[int, Array]:
    """The SQC IDs (int64[n]) of each stream, ascending, by stream ID. `streams`: the stream of each, int64[n]."""
    order = np.lexsort((sqc_ids, streams))
    names, starts = np.unique(streams[order], return_index=True)
    return dict(zip(names.tolist(), np.split(sqc_ids[order], starts[1:]), strict=False))


def clauses_between(clauses: PagedMap[ClauseRecord], stream_id: int, start: int, end: int) -> Array:
    """The SQC IDs in [start, end) of a stream's clauses, int64, ascending.

    O(blocks + pages), and a step of Python for each such clause outside blocks.
    """
    single = clauses.single_between(start, end)
    parts = [np.fromiter((sqc_id for sqc_id, record in single if record.stream_id == stream_id), np.int64)]
    parts += [picked(block.ids, block.standing()) for block in _blocks(clauses, stream_id, start, end)]
    ids = np.sort(np.concatenate(parts))
    return ids[np.searchsorted(ids, start) : np.searchsorted(ids, end)]


def idle_clauses_of_queries(clauses: PagedMap[ClauseRecord], stream_id: int) -> Array:
    """The SQC IDs of the idle clauses of queries, also of inactive ones, but not of sides. int64, ascending."""
    some = (record for _, record in clauses.single_between(FIRST_IDLE, _END) if record.stream_id == stream_id)
    parts = [np.fromiter((record.sqc_id for record in some if not _is_of_side(record)), np.int64)]
    for block in _blocks(clauses, stream_id, FIRST_IDLE, _END):
        if not is_side(int(block.members[0])):  # a block has either queries or sides
            parts.append(picked(block.ids, block.standing()))
    return np.sort(np.concatenate(parts))


def _is_of_side(record: ClauseRecord) -> bool:
    return is_side(next(with_sides(record.members, 0)))


def _blocks(clauses: PagedMap[ClauseRecord], stream_id: int, start: int, end: int) -> Iterator[ClauseBlock]:
    """The blocks of a stream that may have SQC IDs in [start, end)."""
    for block in clauses.blocks:
        assert isinstance(block, ClauseBlock)
        if block.first < end and block.last >= start and block.stream_id == stream_id:
            yield block
