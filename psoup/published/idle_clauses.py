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
from psoup.published.record_block import picked
from psoup.published.records import ClauseBlock, ClauseRecord
from psoup.results.chunk_results import ALL
from psoup.values.columns import Array

FIRST_IDLE = ALL + 1
"""The least SQC ID of an idle clause. A query that is not registered has the ID ALL."""
FIRST_INACTIVE = ALL + (1 << 61)
"""The least SQC ID of a clause of an inactive query."""
_END = 2**63 - 1
NO_SLOT = 2**31 - 1
"""The slot of an idle clause: above all slots."""


def is_idle(sqc_id: int) -> bool:
    """Whether a clause is idle."""
    return sqc_id >= FIRST_IDLE


def is_inactive(sqc_id: int) -> bool:
    """Whether a clause is of an inactive query."""
    return sqc_id >= FIRST_INACTIVE


def idle_clauses(clauses: PagedMap[ClauseRecord], stream_id: int) -> Array:
    """The SQC IDs of the idle clauses of a stream's active queries, int64, ascending.

    O(blocks + pages), and a step of Python for each idle clause outside blocks.
    """
    parts = [np.array([sqc_id for sqc_id, _ in _single(clauses, stream_id, FIRST_INACTIVE)], np.int64)]
    parts += [picked(block.ids, block.standing()) for block in _blocks(clauses, stream_id, FIRST_INACTIVE)]
    return np.sort(np.concatenate(parts))


def idle_clauses_of_queries(clauses: PagedMap[ClauseRecord], stream_id: int) -> Array:
    """The SQC IDs of the idle clauses of queries, also of inactive ones, but not of sides. int64, ascending."""
    single = (sqc_id for sqc_id, record in _single(clauses, stream_id, _END) if not _is_of_side(record))
    parts = [np.fromiter(single, np.int64)]
    for block in _blocks(clauses, stream_id, _END):
        if not is_side(int(block.members[0])):  # a block has either queries or sides
            parts.append(picked(block.ids, block.standing()))
    return np.sort(np.concatenate(parts))


def _is_of_side(record: ClauseRecord) -> bool:
    return is_side(next(with_sides(record.members, 0)))


def _blocks(clauses: PagedMap[ClauseRecord], stream_id: int, end: int) -> Iterator[ClauseBlock]:
    """The blocks of idle clauses of a stream. The IDs of a block are of the same kind."""
    for block in clauses.blocks:
        assert isinstance(block, ClauseBlock)
        if FIRST_IDLE <= block.first < end and block.stream_id == stream_id:
            yield block


def _single(clauses: PagedMap[ClauseRecord], stream_id: int, end: int) -> Iterator[tuple[int, ClauseRecord]]:
    """The idle clauses of a stream outside blocks, with their IDs."""
    for page in clauses.pages_by_number.values():
        if is_idle(next(iter(page))):  # all IDs of a page are of the same kind
            for sqc_id, record in page.items():
                if sqc_id < end and record.stream_id == stream_id:
                    yield sqc_id, record
