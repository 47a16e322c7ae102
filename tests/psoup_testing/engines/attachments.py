"""History written by hand, attached to an embedded engine on a durable store; and duels in which that happens.

write(folder, spec, rows …) ──> a job directory          attach(soup, …) ──> Attach, as the service does it
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from psoup.admission.rows.pushes import read_columns
from psoup.answer.coverage import lacking
from psoup.config import EngineConfig
from psoup.data.archived_chunk import ArchivedChunk
from psoup.events.acknowledgements import AttachAcknowledgement
from psoup.events.commands import Attach
from psoup.execution.ahead.folds_outside import FoldsOutside
from psoup.matching.outside import Beforehand
from psoup.model import StreamSpec
from psoup.published.records import QueryRecord
from psoup.sql import create_stream
from psoup.values.columns import Batch
from psoup_storage.durable.chunks.covers import TakenCover
from psoup_storage.formats.covers import Cover, cover_chunk, write_cover
from psoup_storage.formats.history import FoldsToWrite, Manifest, write_chunk, write_manifest
from psoup_storage.formats.matches import ranges_of
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import Action, make_rows
from psoup_testing.histories.values import Value
from psoup_testing.histories.windows import SECOND
from psoup_testing.oracles.duel import Duel, Make, expected_refusal, to_table
from psoup_testing.oracles.model import Declaration, Row


def write(
    folder: Path,
    spec: StreamSpec,
    table: pa.Table,
    times: Sequence[int],
    cuts: Sequence[int],
    queries: Beforehand | None = None,
    incarnation: str = "",
    folds: FoldsToWrite | None = None,
) -> Manifest:
    """A job directory of the rows, which are in the order of their `times`; chunks end at `cuts`."""
    folder.mkdir(parents=True)
    batch = Batch(tuple(read_columns(spec, table, EngineConfig())), np.array(times, np.int64))
    ends = sorted({*(cut for cut in cuts if 0 < cut < len(times)), len(times)})
    chunks = [
        write_chunk(folder, f"{start:05}", spec, batch.take(np.arange(start, end)), queries, (), folds)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    manifest = Manifest(spec.name, tuple(chunks), incarnation)
    write_manifest(folder, manifest)
    return manifest


def attach(
    soup: RestartingPSoup, stream: str, job: str, folder: Path, batch: int | None = None
) -> AttachAcknowledgement:
    """Attach a job directory as the service does: ask, take the files in, attach."""
    view = soup.engine.snapshot().stream(stream, soup.tenant)
    adopted = soup.store.adopt(folder, job, view.stream_id, view.spec, soup.admission.next_query)
    try:
        done = soup.submit(Attach(stream, job, adopted.extent, adopted.chunks, view.stream_id, batch=batch))
    finally:
        soup.store.disown(view.stream_id, job)
    assert isinstance(done, AttachAcknowledgement)
    return done


def write_job(soup: RestartingPSoup, folder: Path, queries: Sequence[int]) -> int:
    """Cover `queries` of one stream as a job does: write a whole directory; returns the number of its chunks."""
    snapshot = soup.engine.snapshot()
    return write_cover_of(soup, folder, [snapshot.query(query, soup.tenant) for query in queries])


def write_cover_of(soup: RestartingPSoup, folder: Path, records: Sequence[QueryRecord]) -> int:
    """The same of queries, or sides, by their records."""
    snapshot = soup.engine.snapshot()
    view, clauses = snapshot.by_id[records[0].stream_id], [snapshot.clause(record.sqc_id) for record in records]
    queries = [
        (record.query_id, record.query.text) for record, clause in zip(records, clauses, strict=True) if clause.factors
    ]
    files = soup.store.files(lacking(view, [clause for clause in clauses if clause.factors]))
    folder.mkdir(parents=True)
    spec, bound = create_stream(view.sql), Beforehand(view.spec, queries)
    for file in files:
        cover_chunk(folder, file, spec, bound)
    names = tuple(Path(file.path).name for file in files)
    numbers = np.array(sorted({number for number, _ in queries}), np.int64)
    write_cover(folder, Cover(soup.store.incarnation, ranges_of(numbers), names))
    return len(files)


def take(soup: RestartingPSoup, folder: Path, stream: str) -> TakenCover:
    """Take that directory in as the service does."""
    view = soup.engine.snapshot().stream(stream, soup.tenant)
    chunks = [e.data for e in view.chunks[: view.archived] if isinstance(e.data, ArchivedChunk)]
    return soup.store.cover(folder, chunks, soup.admission.next_query)


@dataclass(frozen=True, slots=True)
class Covering:
    """A job evaluates one query in so many of those that stand over what is on disk."""

    every: int


@dataclass(frozen=True, slots=True)
class History:
    """Rows of before are attached: `count` of them, some of the last `span` seconds that are possible."""

    count: int
    span: int
    seed: int
    chunk_rows: int = 40
    overlap: bool = False
    matches: bool = False


class AttachingDuel(Duel):
    """A duel in which history may be attached, and the store is started anew."""

    def __init__(
        self, declaration: Declaration, config: EngineConfig, make: Make, pools: tuple[tuple[Value, ...], ...]
    ) -> None:
        super().__init__(declaration, config, make=make)
        self.pools = pools
        self.attached = self.refused = self.covered = 0

    def act(self, action: Action | History | Covering) -> None:
        """Do one action on both sides."""
        if isinstance(action, History):
            self.attach(action)
        elif isinstance(action, Covering):
            self.cover(action)
        else:
            super().act(action)

    def attach(self, action: History) -> None:
        """Attach the history on both sides; both take it, or refuse it for its times or for the retention."""
        assert isinstance(self.psoup, RestartingPSoup)
        entries = self._entries(action)
        name, folder = self.declaration.name, self.psoup.path.parent / f"history-{self.psoup.path.name}"
        table = to_table(self.declaration, [row for _, row in entries])
        spec = self.psoup.engine.snapshot().stream(name, "default").spec
        queries = (
            [(standing.query_id, standing.query.sql()) for standing in self.standing.values()] if action.matches else []
        )
        cuts = range(0, len(entries), action.chunk_rows)
        beforehand, incarnation = Beforehand(spec, queries), self.psoup.store.incarnation
        stream = self.psoup.engine.snapshot().stream(name, "default").stream_id
        folds = FoldsToWrite(FoldsOutside(spec, queries, self.psoup.config), (stream,))
        write(folder, spec, table, [time for time, _ in entries], cuts, beforehand, incarnation, folds)
        job = f"job {self.attached + self.refused}"
        outcome = "OutOfRange" if self._refused(entries) else None
        refusal = expected_refusal(lambda: attach(self.psoup, name, job, folder))  # type: ignore[arg-type]
        assert refusal == outcome, f"{action}: expected {outcome}, found {refusal}"
        if outcome is None:
            self.model.attach(entries)
            self.history += len(entries)
            self.attached += 1
            assert attach(self.psoup, name, job, folder).duplicate
        else:
            self.refused += 1
        shutil.rmtree(folder)

    def cover(self, action: Covering) -> None:
        """No answer changes; what was covered is found so."""
        assert isinstance(self.psoup, RestartingPSoup)
        queries = [standing.query_id for standing in self.standing.values()][:: action.every]
        if not queries:
            return
        folder = self.psoup.path.parent / f"cover-{self.psoup.path.name}"
        count = write_job(self.psoup, folder, queries)
        assert take(self.psoup, folder, self.declaration.name).chunks == count
        assert take(self.psoup, folder, self.declaration.name).chunks == 0, "what is there is not taken twice"
        assert not any(self.psoup.explain(query).source.uncovered for query in queries)
        self.covered += count
        shutil.rmtree(folder)

    def on_disk(self) -> int:
        """The number of standing queries' columns that the writer of the chunk found."""
        explained = [self.psoup.explain(standing.query_id) for standing in self.standing.values()]
        return sum(explanation.source.column_forms.get("on disk", 0) for explanation in explained)

    def _entries(self, action: History) -> list[tuple[int, Row]]:
        """Rows with times up to the first that there is, that one among them; past it to `overlap`."""
        source = random.Random(action.seed)
        bound = min((entry[0] for entry in self.model.accepted), default=self.clock.now())
        ends = [bound - source.choice((0, 0, 1, action.span)) * SECOND // 2]
        if action.overlap:
            ends.append(bound + 1)
        times = sorted([*ends, *(bound - source.randint(0, action.span * SECOND) for _ in range(action.count))])
        rows = make_rows(self.declaration, self.pools, len(times), 0, action.seed)
        place = self.declaration.time_column
        made = []
        for time, row in zip(times, rows, strict=True):
            made.append((time, row if place is None else (*row[:place], time, *row[place + 1 :])))
        return made

    def _refused(self, entries: list[tuple[int, Row]]) -> bool:
        model, clock = self.model, self.clock.now()
        first, last = entries[0][0], entries[-1][0]
        first_time = min((entry[0] for entry in model.accepted), default=last)
        system = self.declaration.time_column is None
        if last > first_time or last > clock + (0 if system else model.max_ahead):
            return True
        reached = last if model.watermark is None else max(model.watermark, last)
        now = max(reached, clock) if system else reached
        keep_rows, keep_seconds = self.declaration.keep_rows, self.declaration.keep_seconds
        if keep_seconds is not None and first < now - keep_seconds * SECOND:
            return True
        return keep_rows is not None and len(model.accepted) + len(entries) > keep_rows
