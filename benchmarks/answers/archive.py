"""Rows `archive.*`: queries over a stream that is on disk and not in memory, beside DuckDB over the same files.

The archive is made by the store, chunk by chunk, as a service makes it: Parquet files and their manifest. Then it is
opened as by a restart. A query is registered and invoked, and the rows are compared with DuckDB's.

    archive.q      one value of 1,000,000 in a random column: every chunk is read, one of its nine columns, and of the
                   about a hundred chunks with a match the rows that matched
    archive.zone   a range in a column that grows with time: the manifest excludes nearly all chunks
    archive.landmark.start   COUNT and SUM of a quarter of all tuples: the first answer after a start, which reads
                               what was folded before; archive.landmark.warm: the next ones
    archive.many.start.w16m    100,000 counts of a template over 16 M tuples, as a table, after a start; .warm, too

*Cold* means that the files are not in the page cache (`posix_fadvise`; what a disk of its own keeps is not ours), nor
columns in the service's. Memory is that of the whole process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target, beside, seconds
from benchmarks.tool.run import Run
from psoup.admission import Admission
from psoup.answer.invoke import invoke
from psoup.answer.table import invoke_table
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.engine.engine import Engine
from psoup.events.commands import CreateStream, Register, RegisterMany
from psoup.model import BIGINT, SECOND, Anchor, Bound, WindowClause
from psoup.values.columns import Column
from psoup_service.host.runner import TaskPool
from psoup_service.process.warmup import warm_up
from psoup_storage import DurableStore

MILLION = 1_000_000
CHUNK = 65_536
CREATE = (
    "CREATE STREAM s (k BIGINT, t BIGINT, a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, f BIGINT)"
    " RETENTION 1000000 ROWS ARCHIVE 1000000000 ROWS"
)
SELECT = "SELECT k, t, a, b, c, d, e, f FROM s WHERE {} BEGIN (START)"
KEY = 123_456
START = 1_700_000_000 * SECOND
SIZES = ("w1m", MILLION), ("w16m", 1 << 24), ("w100m", 100 * MILLION)
TINY = ("w1m", 2 * CHUNK + 999), ("w16m", 2 * CHUNK + 999), ("w100m", 3 * CHUNK)

TARGETS = {
    "archive.q.w100m": Target(value_at_most=2_000),
    "archive.landmark.start.w100m": Target(value_at_most=20),
    "archive.landmark.warm.w100m": Target(value_at_most=100),
}
LANDMARK = "SELECT count(*) AS n, CAST(sum(e) AS BIGINT) AS total FROM s WHERE a < 64"
COUNTS = "SELECT count(*) AS n FROM s WHERE k = ? BEGIN (START)"
MANY = "w16m"
"""The archive over which many queries are asked."""
PART = 512 * CHUNK
"""Tuples on disk that are folded at once: an invocation evaluates 67 million at most."""


def rows(run: Run) -> Iterator[Row]:
    """Rows for a small and a large archive; quick: 5 million tuples alone."""
    warm_up()
    for label, tuples in run.of(SIZES, (("w5m", 5 * MILLION),), TINY):
        with tempfile.TemporaryDirectory(prefix="psoup-bench-archive-") as folder:
            made = partial(_archive, Path(folder), label, tuples, run)
            names = ["archive.q", "archive.zone", "archive.landmark.start", "archive.landmark.warm"]
            names = ["archive.many.start", "archive.many.warm"] if label == MANY else names
            yield from run.part(made, *[f"{name}.{label}" for name in names])


def _archive(folder: Path, label: str, tuples: int, run: Run) -> Iterator[Row]:
    needed, free = tuples * 24, shutil.disk_usage(folder).free
    if free < 2 * needed:
        raise OSError(f"an archive of {tuples:,} tuples needs {needed:,} bytes, and {free:,} are free in {folder}")
    details = {"make_s": seconds(lambda: make(folder, tuples)), "tuples": tuples, "rss_before": resident()}
    files = sorted((folder / "chunks").iterdir())
    details["bytes"] = sum(file.stat().st_size for file in files)
    third, samples = tuples // 3, run.of(3, 3, 1)
    if label == MANY:
        names = [f"archive.many.{name}.{label}" for name in ("start", "warm")]
        queries = run.of(100_000, 100_000, 64)
        yield from run.part(partial(_many, folder, files, names, queries, details, samples), *names)
        return
    for kind, where in (("archive.q", f"k = {KEY}"), ("archive.zone", f"t >= {third} AND t < {third + 99}")):
        name = f"{kind}.{label}"
        yield from run.part(partial(_query, folder, files, name, where, details, samples), name)
    names = [f"archive.landmark.{name}.{label}" for name in ("start", "warm")]
    yield from run.part(partial(_landmark, folder, files, names, tuples, details, samples), *names)


def _query(
    folder: Path, files: list[Path], name: str, where: str, details: dict[str, Any], samples: int
) -> Iterator[Row]:
    """Cold and warm, from a service that has just started, and from DuckDB."""
    ours, theirs, warm, opens = list[float](), list[float](), list[float](), list[float]()
    for _ in range(samples):
        forget(files)
        started = time.perf_counter()
        soup = Opened(folder)
        opens.append(1_000 * (time.perf_counter() - started))
        query = soup.register(SELECT.format(where))
        opened = resident()
        ours.append(1_000 * seconds(partial(soup.ask, query)))
        warm.append(1_000 * seconds(partial(soup.ask, query)))
        answer, after = soup.ask(query), resident()
        soup.close()
        forget(files)
        theirs.append(1_000 * seconds(partial(peer, folder, where)))
    assert answer.equals(peer(folder, where).cast(answer.schema)), f"{name}: the rows differ from DuckDB's"
    more = {"rows": answer.num_rows, "warm_ms": Sample.of(warm).median, "open_ms": Sample.of(opens).median}
    more |= {"rss_open": opened, "rss_after": after}
    peers = [("DuckDB, the same files", Sample.of(theirs))]
    yield from beside(name, Sample.of(ours), "ms", peers, target=TARGETS.get(name), details=details | more)


def _landmark(
    folder: Path, files: list[Path], names: list[str], tuples: int, details: dict[str, Any], samples: int
) -> Iterator[Row]:
    """The answers of a service whose query was asked while the archive grew: the first after a start, and later
    ones.
    """
    soup = Opened(folder)
    query = soup.register(f"{LANDMARK} BEGIN (START)")
    folding = seconds(lambda: [soup.ask(query, _part(first, tuples)) for first in range(0, tuples, PART)])
    soup.close()
    first, later, theirs = list[float](), list[float](), list[float]()
    for _ in range(samples):
        forget([*files, *folder.glob("folds/*")])
        soup = Opened(folder)
        query = soup.register(f"{LANDMARK} BEGIN (START)")
        first.append(1_000 * seconds(partial(soup.ask, query)))
        answer, reads = soup.ask(query), soup.store.archive_reads
        later += [1e6 * seconds(partial(soup.ask, query)) for _ in range(31)]
        soup.close()
        theirs.append(1_000 * seconds(partial(_total, folder)))
    assert answer.equals(_total(folder).cast(answer.schema)), f"{names[0]}: the sums differ from DuckDB's"
    peer, peer_us = "DuckDB, the same files", Sample.of([1_000 * one for one in theirs])
    more = {**details, "folding_s": folding, "columns_read": reads, "folds": len(list(folder.glob("folds/*")))}
    started, warm = names
    yield from beside(started, Sample.of(first), "ms", [(peer, Sample.of(theirs))], (), TARGETS.get(started), more)
    yield from beside(warm, Sample.of(later), "us", [(peer, peer_us)], (), TARGETS.get(warm), more)


def _many(
    folder: Path, files: list[Path], names: list[str], queries: int, details: dict[str, Any], samples: int
) -> Iterator[Row]:
    """The answers of a service whose queries were asked as a table while the archive grew: the first after a start, and
    later ones.
    """
    places, first, later, theirs = np.arange(queries), list[float](), list[float](), list[float]()

    def started() -> tuple[Opened, Callable[[], pa.Table]]:
        soup = Opened(folder)
        ids = soup.register_many(COUNTS, pa.table({"k": places}))
        return soup, partial(soup.ask_all, ids)

    def counted() -> pa.Table:
        with duckdb.connect() as connection:
            connection.register("q", pa.table({"_query": places, "k": places}))
            return connection.sql(
                f"SELECT _query, count(s.k) AS n FROM q LEFT JOIN read_parquet('{folder}/chunks/*.parquet') AS s"
                " ON s.k = q.k GROUP BY _query ORDER BY _query"
            ).to_arrow_table()

    soup, ask = started()
    folding = seconds(ask)
    ask()
    soup.close()
    for _ in range(samples):
        forget([*files, *folder.glob("folds/*")])
        soup, ask = started()
        first.append(1_000 * seconds(ask))
        ask()
        answer = ask()
        later += [1_000 * seconds(ask) for _ in range(9)]
        soup.close()
        theirs.append(1_000 * seconds(counted))
    assert answer.equals(counted().cast(answer.schema)), f"{names[0]}: the counts differ from DuckDB's"
    peers = [("DuckDB, one join with the queries, the same files", Sample.of(theirs))]
    more = {**details, "folding_s": folding, "queries": queries}
    for name, sample in zip(names, (first, later), strict=True):
        yield from beside(name, Sample.of(sample), "ms", peers, details=more)


def _total(folder: Path) -> pa.Table:
    """The same sums from DuckDB."""
    with duckdb.connect() as connection:
        source = f"FROM read_parquet('{folder}/chunks/*.parquet')"
        return connection.execute(LANDMARK.replace("FROM s", source)).to_arrow_table()


def _part(first: int, tuples: int) -> WindowClause:
    """The window of a part of all tuples."""
    begin, end = (Bound(Anchor.NOW, rows=tuples - at) for at in (first, min(first + PART, tuples)))
    return WindowClause(begin, end)


def make(folder: Path, tuples: int) -> None:
    """Write the archive, as a service with this stream leaves it."""
    store, admission = DurableStore(folder), Admission(archive=True)
    event = admission.prepare(CreateStream(CREATE), START).event
    assert event is not None
    store.append([event])
    spec, chance = event.spec, np.random.default_rng(7)  # type: ignore[union-attr]
    for number, first in enumerate(range(0, tuples, CHUNK)):
        count = min(CHUNK, tuples - first)
        ids = np.arange(first, first + count)
        values = [chance.integers(0, MILLION, count), ids + chance.integers(0, 1_000, count)]
        values += [chance.integers(0, 1 << bits, count) for bits in (8, 8, 16, 16, 20, 20)]
        columns = tuple(Column(BIGINT, column) for column in values)
        nbytes = 8 * count + sum(column.nbytes for column in columns)
        store.keep(1, spec, ChunkView(number, Places(first, len(ids)), START + ids, columns, nbytes), 0)
    store.close()


class Opened:
    """The archive after a start, with an engine on it."""

    def __init__(self, folder: Path) -> None:
        config = EngineConfig()
        self.store = DurableStore(folder, hot_bytes=config.memory_bytes // 2)
        self.admission = Admission(config, archive=True)
        self._pool = TaskPool(len(os.sched_getaffinity(0)))
        self.engine = Engine(config, self._pool, self.store.keep)
        for event in self.store.read():
            self.admission.replay(event)
            self.engine.apply([event])

    def close(self) -> None:
        """Close the store, and end the threads."""
        self.store.close()
        self._pool.close()

    def register(self, statement: str) -> int:
        """A query; returns its ID."""
        done = self.admission.prepare(Register(statement), START)
        assert done.event is not None
        self.engine.apply([done.event])
        return done.acknowledgement.query_id  # type: ignore[attr-defined]

    def register_many(self, statement: str, values: pa.Table) -> np.ndarray:
        """A query for each row of values; returns their IDs."""
        done = self.admission.prepare(RegisterMany([statement], values), START)
        assert done.event is not None
        self.engine.apply([done.event])
        acknowledgement = done.acknowledgement
        return np.arange(acknowledgement.first_id, acknowledgement.first_id + acknowledgement.count)  # type: ignore[attr-defined]

    def ask_all(self, queries: np.ndarray) -> pa.Table:
        """The answers of many queries."""
        return invoke_table(self.engine.snapshot(), queries, tenant="default", now=START + 10**12).to_table()

    def ask(self, query: int, window: WindowClause | None = None) -> pa.Table:
        """The answer."""
        return invoke(self.engine.snapshot(), query, tenant="default", now=START + 10**12, window=window).to_table()


def peer(folder: Path, where: str) -> pa.Table:
    """The same rows from DuckDB, which has never seen the files before."""
    with duckdb.connect() as connection:
        columns = SELECT.partition(" FROM")[0]
        query = f"{columns} FROM read_parquet('{folder}/chunks/*.parquet') WHERE {where} ORDER BY _time"
        return connection.execute(query).to_arrow_table()


def forget(files: list[Path]) -> None:
    """Take the files out of the page cache."""
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
