"""Lives of a table whose power goes again and again: each start finds the rows of a whole number of batches.

    life 0 ──power cut──> files that survive ──> life 1 ──power cut──> …
             batch n: upserts and deletions that follow from n; acknowledged up to a, sent up to s
    start    rows of the batches 0 … m - 1, with a <= m <= s; also as of an earlier batch; goes on with batch m

See `psoup_testing.crash.lives`. Between batches chunks are stored, and versions that have ended leave them. Everything
follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.admission import Admission
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.data.thinning import worth_thinning
from psoup.data.versions import versions_of
from psoup.engine.engine import Engine
from psoup.events.commands import CreateStream, Push, Register
from psoup.model import SECOND
from psoup_storage import DurableStore
from psoup_testing.crash.faults import power, restore
from psoup_testing.crash.lives import chunk_disk
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again

CONFIG = EngineConfig(chunk_rows=64, shape=EAGER)
CREATE = "CREATE TABLE t (k BIGINT, x BIGINT, PRIMARY KEY (k))"
HISTORY = 20
"""Seconds, and batches: one comes each second."""
KEYS = 30
STEPS = 25
_START = 1_700_000_000 * SECOND


def batch_rows(number: int) -> list[tuple[int, int | None]]:
    """The upserts of a batch, and its deletions, which have None."""
    chance = random.Random(number)
    return [(key, None if chance.random() < 0.3 else number) for key in chance.sample(range(KEYS), 8)]


def time_of(number: int) -> int:
    """The time at which a batch comes."""
    return _START + number * SECOND


def open_rows(batches: int) -> dict[int, int]:
    """The rows of the table after so many batches."""
    return next(islice(rows_after(), batches, None))


def rows_after() -> Iterator[dict[int, int]]:
    """The rows of the table after no batch, after one, and so on."""
    rows = dict[int, int | None]()
    for number in count():
        yield {key: value for key, value in rows.items() if value is not None}
        rows |= dict(batch_rows(number))


def whole_batches(rows: dict[int, int], first: int, last: int) -> int | None:
    """The number of batches, from `first` to `last`, after which the table has these rows; None if there is none."""
    states = enumerate(islice(rows_after(), first, last + 1), first)
    return next((number for number, state in states if state == rows), None)


def rows_as_of(number: int, batches: int) -> dict[int, int]:
    """The rows at the time of a batch, if so many batches are known. A key's first version holds from the beginning."""
    rows = open_rows(number + 1)
    seen = {key for earlier in range(number + 1) for key, _ in batch_rows(earlier)}
    for key, value in (row for later in range(number + 1, batches) for row in batch_rows(later)):
        if key not in seen and value is not None:
            rows[key] = value
        seen.add(key)
    return rows


class TableLives:
    """A history. `problems`: the faults that were found. `thinned`: the number of chunks that lost ended versions."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._chance = folder, random.Random(seed)
        self._directory = folder / "0"
        self.acknowledged = self.sent = self.lives = self.stored = self.thinned = 0
        self.problems: list[str] = []

    def run(self, lives: int) -> list[str]:
        """Live so often, or until a fault is found; returns the faults."""
        while self.lives < lives and not self.problems:
            images = self._live()
            files, (self.acknowledged, self.sent, chunks) = self._chance.choice(images[-40:])
            self.lives += 1
            self._directory = restore(files, self._folder / str(self.lives))
            self._directory.chmod(0o700)
            (self._directory / "chunks").mkdir(mode=0o700)
            for name, content in chunks.items():
                (self._directory / "chunks" / name).write_bytes(content)
        return self.problems

    def _live(self) -> list[Any]:
        """Live once; returns the files that a power cut at each step would leave."""
        folder = self._directory / "chunks"
        with chunk_disk() as disk:
            disk.synced.update(present := {path.name for path in folder.glob("*")})
            disk.named.update(present)

            def note() -> Any:
                return self.acknowledged, self.sent, disk.survives(folder, self._chance)

            with power(self._chance.randrange(2**32), note) as database:
                disk.step = lambda operation: database.cut()
                with closing(DurableStore(self._directory, vfs=database.name)) as store:
                    self._play(TableLife(store))
                    database.cut()
                return database.images

    def _play(self, life: TableLife) -> None:
        if not life.exists:
            life.create()
        rows = life.rows(self.sent)
        whole = whole_batches(rows, self.acknowledged, self.sent)
        if whole is None:
            self.problems.append(f"life {self.lives}: the rows are of no number of batches: {rows}")
            return
        self.sent = self.acknowledged = whole
        history = range(max(whole - HISTORY, 0), whole)
        for earlier in self._chance.sample(history, min(len(history), 3)):
            if (rows := life.rows(whole, time_of(earlier))) != rows_as_of(earlier, whole):
                self.problems.append(f"life {self.lives}: as of batch {earlier}: {rows}")
        for _ in range(STEPS):
            self.sent += 1
            life.push(self.sent - 1)
            self.acknowledged = self.sent
            if self._chance.random() < 0.3:
                self.stored += life.maintain()
                self.thinned += life.thin(self.sent)


class TableLife:
    """Admission, store and engine of one life, in one thread."""

    def __init__(self, store: DurableStore) -> None:
        self._store = store
        self._admission, self._engine = Admission(CONFIG), Engine(CONFIG, keep=store.keep, thin=store.thin)
        for event in store.read():
            self._admission.replay(event)
            self._engine.apply([event])
        self.exists = self._engine.snapshot().queries.get(1) is not None

    def _do(self, command: Any, now: int) -> None:
        prepared = self._admission.prepare(command, now)
        assert prepared.event is not None
        self._store.append([prepared.event])
        self._engine.apply([prepared.event])

    def create(self) -> None:
        """Create the table, if a life before has not, and a query for its rows."""
        if not self._engine.snapshot().streams:
            self._do(CreateStream(f"{CREATE} HISTORY {HISTORY} SECONDS"), _START)
        self._do(Register("SELECT k, x FROM t"), _START)

    def push(self, number: int) -> None:
        """Send a batch. When this returns, it is acknowledged."""
        rows = batch_rows(number)
        columns = {"k": [key for key, _ in rows], "x": pa.array([value for _, value in rows], pa.int64())}
        self._do(Push("t", pa.table({**columns, "_deleted": [value is None for _, value in rows]})), time_of(number))

    def rows(self, batches: int, as_of: int | None = None) -> dict[int, int]:
        """The rows after so many batches, or at an earlier time."""
        now = time_of(batches)
        table = again(invoke, self._engine.snapshot(), 1, tenant="default", now=now, as_of=as_of).to_table()
        return dict(zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True))

    def maintain(self) -> int:
        """Store chunks, and do all other maintenance. Returns the number of chunks that were stored."""
        stored = 0
        while (task := self._engine.maintenance()) is not None:
            self._engine.install(task.compute())
            stored += task.name == "store"
        return stored

    def thin(self, batches: int) -> int:
        """Let versions leave that ended before HISTORY. All closed chunks are stored. Returns the number of chunks."""
        *closed, open_chunk = [entry.data for entry in self._engine.snapshot().by_id[1].chunks]
        edge, thinned = time_of(batches - 1 - HISTORY), 0
        for chunk in closed:
            versions = versions_of(chunk)
            ended = (versions.successors > 0) & (versions.successors < open_chunk.first_id) & (versions.ends < edge)
            if worth_thinning(chunk, int((~ended).sum())):
                task = self._engine.thin(1, chunk.number, np.flatnonzero(~ended))
                assert task is not None
                self._engine.install(task.compute())
                thinned += 1
        return thinned
