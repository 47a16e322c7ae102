"""Rows `join.left.*`, `join.absent.*`, `join.sets.*`: rows without a partner, and set operations, beside DuckDB.

    join.left.w65536.p2         LEFT JOIN by a key, 2 % of each side selected; .p10; also beside the inner join
    join.absent.band.w1m.p2     NOT EXISTS with a band of times, 2 % of each side
    join.absent.in.w65536       NOT IN of all keys of two windows
    join.sets.except.w65536     EXCEPT of all keys of two windows

DuckDB runs the same statement from scratch over tables with exactly the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.joins.joins import BATCH, MILLION, NEAR, OPEN, SELECTED, WINDOW, Case
from benchmarks.peers.scan import in_order
from benchmarks.peers.sides import Integers, Peer
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run

TARGETS = {
    "join.left.w65536.p2": 8,
    "join.left.w65536.p10": 5,
    "join.absent.band.w1m.p2": 5,
    "join.absent.in.w65536": 2,
    "join.sets.except.w65536": 1,
}
"""The least ratio to DuckDB of each row."""
LEFT_OF_INNER = 0.7
"""The rate of a LEFT JOIN beside the inner join's, at least."""


@dataclass(slots=True, weakref_slot=True)
class Stated(Case):
    """A case with a statement of its own; `{}` in it stands for the window of a stream."""

    text: str = ""

    def statement(self, window: str) -> str:
        """The statement, with this text for each window."""
        return self.text.replace("{}", window)


def rows(run: Run) -> Iterator[Row]:
    """All rows."""
    repeats, window = run.of(31, 11, 1), run.of(WINDOW, WINDOW, BATCH)
    for share in ("p2", "p10"):
        name = f"join.left.w65536.{share}"
        yield from run.part(partial(_left, name, window, SELECTED[share], repeats), name)
    many = run.of(MILLION, MILLION // 8, 2 * BATCH)
    cases: dict[str, Callable[[], Stated]] = {
        "join.absent.band.w1m.p2": partial(_band, many, SELECTED["p2"]),
        "join.absent.in.w65536": partial(_members, window, "SELECT k, a FROM r{} WHERE k NOT IN (SELECT k FROM s{})"),
        "join.sets.except.w65536": partial(_members, window, "SELECT k FROM r{} EXCEPT SELECT k FROM s{}"),
    }
    for name, make in cases.items():
        yield from run.part(partial(_beside, name, make, run.of(11, 7, 1)), name)


def _beside(name: str, make: Callable[[], Stated], repeats: int) -> Iterator[Row]:
    """The row beside DuckDB."""
    case = make()
    query, peers = case.load(), case.peers()
    _check(name, case, query, peers)
    ours, theirs = _taken([lambda: case.local.invoke(query).to_table(), peers[0].join], repeats)
    details = {"answer_rows": case.local.invoke(query).to_table().num_rows}
    yield Row(name, ours, "us", peers[0].name, theirs, Target(at_least=TARGETS[name]), "", details)
    peers[0].close()


def _left(name: str, window: int, passing: int, repeats: int) -> Iterator[Row]:
    """A LEFT JOIN beside DuckDB's, and beside the inner join of the same rows in the same engine."""
    streams = {stream: _keys(stream, window, window // 8) for stream in "rs"}
    conditions = f"r.k = s.k AND s.b < {passing} WHERE r.a < {passing}"
    case = Stated(window, streams, "", "", text=f"SELECT r.k, r.a, s.b FROM r{{}} LEFT JOIN s{{}} ON {conditions}")
    query, peers = case.load(), case.peers()
    _check(name, case, query, peers)
    inner = case.local.register(case.statement(f" [ROWS {window}]").replace("LEFT JOIN", "JOIN"))
    calls = [lambda: case.local.invoke(query).to_table(), peers[0].join, lambda: case.local.invoke(inner).to_table()]
    ours, theirs, inside = _taken(calls, repeats)
    details = {
        "answer_rows": case.local.invoke(query).to_table().num_rows,
        "inner_rows": case.local.invoke(inner).to_table().num_rows,
    }
    yield Row(name, ours, "us", peers[0].name, theirs, Target(at_least=TARGETS[name]), "", details)
    yield Row(name, ours, "us", "PSoup, the inner join", inside, Target(at_least=LEFT_OF_INNER), "", details)
    peers[0].close()


def _taken(calls: list[Callable[[], object]], repeats: int) -> list[Sample]:
    """Microseconds of each call; they take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for spent, call in zip(times, calls, strict=True):
            call()  # the engine before has filled the caches with its data
            spent.append(1e6 * seconds(call))
    return [Sample.of(spent) for spent in times]


def _check(name: str, case: Stated, query: int, peers: list[Peer]) -> None:
    ours = _integers(case.local.invoke(query).to_table())
    for peer in peers:
        if not np.array_equal(in_order(ours), in_order(_integers(peer.join()))):
            raise AssertionError(f"{peer.name} disagrees on {name}")


def _integers(table: pa.Table) -> Integers:
    """The columns; NULL is -1, which no column has."""
    return np.stack([pc.fill_null(column, -1).to_numpy() for column in table.columns])


def _keys(stream: str, window: int, values: int) -> dict[str, Integers]:
    """Keys below `values`, and a value that conditions are about."""
    rng = np.random.default_rng([5, ord(stream)])
    return {
        "k": rng.integers(0, values, window + OPEN),
        {"r": "a", "s": "b"}[stream]: rng.integers(0, 1_000, window + OPEN),
    }


def _members(window: int, text: str) -> Stated:
    """Two windows of keys: a third of the keys of each is not in the other."""
    return Stated(window, {stream: _keys(stream, window, window) for stream in "rs"}, "", "", text=text)


def _band(window: int, passing: int) -> Stated:
    """Tuples without one of the other stream that is near in time: one in seven of those selected."""
    rng = np.random.default_rng(6)
    streams = {}
    for stream, time, value in (("r", "t", "a"), ("s", "u", "b")):
        times = np.sort(rng.integers(0, 1_000 * (window + OPEN), window + OPEN))
        streams[stream] = {time: times, value: rng.integers(0, 1_000, window + OPEN)}
    near = f"s.u BETWEEN r.t - {NEAR} AND r.t + {NEAR}"
    text = (
        f"SELECT r.t, r.a FROM r{{}} WHERE r.a < {passing}"
        f" AND NOT EXISTS (SELECT 1 FROM s{{}} WHERE s.b < {passing} AND {near})"
    )
    return Stated(window, streams, "", "", text=text)
