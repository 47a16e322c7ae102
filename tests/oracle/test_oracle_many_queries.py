"""Hundreds of queries at once: posting lists, merged parts, shards, slots used again; every answer by brute force.

    register some ─ push ─ merge ─ register more ─ push ─ unregister some ─ push ─ …   then: IDs of each query's tuples

DuckDB would take a second for each look at hundreds of queries; here a clause is also a Python function of a row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.plan.amounts import Amount
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import TIMES
from psoup_testing.suite.budget import SCALE, SEED, Budget, replayable
from psoup_testing.suite.sweeps import swept

Row = tuple[int | None, float | None, str | None, int]
Test = Callable[[Row], bool]

SYMBOLS = [f"s{n:02}" for n in range(40)]
NAMES = ("k", "x", "t", "n")


@dataclass(frozen=True, slots=True)
class Clause:
    """A WHERE clause and what it means."""

    sql: str
    test: Test


@dataclass(frozen=True, slots=True)
class Held:
    """A query that stands, and the ID of its first tuple."""

    query_id: int
    clause: Clause


def factor(source: random.Random) -> Clause:
    """One factor: equalities are frequent, as in an alert for each user."""
    at = source.randrange(4)
    name = NAMES[at]
    value: Any = (source.randrange(60), source.randrange(60) / 4, source.choice(SYMBOLS), source.randrange(1000))[at]
    written = f"'{value}'" if at == 2 else repr(value) + ("e0" if at == 1 else "")
    choice = source.randrange(9)
    if choice < 4:
        return Clause(f"{name} = {written}", lambda row: row[at] == value)
    if choice == 4:
        return Clause(f"{name} > {written}", lambda row: row[at] is not None and row[at] > value)
    if choice == 5:
        return Clause(f"{name} <> {written}", lambda row: row[at] is not None and row[at] != value)
    if choice == 6:
        return Clause(f"{name} IS NULL", lambda row: row[at] is None)
    if choice == 7 and at == 3:
        return Clause(f"n BETWEEN {value} AND {value + 30}", lambda row: value <= row[3] <= value + 30)
    low, high = source.randrange(60), source.randrange(60)
    return Clause(f"(k = {low} OR k = {high} OR n < {low})", lambda row: row[0] in (low, high) or row[3] < low)


def clause(source: random.Random) -> Clause:
    """A conjunction of one to three factors, or now and then one that needs every row looked at."""
    if source.random() < 0.05:
        rest = source.randrange(7)
        return Clause(f"(n * 3) % 7 = {rest}", lambda row: row[3] * 3 % 7 == rest)
    parts = [factor(source) for _ in range(source.choice((1, 1, 2, 3)))]
    return Clause(" AND ".join(part.sql for part in parts), lambda row: all(part.test(row) for part in parts))


def rows(source: random.Random, count: int) -> list[Row]:
    """Tuples with NULLs; `n` has none."""

    def maybe(value: Any) -> Any:
        return None if source.random() < 0.1 else value

    return [
        (
            maybe(source.randrange(60)),
            maybe(source.randrange(60) / 4),
            maybe(source.choice(SYMBOLS)),
            source.randrange(1000),
        )
        for _ in range(count)
    ]


def _narrow(source: random.Random) -> tuple[int, int]:
    low = source.randrange(1000)
    return low, low + source.choice((1, 1, 2, 3, 7))


def _below(value: Any, bound: Any) -> bool:
    return value is not None and bool(value < bound)


TEMPLATES: tuple[tuple[str, Callable[..., bool], Callable[[random.Random], tuple[Any, ...]]], ...] = (
    (
        "t = ? AND n >= ?",
        lambda t, n, row: row[2] == t and row[3] >= n,
        lambda source: (source.choice(SYMBOLS), source.randrange(1000)),
    ),
    ("n >= ? AND n < ?", lambda low, high, row: low <= row[3] < high, _narrow),
    (
        "k = ? AND x < ? AND t <> ?",
        lambda k, x, t, row: row[0] == k and _below(row[1], x) and row[2] is not None and row[2] != t,
        lambda source: (source.randrange(60), source.randrange(60) / 4, source.choice(SYMBOLS)),
    ),
    (
        "n IN (?, ?, ?) AND (k IS NULL OR x < ?)",
        lambda a, b, c, x, row: row[3] in (a, b, c) and (row[0] is None or _below(row[1], x)),
        lambda source: (*(source.randrange(1000) for _ in range(3)), source.randrange(60) / 4),
    ),
)


def table(tuples: Sequence[Row]) -> pa.Table:
    columns = list(zip(*tuples, strict=True))
    types = (pa.int64(), pa.float64(), pa.string(), pa.int64())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(NAMES))


class Crowd:
    """Many queries on one stream, and all tuples that came."""

    def __init__(self, config: EngineConfig, run: Any, source: random.Random) -> None:
        self.source = source
        self.soup = LocalPSoup(config) if run is None else LocalPSoup(config, run=run)
        self.soup.execute("CREATE STREAM s (k BIGINT, x DOUBLE, t TEXT, n BIGINT NOT NULL)")
        self.tuples: list[Row] = []
        self.held: list[Held] = []
        self.inactive = set[int]()

    def register(self, count: int) -> None:
        """So many new queries."""
        for _ in range(count):
            made = clause(self.source)
            self.held.append(Held(self.soup.register(f"SELECT _id FROM s WHERE {made.sql}"), made))

    def register_many(self, count: int) -> None:
        """So many queries of each template: enough of one kind that they are reached from the data."""
        for text, test, values in TEMPLATES:
            drawn = [values(self.source) for _ in range(count)]
            ids = self.soup.register_many(f"SELECT _id FROM s WHERE {text}", drawn)
            self.held += [Held(i, Clause(f"{text} {v}", partial(test, *v))) for i, v in zip(ids, drawn, strict=True)]

    def push(self, count: int) -> None:
        """So many new tuples."""
        new = rows(self.source, count)
        self.tuples += new
        self.soup.push("s", table(new))

    def unregister(self, count: int) -> None:
        """So many queries go."""
        for _ in range(min(count, len(self.held))):
            self.soup.unregister(self.held.pop(self.source.randrange(len(self.held))).query_id)

    def alter(self) -> None:
        """Half of the queries are kept in another way, and some of these in a third one."""
        ids = [each.query_id for each in self.held]
        some = self.source.sample(ids, len(ids) // 2)
        self.soup.alter_queries(some, amount=self.source.choice((*Amount, Amount.NONE)))
        self.inactive = set(some[: len(some) // 3])
        self.soup.alter_queries(ids, active=True)
        self.soup.alter_queries([*self.inactive], active=False)

    def compare(self) -> int:
        """Every query's answer, and the matches of a few tuples; returns how many were compared."""
        for held in self.held:
            wanted = [i for i, row in enumerate(self.tuples) if held.clause.test(row)]
            for _ in range(TIMES):
                found = self.soup.invoke(held.query_id).to_table().column(0).to_pylist()
                assert found == wanted, (
                    f"WHERE {held.clause.sql}: missing {set(wanted) - set(found)}, found {found[:20]}"
                )
        for tuple_id in self.source.sample(range(len(self.tuples)), 12):
            active = (each for each in self.held if each.query_id not in self.inactive)
            wanted = sorted(h.query_id for h in active if h.clause.test(self.tuples[tuple_id]))
            assert self.soup.matches("s", tuple_id) == wanted, f"tuple {tuple_id}: {self.tuples[tuple_id]}"
        self.soup.check()
        return len(self.held) + 12


class Pool:
    """A runner with three threads."""

    threads, handover = 3, 0

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads)

    def __call__(self, tasks: Sequence[Callable[[], None]]) -> None:
        for future in [self._pool.submit(task) for task in tasks]:
            future.result()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


CONFIGS = (
    EngineConfig(chunk_rows=256, delta_queries=32, shape=EAGER),
    EngineConfig(
        chunk_rows=128, piece_rows=50, block_rows=64, delta_queries=1024, dense_share=4, list_limit=16, shape=EAGER
    ),
    EngineConfig(chunk_rows=1024, delta_queries=8, dense_share=1, generous_rows=0, block_rows=256, shape=EAGER),
    EngineConfig(chunk_rows=64, delta_queries=64, dense_share=1 << 30, sparse_floor=0, list_limit=0, shape=EAGER),
)


@pytest.mark.parametrize("cases", swept([200, 600], fast=1))
@pytest.mark.parametrize("number", swept(range(len(CONFIGS)), fast=(3,)))
def test_hundreds_of_queries_answer_as_by_brute_force(cases: int, number: int) -> None:
    budget = Budget(f"many queries {number}", cases=cases)
    pool = Pool()
    for seed in budget.rounds():
        with replayable(seed):
            source = random.Random(seed * 10 + number)
            crowd = Crowd(CONFIGS[number], pool if number % 2 else None, source)
            for _ in range(4):
                crowd.register(source.randrange(20, 120))
                crowd.push(source.randrange(1, 150))
                if source.random() < 0.6:
                    crowd.soup.maintain()
                crowd.unregister(source.randrange(0, 40))
                crowd.push(source.randrange(1, 150))
                crowd.alter()
            budget.count(crowd.compare())
            crowd.soup.maintain()
            budget.count(crowd.compare())
    pool.close()


@pytest.mark.long
def test_thousands_of_queries_reached_from_the_data() -> None:
    budget = Budget("thousands of queries", cases=5_400)
    for seed in budget.rounds():
        with replayable(seed):
            crowd = Crowd(CONFIGS[seed % len(CONFIGS)], None, random.Random(seed))
            crowd.register_many(150)
            crowd.soup.maintain()
            crowd.push(90)
            crowd.register(30)
            crowd.register_many(160)
            crowd.alter()
            crowd.push(40)
            crowd.soup.maintain()
            crowd.unregister(200)
            crowd.push(1)
            crowd.push(130)
            budget.count(crowd.compare())


def test_all_bytes_come_back_when_all_queries_go() -> None:
    """The bill after everybody left is the bill before anybody came, tuples apart."""
    source = random.Random(SEED)
    crowd = Crowd(CONFIGS[0], None, source)
    crowd.push(500)
    crowd.soup.maintain()
    before = crowd.soup.engine.bill()
    for _ in range(3):
        crowd.register(int(100 * min(SCALE, 5)))
        crowd.unregister(30)
        crowd.soup.maintain()
    crowd.unregister(len(crowd.held))
    crowd.soup.maintain()
    assert crowd.soup.engine.bill() == before
