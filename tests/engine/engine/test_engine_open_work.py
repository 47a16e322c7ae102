"""Clauses that come meet the open chunk on the writer's thread, where all tenants wait: only as much as takes a moment.

    open chunk of n tuples + clauses     a little: evaluated at once
                                         much, at once or in the course of time: the chunk is closed before

What is evaluated is counted, not timed; answers are DuckDB's, whenever they are asked for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from psoup.clauses.quarantine import Precautions
from psoup.config import EngineConfig, Shape
from psoup.engine.engine import Engine
from psoup.engine.stream import state as states
from psoup.engine.stream.allowance import SEVERAL
from psoup.expressions.tree import AttributeRef, Expr
from psoup.local import LocalPSoup
from psoup.matching.old_tuples import COVER_TOGETHER
from psoup.matching.old_work import OldTuples, work_of
from psoup.model import BIGINT, DEFAULT_TENANT, SECOND
from psoup.plan.factors import Factor, Interval, Term
from psoup.work.clock import VirtualClock
from psoup_testing.engines.recorded import RecordingPSoup
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

FULL = 60_000
LIMIT = 40_000
SMALL = EngineConfig(chunk_rows=256, piece_rows=64, columnar_queries=8, shape=Shape(open_work=LIMIT))
CREATE = "CREATE STREAM s (a BIGINT, b BIGINT, t TEXT)"
LONG = " OR ".join(f"t LIKE '%{n}_%b'" for n in range(60))
MANY = {
    "one statement of many terms": ("SELECT a FROM s WHERE " + LONG, None),
    "a statement with a long expression": (f"SELECT a FROM s WHERE {' + '.join(['abs(a)'] * 70)} > 9", None),
    "many clauses of a column": ("SELECT a FROM s WHERE a > ?", [(n,) for n in range(2_000)]),
    "many clauses of texts": ("SELECT a FROM s WHERE t LIKE ?", [(f"%{n}_%b",) for n in range(300)]),
    "many clauses beside a long one": (f"SELECT a FROM s WHERE a = ? AND ({LONG})", [(n,) for n in range(4)]),
}


class Counted:
    """Evaluations on the writer's thread of new clauses over old tuples: attributes and clauses, by tuple."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.attributes = self.clauses = 0
        self._cover = states.cover
        monkeypatch.setattr(states, "cover", self._count)

    def _count(self, chunk: Any, index: Any, *args: Any) -> dict[int, str]:
        times = len(index.slots) if len(index.slots) < COVER_TOGETHER else 1
        self.attributes += len(chunk) * len(index.attributes) * times
        self.clauses += len(chunk) * len(index.slots)
        return self._cover(chunk, index, *args)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def table(numbers: range, seed: int = 7) -> pa.Table:
    of = random.Random(seed)
    texts = [f"{of.randrange(400)}x{of.choice('ab')}" for _ in numbers]
    return pa.table({"a": list(numbers), "b": [of.randrange(50) for _ in numbers], "t": texts})


def filled(config: EngineConfig, rows: int) -> LocalPSoup:
    soup = LocalPSoup(config)
    soup.execute(CREATE)
    soup.push("s", table(range(rows)))
    return soup


def chunks(engine: Engine) -> list[tuple[int, int]]:
    """First tuple ID and length of each chunk, the open one last."""
    view = engine.snapshot().stream("s", DEFAULT_TENANT)
    return [(entry.data.first_id, len(entry.data)) for entry in view.chunks]


@pytest.mark.parametrize("name", swept(MANY, fast=(1, 3, 4)))
def test_what_takes_long_is_not_evaluated_while_all_wait(counted: Counted, name: str) -> None:
    soup = filled(EngineConfig(), FULL)
    statement, values = MANY[name]
    queries = [soup.register(statement)] if values is None else list(soup.register_many(statement, values))
    assert counted.attributes == 0
    assert chunks(soup.engine) == [(0, FULL), (FULL, 0)]
    soup.engine.check()
    before = again(soup.invoke, queries[-1]).to_table()
    soup.maintain()
    soup.engine.check()
    assert counted.attributes == 0
    assert again(soup.invoke, queries[-1]).to_table().equals(before)


def test_a_query_meets_the_open_chunk_at_once(counted: Counted) -> None:
    soup = filled(EngineConfig(), FULL)
    soup.register("SELECT a FROM s WHERE a > 5 AND b < 9")
    soup.register("SELECT a FROM s WHERE t LIKE '%1_%b'")
    assert counted.attributes == 3 * FULL
    assert chunks(soup.engine) == [(0, FULL)]


@pytest.mark.long
def test_many_small_registrations_are_counted_together(counted: Counted) -> None:
    soup = filled(SMALL, 200)
    for number in range(500):
        soup.register(f"SELECT a FROM s WHERE b > {number}")
    assert LIMIT < counted.attributes * 20 <= SEVERAL * LIMIT
    assert chunks(soup.engine) == [(0, 200), (200, 0)]
    soup.push("s", table(range(200)))
    for number in range(500):
        soup.register(f"SELECT a FROM s WHERE a > {number}")
    assert counted.attributes * 20 <= 2 * SEVERAL * LIMIT
    assert chunks(soup.engine) == [(0, 200), (200, 200), (400, 0)]


@pytest.mark.long
def test_one_event_is_counted_over_all_streams(counted: Counted) -> None:
    soup = LocalPSoup(EngineConfig())
    for number in range(8):
        soup.execute(CREATE.replace(" s ", f" s{number} "))
        soup.push(f"s{number}", table(range(FULL)))
    join = "SELECT s0.a FROM s0, s1, s2, s3 WHERE s0.a = s1.a AND s1.a = s2.a AND s2.a = s3.a"
    like = [f"s{number}.t LIKE '%{number}_%'" for number in range(4)]
    soup.register(f"{join} AND {' AND '.join(like)}")
    soup.register_many([f"SELECT a FROM s{number} WHERE a * 2 + b > 3 OR t LIKE '_1_%'" for number in range(8)])
    assert 0 < counted.attributes * 150 <= 2 * EngineConfig().shape.open_work
    soup.engine.check()


@pytest.mark.parametrize("size", swept([7, 1, 1_000], fast=1))
def test_where_a_chunk_ends_does_not_depend_on_what_is_applied_together(size: int) -> None:
    soup = RecordingPSoup(SMALL, VirtualClock())
    soup.execute(CREATE)
    of = random.Random(3)
    for number in range(150):
        if of.random() < 0.3:
            soup.push("s", table(range(of.randrange(1, 40)), number))
        elif of.random() < 0.2:
            soup.register_many("SELECT a FROM s WHERE b = ?", [(n,) for n in range(number, number + 40)])
        else:
            soup.register(f"SELECT a FROM s WHERE a + {number} > b OR t LIKE '%{number}_'")
    ends = chunks(soup.engine)
    assert len({length for _, length in ends}) > 4
    engine = Engine(SMALL)
    for at in range(0, len(soup.events), size):
        engine.apply(soup.events[at : at + size])
    engine.check()
    assert chunks(engine) == ends


def test_what_clauses_take_is_charged_to_the_tenant() -> None:
    soup = RecordingPSoup(SMALL, VirtualClock())
    soup.execute(CREATE)
    soup.push("s", table(range(100)))
    soup.register("SELECT a FROM s WHERE a = 3")
    ticks = count()
    engine = Engine(SMALL, timer=lambda: float(next(ticks)))
    engine.apply(soup.events[:-1])
    assert engine.apply(soup.events[-1:]).spent == {DEFAULT_TENANT: 1.0}


def test_a_clause_that_is_out_comes_with_one_that_takes_long() -> None:
    soup = RecordingPSoup(SMALL, VirtualClock())
    soup.execute(CREATE)
    soup.push("s", table(range(100)))
    queries = soup.register("SELECT a FROM s WHERE a = 3"), soup.register(f"SELECT a FROM s WHERE {LONG} OR a = 4")
    engine = Engine(SMALL)
    engine.take_precautions(Precautions(by_hand=frozenset(queries[:1])))
    for events in (soup.events[:2], soup.events[2:]):
        engine.apply(events)
    assert chunks(engine) == [(0, 100), (100, 0)]
    while True:
        engine.check()
        task = engine.maintenance(everything=True)
        if task is None:
            break
        engine.install(task.compute())
    covered = [entry.results.covered_before for entry in engine.snapshot().stream("s", DEFAULT_TENANT).chunks]
    assert covered[0] > 1


def test_work_counts_rows_expressions_texts_and_intervals() -> None:
    def work(rows: int, text_bytes: int, *attributes: Expr, intervals: int = 1) -> int:
        spans = tuple(Interval(2 * n, 2 * n + 1) for n in range(intervals))
        factors = tuple(Factor((Term(attribute, spans),)) for attribute in attributes)
        return work_of([(0, factors)], OldTuples(rows, text_bytes))

    a, b = AttributeRef(BIGINT, 0, "a"), AttributeRef(BIGINT, 1, "b")
    assert work(0, 0, a) == 0
    assert work(100, 0, a) == 100 * 21
    assert work(100, 0, a, b) == 2 * work(100, 0, a)
    assert work(100, 0, a, intervals=500) == 100 * 520


JOINS = [
    "SELECT x.a, y.k FROM s x, r y WHERE x.b = y.k AND x.t LIKE '%{n}_%' BEGIN (START)",
    "SELECT count(*) AS n FROM s x, r y WHERE x.b = y.k AND y.k > {n} BEGIN (START)",
]
SINGLE = [
    "SELECT a, b FROM s WHERE b > {n} BEGIN (START)",
    "SELECT a, t FROM s WHERE t LIKE '%{n}_%a' OR t LIKE '{n}%' BEGIN (START)",
    "SELECT b, count(*) AS n, sum(a) AS z, min(t) AS u FROM s WHERE a * 2 + b > {n} GROUP BY b BEGIN (START)",
    "SELECT DISTINCT b FROM s WHERE length(t) = {n} % 4 OR abs(a) < {n} BEGIN (START)",
]


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    config = replace(SMALL, shape=replace(EAGER, open_work=4_000))
    opened = RestartingPSoup(config, VirtualClock(3_000 * SECOND), tmp_path / "data")
    opened.execute(CREATE)
    opened.execute("CREATE STREAM r (k BIGINT, v BIGINT)")
    yield opened
    opened.store.close()


@pytest.mark.parametrize(("seed", "steps"), swept([(3, 25), (0, 80), (1, 80), (2, 80)], fast=1))
def test_answers_are_right_at_any_time_and_after_a_start(soup: RestartingPSoup, seed: int, steps: int) -> None:
    of, oracle = random.Random(seed), duckdb.connect(config={"threads": 1})
    oracle.execute("CREATE TABLE s (a BIGINT, b BIGINT, t VARCHAR)")
    oracle.execute("CREATE TABLE r (k BIGINT, v BIGINT)")
    texts, pushed = dict[int, str](), 0

    def compare() -> None:
        for query, text in [*texts.items()][-3:]:
            found = [tuple(row.values()) for row in again(soup.invoke, query).to_table().to_pylist()]
            wanted = oracle.execute(text.removesuffix(" BEGIN (START)")).fetchall()
            assert sorted(found) == sorted(wanted), text

    for step in range(steps):
        match of.randrange(12):
            case 0 | 1 | 2 | 3:
                rows = table(range(pushed, pushed + of.randrange(20, 120)), step)
                pushed += rows.num_rows
                keys = pa.table({"k": np.arange(step, step + 4) % 50, "v": np.arange(4)})
                for name, data in (("s", rows), ("r", keys)):
                    soup.push(name, data)
                    oracle.register("given", data)
                    oracle.execute(f"INSERT INTO {name} SELECT * FROM given")
                    oracle.unregister("given")
            case 4 | 5 | 10 | 11:
                text = of.choice([*SINGLE, *JOINS]).format(n=of.randrange(40))
                texts[soup.register(text)] = text
            case 6:
                form, values = of.choice(SINGLE[:1] + JOINS[1:]), range(step, step + 30)
                ids = soup.register_many(form.format(n="?"), [(n,) for n in values])
                texts |= {int(i): form.format(n=n) for i, n in list(zip(ids, values, strict=True))[::13]}
            case 7 if texts:
                gone = of.choice([*texts])
                soup.unregister(gone)
                del texts[gone]
            case 8:
                soup.maintain()
            case 9:
                soup.restart()
        compare()
        soup.engine.check()
    assert soup.restarts > steps // 80
    closed = [length for _, length in chunks(soup.engine)[:-1]]
    assert sum(length < SMALL.chunk_rows for length in closed) > (5 if steps == 80 else 0)
