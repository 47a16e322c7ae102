"""Rows `join.registered.*`, `join.disk.*`, `join.growth.*`: joins over much that is there already, and how costs grow.

    join.registered.w16m     a join registered over 16 M tuples of each stream, and its first answer
    join.disk.w4m            both streams on disk, one in 5,000 tuples of a side selected; DuckDB over the same files
    join.disk.w100m          the same over 200 M tuples: only if it is asked for (`--only join.disk`)
    join.growth.queries.N    bytes allocated for each of N joins, beside its sides registered as selections
    join.growth.window.N     an answer over windows of N tuples, sides of 2 %
    join.growth.streams.N    an answer over a chain of N streams

The first peer of a point of `window` and `streams` is the point before, scaled as if the cost were proportional.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.answers.archive import CHUNK, START, Opened, forget
from benchmarks.arrival.growth import point
from benchmarks.joins.joins import BATCH, Case, check, keyed, several
from benchmarks.joins.joins_many import PARAMETERS
from benchmarks.peers.sides import Frames
from benchmarks.tool.measure import Row, Sample, Target, beside, seconds
from benchmarks.tool.run import Run
from psoup.admission import Admission
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.events.commands import CreateStream, Register
from psoup.local import LocalPSoup
from psoup.model import BIGINT
from psoup.values.columns import Column
from psoup.work.runner import Runner
from psoup_service.host.runner import TaskPool
from psoup_service.process.warmup import warm_up
from psoup_storage import DurableStore

MILLION = 1_000_000
LATE = 1 << 24
ON_DISK = ("w4m", 4 * MILLION), ("w100m", 100 * MILLION)
MOST_ON_DISK = 4 * MILLION
"""Tuples of a stream on disk that are made in every run: the others take a minute and 2 GB."""
BLOCK = 1_024
"""Joins that are registered at once."""
MOST_BESIDE = 300
"""Bytes that a join may take beside its sides."""
WINDOWS = tuple(2**power for power in range(12, 23, 2))
QUERIES = (1, 64, 1_024, 8_192, 65_536)
_FIXED = 1_024
"""Joins from which on what a block takes by itself, some 100 KB, does not hide what a join takes."""
STREAMS = (2, 3, 4, 6, 8)


def rows(run: Run) -> Iterator[Row]:
    """All rows; quick ones are points of small growth, and a small archive."""
    late = run.of(LATE, 0, 8 * BATCH)
    if late:
        yield from run.part(partial(_registered, "join.registered.w16m", late), "join.registered.w16m")
    for label, tuples in run.of(ON_DISK, (("w1m", MILLION),), (("w4m", CHUNK + 999),)):
        name = f"join.disk.{label}"
        if tuples <= MOST_ON_DISK or run.only:
            yield from run.part(partial(_on_disk, name, tuples, run.of(3, 3, 1)), name)
    for queries in run.of(QUERIES, QUERIES[:3], (BLOCK,)):
        name = f"join.growth.queries.{queries}"
        yield from run.part(partial(_memory, name, queries), name)
    windows, streams = run.of(WINDOWS, WINDOWS[:2], WINDOWS[:1]), run.of(STREAMS, STREAMS[:2], STREAMS[:1])
    repeats, window = run.of(5, 3, 1), run.of(WINDOWS[2], WINDOWS[2], WINDOWS[0])
    yield from _curve(run, "join.growth.window", windows, lambda size: keyed(size, 20), repeats)
    yield from _curve(run, "join.growth.streams", streams, lambda count: several(window, count, "chain"), repeats)


def _late(tuples: int, run: Runner) -> tuple[LocalPSoup, dict[str, pa.Table]]:
    """Two streams with so many tuples each, and these."""
    rng = np.random.default_rng(11)
    local, streams = LocalPSoup(run=run), dict[str, pa.Table]()
    for stream, value in (("r", "a"), ("s", "b")):
        local.execute(f"CREATE STREAM {stream} (k BIGINT, {value} BIGINT)")
        columns = {"k": rng.integers(0, tuples // 8, tuples), value: rng.integers(0, 1_000, tuples)}
        streams[stream] = pa.table(columns)
    size = min(CHUNK, tuples // 2)
    for start in range(0, tuples, size):
        for stream, table in streams.items():
            local.push(stream, table.slice(start, size))
        local.maintain()
    return local, streams


def _registered(name: str, tuples: int) -> Iterator[Row]:
    """Register a join and take its first answer; engines do the same work for each statement, all on every core."""
    pool = TaskPool(len(os.sched_getaffinity(0)))
    local, streams = _late(tuples, pool)
    frames = {stream: pl.DataFrame(table) for stream, table in streams.items()}

    with duckdb.connect() as connection:
        for stream, table in streams.items():
            connection.register(f"arrow_{stream}", table)
            connection.execute(f"CREATE TABLE {stream} AS SELECT * FROM arrow_{stream}")
            connection.unregister(f"arrow_{stream}")

        def where(low: int) -> str:
            return f"r.k = s.k AND r.a >= {low} AND r.a < {low + 20} AND s.b >= {low} AND s.b < {low + 20}"

        def ours(low: int) -> pa.Table:
            query = local.register(f"SELECT r.k, r.a, s.b FROM r, s WHERE {where(low)}")
            return local.invoke(query).to_table()

        def duck(low: int) -> pa.Table:
            return connection.sql(f"SELECT r.k, r.a, s.b FROM r, s WHERE {where(low)}").to_arrow_table()

        def polars(low: int) -> pl.DataFrame:
            return _selected(frames, "r", "a", low).join(_selected(frames, "s", "b", low), on="k")

        calls: dict[str, Callable[[int], pa.Table | pl.DataFrame]] = {"PSoup": ours, "DuckDB": duck, "Polars": polars}
        warm = [_in_order(pa.table(call(7))) for call in calls.values()]
        if not all(np.array_equal(warm[0], other) for other in warm[1:]):
            raise AssertionError(f"{name}: the answers differ")
        times: dict[str, list[float]] = {peer: [] for peer in calls}
        for low in (100, 300, 500):  # each once: an answer that is kept would be found again
            for peer, call in calls.items():
                times[peer].append(1e3 * seconds(partial(call, low)))
    pool.close()
    samples = {peer: Sample.of(spent) for peer, spent in times.items()}
    details = {"answer_rows": warm[0].shape[1], "tuples": 2 * tuples}
    for peer in ("Polars", "DuckDB"):
        target = Target(at_least=1.0) if peer == "Polars" else None
        yield Row(name, samples["PSoup"], "ms", peer, samples[peer], target, "", details)


def _selected(frames: Frames, stream: str, value: str, low: int) -> pl.DataFrame:
    return frames[stream].filter((pl.col(value) >= low) & (pl.col(value) < low + 20))


def _in_order(table: pa.Table) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    columns = [column.to_numpy() for column in table.columns]
    order = np.lexsort(columns)
    return np.stack([column[order] for column in columns])


def _on_disk(name: str, tuples: int, samples: int) -> Iterator[Row]:
    """A service that has just started, cold files; DuckDB cold over the same ones."""
    warm_up()
    where = "r.k = s.k AND r.v < 200 AND s.v < 200"
    with tempfile.TemporaryDirectory(prefix="psoup-bench-join-") as path:
        folder = Path(path)
        made = seconds(lambda: _make(folder, tuples))
        files = sorted((folder / "chunks").iterdir())

        def duck() -> pa.Table:
            with duckdb.connect() as connection:
                r, s = (
                    f"read_parquet('{folder}/chunks/{stream}-*.parquet') {alias}"
                    for stream, alias in ((1, "r"), (2, "s"))
                )
                query = f"SELECT r.k, r.v, s.v AS w FROM {r}, {s} WHERE {where}"
                return connection.sql(query).to_arrow_table()

        ours, warm, theirs = list[float](), list[float](), list[float]()
        for _ in range(samples):
            forget(files)
            soup = Opened(folder)
            done = soup.admission.prepare(Register(f"SELECT r.k, r.v, s.v AS w FROM r, s WHERE {where}"), START)
            assert done.event is not None
            soup.engine.apply([done.event])
            query: int = done.acknowledgement.query_id  # type: ignore[attr-defined]
            ours.append(1e3 * seconds(partial(soup.ask, query)))
            warm.append(1e3 * seconds(partial(soup.ask, query)))
            answer = soup.ask(query)
            soup.close()
            forget(files)
            theirs.append(1e3 * seconds(duck))
        if not np.array_equal(_in_order(answer), _in_order(duck())):
            raise AssertionError(f"{name}: the rows differ from DuckDB's")
    details = {"rows": answer.num_rows, "make_s": made, "warm_ms": Sample.of(warm).median}
    peers = [("DuckDB, the same files", Sample.of(theirs))]
    yield from beside(name, Sample.of(ours), "ms", peers, target=Target(at_least=5), details=details)


def _make(folder: Path, tuples: int) -> None:
    """Two streams on disk, as a service leaves them."""
    store, admission = DurableStore(folder), Admission(archive=True)
    columns = "(k BIGINT, v BIGINT, x BIGINT, y BIGINT)"
    chance = np.random.default_rng(13)
    for stream, stream_id in (("r", 1), ("s", 2)):
        create = f"CREATE STREAM {stream} {columns} RETENTION 1000000 ROWS ARCHIVE 1000000000 ROWS"
        event = admission.prepare(CreateStream(create), START).event
        assert event is not None
        store.append([event])
        spec = event.spec  # type: ignore[union-attr]
        for number, first in enumerate(range(0, tuples, CHUNK)):
            count = min(CHUNK, tuples - first)
            values = [chance.integers(0, bound, count) for bound in (8_192, MILLION, 1 << 16, 1 << 20)]
            own = tuple(Column(BIGINT, column) for column in values)
            nbytes = 8 * count + sum(column.nbytes for column in own)
            times = START + np.arange(first, first + count)
            store.keep(stream_id, spec, ChunkView(number, Places(first, len(times)), times, own, nbytes), 0)
    store.close()


def _memory(name: str, queries: int) -> Iterator[Row]:
    """Bytes that a process allocates for each join, and for the two selections that are its sides."""
    ours, alone = _measured("joins", queries), _measured("sides", queries)
    peer = Sample.of([alone + MOST_BESIDE])
    details = {"bytes_of_sides": alone, "series": "join.growth.queries", "x": queries}
    target = Target(at_most=1.0) if queries >= _FIXED else None
    yield Row(name, Sample.of([ours]), "bytes", f"its sides, and {MOST_BESIDE}", peer, target, details=details)


def _measured(kind: str, queries: int) -> float:
    """`grown` in a process of its own, whose objects are allocated one by one, so that each byte is counted."""
    command, own = (
        [sys.executable, "-m", "benchmarks.joins.joins_large", kind, str(queries)],
        {"PYTHONMALLOC": "malloc"},
    )
    here = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=here, env=os.environ | own)
    return float(done.stdout)


def grown(kind: str, queries: int) -> float:
    """Bytes allocated for each of so many joins, or of selections like their sides."""
    if kind == "joins":
        statements = ["SELECT r.k, r.a, s.b FROM r [ROWS 65536], s [ROWS 65536] WHERE r.k = s.k" + PARAMETERS]
    else:
        parts = (("r", "a"), ("s", "b"))
        statements = [f"SELECT * FROM {n} [ROWS 65536] WHERE {v} >= ${n}0 AND {v} < ${n}1" for n, v in parts]
    rng = np.random.default_rng(12)
    local = LocalPSoup()
    for stream, value in (("r", "a"), ("s", "b")):
        local.execute(f"CREATE STREAM {stream} (k BIGINT, {value} BIGINT)")
    lows = rng.integers(0, 1 << 40, (2, queries + BLOCK))
    values = pa.table({"r0": lows[0], "r1": lows[0] + 20, "s0": lows[1], "s1": lows[1] + 20})

    def register(first: int, count: int) -> None:
        for statement in statements:
            names = [name for name in values.column_names if f"${name}" in statement]
            local.register_many(statement, values.select(names).slice(first, count))

    register(queries, BLOCK)
    local.maintain()
    gc.collect()
    before = _allocated()
    for first in range(0, queries, BLOCK):
        register(first, min(BLOCK, queries - first))
    gc.collect()
    return (_allocated() - before) / queries


class _Allocations(ctypes.Structure):
    """The statistics of glibc's allocator."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    )


def _allocated() -> int:
    """Bytes that are allocated in this process now."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Allocations
    reply = ask()
    return int(reply.uordblks) + int(reply.hblkhd)


def _curve(run: Run, name: str, points: tuple[int, ...], make: Callable[[int], Case], repeats: int) -> Iterator[Row]:
    """An answer at each point, beside the point before and DuckDB."""
    costs: dict[int, Sample] = {}

    def rows_at(x: int) -> Iterator[Row]:
        case = make(x)
        query, peers = case.load(), case.peers()
        check(case, query, peers)
        ours = Sample.of([1e6 * seconds(lambda: case.local.invoke(query).to_table()) for _ in range(repeats)])
        theirs = [(peer.name, Sample.of([1e6 * seconds(peer.join) for _ in range(repeats)])) for peer in peers]
        yield from point(name, x, ours, theirs, next(reversed(costs.items()), None), "us")
        costs[x] = ours
        for peer in peers:
            peer.close()

    for x in points:
        yield from run.part(partial(rows_at, x), f"{name}.{x}")


if __name__ == "__main__":
    print(grown(sys.argv[1], int(sys.argv[2])))
