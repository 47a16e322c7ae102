"""Rows `join.*`: how fast the answer of a join of standing selections is there, as an Arrow table.

    join.invoke.w65536.p2    two windows, one key of 8 tuples a side, 2 % of each side selected; .p10, .all; .w1m
    join.band.w65536.p2      the same, by times that are near, without a key
    join.nway.star4          four windows, a key of one tuple a side on average; .chain4
    join.hotkey.limit        one key on a tenth of both sides: LIMIT 100; .first: the first rows of all of them

PSoup keeps the matching tuples of each side, and finds the pairs at the invocation. Engines select and join from
scratch over tables with exactly the windows. A window ends in an open chunk and reaches into sealed ones.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.peers import Missing, pathway
from benchmarks.peers.scan import in_order
from benchmarks.peers.sides import DuckDBSides, Frames, Peer, PolarsSides
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup_service.host.runner import TaskPool

BATCH, OPEN = 4_096, 16_384
WINDOW, MILLION = 65_536, 1_048_576
NEAR = 50_000
SELECTED = {"p2": 20, "p10": 100, "all": 1_000}
"""Values of 1,000 that a side's condition lets pass."""

TARGETS: dict[str, dict[str, float]] = {
    "join.invoke.w65536.p2": {"Polars": 5, "DuckDB": 20},
    "join.invoke.w65536.p10": {"Polars": 4, "DuckDB": 12},
    "join.invoke.w65536.all": {"Polars": 1, "DuckDB": 3},
    "join.invoke.w1m.p2": {"Polars": 6, "DuckDB": 10},
    "join.invoke.w1m.p10": {"Polars": 3, "DuckDB": 5},
    "join.invoke.w1m.all": {"Polars": 1.5, "DuckDB": 1.2},
    "join.band.w65536.p2": {"Polars": 10, "DuckDB": 20},
    "join.nway.star4": {"DuckDB": 3},
    "join.nway.chain4": {"DuckDB": 3},
}
LIMIT_US, FIRST_US = 2_000, 20_000


@dataclass(slots=True, weakref_slot=True)
class Case:
    """A join: the tuples of each stream, FROM with windows of `window` tuples, and what peers do instead.

    Its engine uses every core; the threads end with the case.
    """

    window: int
    streams: dict[str, dict[str, Any]]
    select: str
    where: str
    frames: Callable[[Frames], pl.DataFrame] | None = None
    keep_pairs: bool = False
    local: LocalPSoup = field(init=False)

    def __post_init__(self) -> None:
        pool = TaskPool(len(os.sched_getaffinity(0)))
        self.local = LocalPSoup(run=pool)
        weakref.finalize(self, pool.close)

    def load(self) -> int:
        """Register the join and push all tuples; the query's ID."""
        for name, columns in self.streams.items():
            self.local.execute(f"CREATE STREAM {name} ({', '.join(f'{column} BIGINT' for column in columns)})")
        query: int = self.local.register(self.statement(f" [ROWS {self.window}]"), keep_pairs=self.keep_pairs)
        tables = {name: pa.table(columns) for name, columns in self.streams.items()}
        for start in range(0, max(map(len, tables.values())), BATCH):
            for name, table in tables.items():
                self.local.push(name, table.slice(start, BATCH))
        self.local.maintain()
        return query

    def statement(self, window: str) -> str:
        """The SELECT, with this text after the name of each stream."""
        return f"SELECT {self.select} FROM {', '.join(f'{name}{window}' for name in self.streams)} WHERE {self.where}"

    def peers(self) -> list[Peer]:
        """The engines over the windows' tuples."""
        windows = {name: pa.table(columns)[-self.window :] for name, columns in self.streams.items()}
        here: list[Peer] = [DuckDBSides(windows, self.statement(""))]
        return here if self.frames is None else [*here, PolarsSides(windows, self.frames)]


def rows(run: Run) -> Iterator[Row]:
    """All rows; quick ones are of the smaller window."""
    repeats = run.of(31, 11, 1)
    windows = {"65536": run.of(WINDOW, WINDOW, BATCH), "1m": run.of(MILLION, 0, 2 * BATCH)}
    for label, window in windows.items():
        for share, passing in SELECTED.items() if window else ():
            name, few = f"join.invoke.w{label}.{share}", window == MILLION and share == "all"
            case = partial(keyed, window, passing)
            yield from run.part(partial(beside_peers, name, case, 5 if few else repeats), name)
    window = run.of(WINDOW, WINDOW, BATCH)
    name = "join.band.w65536.p2"
    yield from run.part(partial(beside_peers, name, partial(_near, window, SELECTED["p2"]), repeats), name)
    if not run.tiny:  # its process takes seconds to start
        yield from run.part(partial(_beside_pathway, name, window, repeats), name)
    for shape in ("star", "chain"):
        name = f"join.nway.{shape}4"
        yield from run.part(partial(beside_peers, name, partial(several, window, 4, shape), repeats), name)
    names = ("join.hotkey.limit", "join.hotkey.first")
    yield from run.part(partial(_hot_key, window, repeats), *names)


def beside_peers(name: str, make: Callable[[], Case], repeats: int) -> Iterator[Row]:
    """A row for each peer, each with its own target; they take turns."""
    case = make()
    query, peers = case.load(), case.peers()
    check(case, query, peers)
    calls = [lambda: case.local.invoke(query).to_table(), *(peer.join for peer in peers)]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for spent, call in zip(times, calls, strict=True):
            call()  # the engine before has filled the caches with its data
            spent.append(1e6 * seconds(call))
    ours, *theirs = map(Sample.of, times)
    details = {"answer_rows": case.local.invoke(query).to_table().num_rows}
    for peer, sample in zip(peers, theirs, strict=True):
        least = TARGETS.get(name, {}).get(peer.name)
        target = None if least is None else Target(at_least=least)
        yield Row(name, ours, "us", peer.name, sample, target, "", details)
        peer.close()


def _beside_pathway(name: str, window: int, repeats: int) -> Iterator[Row]:
    """The band beside Pathway's interval join, which is given only what is selected, as a stream, and counts."""
    case = _near(window, SELECTED["p2"])
    query = case.load()
    ours = Sample.of([1e6 * seconds(lambda: case.local.invoke(query).to_table()) for _ in range(repeats)])
    times = []
    for stream, time, value in (("r", "t", "a"), ("s", "u", "b")):
        columns = {column: values[-window:] for column, values in case.streams[stream].items()}
        times.append(columns[time][columns[value] < SELECTED["p2"]])
    tuples = np.stack([np.repeat([0, 1], list(map(len, times))), np.concatenate(times)])
    tuples = tuples[:, np.argsort(tuples[1], kind="stable")]
    rows, label = case.local.invoke(query).to_table().num_rows, "Pathway, interval join of the selected, counted"
    try:
        theirs = pathway.band(tuples, tuples.shape[1], NEAR, rows)
    except Missing as absent:
        yield Row(name, ours, "us", absent.name, None, None, f"{absent.name} is not here: {absent.why}")
    else:
        yield Row(name, ours, "us", label, theirs.scaled(1e6), None, "", {"answer_rows": rows})


def _hot_key(window: int, repeats: int) -> Iterator[Row]:
    """LIMIT 100 of 43 million, and the first rows of all of them."""
    rng = np.random.default_rng(7)
    case = Case(window, {name: _side(rng, window, name) for name in ("r", "s")}, "r.k, r.a, s.b", "r.k = s.k")
    for columns in case.streams.values():
        columns["k"][rng.random(len(columns["k"])) < 0.1] = 7
    everything = case.load()
    few = case.local.register(
        f"SELECT r.k, r.a, s.b FROM r [ROWS {window}], s [ROWS {window}] WHERE r.k = s.k LIMIT 100"
    )

    def limited() -> object:
        return case.local.invoke(few).to_table()

    def first() -> object:
        return next(case.local.invoke(everything).batches())

    for name, call, target in (("limit", limited, LIMIT_US), ("first", first, FIRST_US)):
        call()
        ours = Sample.of([1e6 * seconds(call) for _ in range(repeats)])
        yield Row(f"join.hotkey.{name}", ours, "us", "-", None, Target(value_at_most=target))


def check(case: Case, query: int, peers: list[Peer]) -> None:
    ours = np.stack([column.to_numpy() for column in case.local.invoke(query).to_table().columns])
    for peer in peers:
        if not np.array_equal(in_order(ours), in_order(peer.answer())):
            raise AssertionError(f"{peer.name} disagrees on {case.where}")


def _side(rng: np.random.Generator, window: int, name: str) -> dict[str, Any]:
    """A key of which a window has eight tuples on average, and a value that conditions are about."""
    return {
        "k": rng.integers(0, window // 8, window + OPEN),
        {"r": "a", "s": "b"}[name]: rng.integers(0, 1_000, window + OPEN),
    }


def keyed(window: int, passing: int) -> Case:
    rng = np.random.default_rng(5)

    def joined(frames: Frames) -> pl.DataFrame:
        return frames["r"].filter(pl.col("a") < passing).join(frames["s"].filter(pl.col("b") < passing), on="k")

    where = f"r.k = s.k AND r.a < {passing} AND s.b < {passing}"
    return Case(window, {name: _side(rng, window, name) for name in ("r", "s")}, "r.k, r.a, s.b", where, joined)


def _near(window: int, passing: int) -> Case:
    rng = np.random.default_rng(6)
    sides = {name: _side(rng, window, name) for name in ("r", "s")}
    times = {name: np.sort(rng.integers(0, 1_000 * (window + OPEN), window + OPEN)) for name in sides}
    streams = {"r": {"t": times["r"], "a": sides["r"]["a"]}, "s": {"u": times["s"], "b": sides["s"]["b"]}}

    def joined(frames: Frames) -> pl.DataFrame:
        near = (pl.col("u") >= pl.col("t") - NEAR, pl.col("u") <= pl.col("t") + NEAR)
        return frames["r"].filter(pl.col("a") < passing).join_where(frames["s"].filter(pl.col("b") < passing), *near)

    near = f"s.u BETWEEN r.t - {NEAR} AND r.t + {NEAR}"
    return Case(window, streams, "r.t, r.a, s.u, s.b", f"{near} AND r.a < {passing} AND s.b < {passing}", joined)


def several(window: int, count: int, shape: str) -> Case:
    rng = np.random.default_rng(8)
    names = [f"s{place}" for place in range(count)]
    streams = {name: {own: rng.integers(0, window, window + OPEN) for own in ("k", "j")} for name in names}
    before = [names[0]] * count if shape == "star" else names
    column = "k" if shape == "star" else "j"
    where = " AND ".join(f"{before[n]}.{column} = {name}.k" for n, name in enumerate(names[1:]))
    return Case(window, streams, ", ".join(f"{name}.k AS k_{name}, {name}.j AS j_{name}" for name in names), where)
