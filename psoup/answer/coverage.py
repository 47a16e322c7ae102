"""Coverage of the past: which chunks on disk were evaluated for a query, and which were not.

    on disk   |covered|covered| not   | not   |covered|      ChunkTimes(begin, end, 2 chunks, their tuples)

Every invocation evaluates the missing chunks again, within its budget. A job evaluates them once, and its matches are
stored with the chunks (`psoup.matching.outside`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.data.archived_chunk import ArchivedChunk
from psoup.execution.select.clause_matches import is_kept
from psoup.model import time_text
from psoup.phrases import counted
from psoup.published.members import with_sides
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """A span of consecutive chunks. `begin`, `end`: the times of its first and last tuple, as text in UTC.

    `chunks`, `tuples`: the numbers of its chunks and tuples.
    """

    begin: str
    end: str
    chunks: int
    tuples: int

    def __str__(self) -> str:
        return f"{self.begin} to {self.end}: {counted(self.chunks, 'chunk')}, {counted(self.tuples, 'tuple')}"


def form_of(entry: ChunkEntry, clause: ClauseRecord) -> str:
    """The form in which the matches of a clause are stored for a chunk.

    `on disk`: in a file with the archived chunk. `all`: the query has no WHERE. `uncovered`: the chunk was not
    evaluated. Other forms are those of `psoup.results`. May wait for the disk.
    """
    form = entry.results.form(clause.sqc_id, clause.slot)
    if form != "uncovered":
        return form
    if not clause.factors:
        return "all"
    return "on disk" if is_kept(entry, clause) else form


def spans(entries: Iterable[ChunkEntry]) -> tuple[ChunkTimes, ...]:
    """Join consecutive chunks of one stream into spans. `entries`: in the order of the stream, each with at least one
    tuple.
    """
    groups: list[list[ChunkEntry]] = []
    for entry in entries:
        if groups and groups[-1][-1].data.number + 1 == entry.data.number:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return tuple(
        ChunkTimes(
            time_text(part[0].data.first_time),
            time_text(part[-1].data.last_time),
            len(part),
            sum(len(entry.data) for entry in part),
        )
        for part in groups
    )


def lacking(view: StreamView, clauses: Sequence[ClauseRecord]) -> list[ArchivedChunk]:
    """The chunks on disk that were not evaluated for all of the clauses, which have a WHERE. May wait for the disk.

    O(chunks), plus O(queries of the clauses) for each distinct set of queries that jobs evaluated.
    """
    members = [np.fromiter(with_sides(clause.members, 0), np.int64) for clause in clauses]
    verdicts: dict[bytes, bool] = {}
    chunks = []
    for entry in view.chunks[: view.archived]:
        assert isinstance(entry.data, ArchivedChunk)
        ranges = entry.data.source.evaluated()
        name = ranges.tobytes()
        if name not in verdicts:
            verdicts[name] = all(_evaluated(ranges, ids) for ids in members)
        if not verdicts[name]:
            chunks.append(entry.data)
    return chunks


def _evaluated(ranges: Array, ids: Array) -> bool:
    """Whether any of the query IDs lies in any of the ID ranges. `ids` ascends; `ranges`: int64[n, 2]."""
    return any(np.searchsorted(ids, first) < np.searchsorted(ids, end) for first, end in ranges.tolist())
