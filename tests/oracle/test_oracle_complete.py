"""Random histories whose queries are all COMPLETE: each answer equals the one under PARTIAL bit for bit, and is right.

The duels of other tests are played: late tuples, history that is attached, ALTER, archives, starts, thinned chunks,
tables and joins. Kept answers are dropped and given up in the middle. Most queries are eager: their answers are
updated after pushes, also from older snapshots.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup.config import EngineConfig, Shape
from psoup.errors import PSoupError
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.attachments import AttachingDuel, Covering, History
from psoup_testing.engines.restarts import Made, making
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import BASE, EAGER, Action, Invoke, Maintain, Push, draw_history, make_rows
from psoup_testing.oracles.complete_answers import Met, complete
from psoup_testing.oracles.duel import Duel
from psoup_testing.oracles.join_duel import JoinDuel
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.table_duel import TableDuel
from psoup_testing.oracles.thinning_duel import ThinningDuel, with_thinnings
from psoup_testing.suite.budget import Budget, replayable, run_cases
from psoup_testing.suite.sweeps import swept


def asked_often(actions: list[Any]) -> list[Any]:
    """The actions with an invocation of each query after each, as a kept answer is used at the second one."""
    often, count = list[Any](), 0
    for action in actions:
        often.append(action)
        count += type(action).__name__ == "Register"
        if isinstance(action, Push | History):
            often += [Invoke(number, accept_truncation=True) for number in range(count)]
    return often


def test_selections_equal_partial_ones() -> None:
    budget, seen = Budget("complete", cases=80), list[Met]()

    def case(draw: Any) -> int:
        history = draw_history(draw, events=14)
        note(repr(history))
        config = replace(history.config, results_bytes=1 << 30)
        with (
            complete(draw(st.integers(0, 1 << 16))) as met,
            closing(Duel(history.declaration, config, shards=history.shards)) as duel,
        ):
            duel.run(asked_often([*history.actions]))
            seen.append(met)
            return duel.compared

    run_cases(budget, case)
    enough(seen, budget.cases // 10, changed=budget.cases // 40)


def test_answers_over_attached_history_equal_partial_ones(tmp_path: Path) -> None:
    budget, numbers, seen = Budget("complete, history", cases=40), itertools.count(), list[Met]()

    def case(draw: Any) -> int:
        history = draw_history(draw, events=10)
        actions: list[Action | History | Covering] = []
        for action in asked_often([*history.actions]):
            extra = draw(st.integers(0, 7))
            if extra < 3:
                more = History(draw(st.integers(0, 90)), 60, draw(st.integers(0, 1 << 16)), 40, False, extra == 1)
                actions.append((more, Maintain(), Covering(1))[extra])
            actions.append(action)
        declared = replace(history.declaration, keep_seconds=None, keep_rows=None, archive=0)
        every, config = draw(st.sampled_from((0, 7))), replace(history.config, results_bytes=1 << 30)
        note(f"{history!r}\n{actions}\nevery {every}")
        with (
            complete(draw(st.integers(0, 1 << 16))) as met,
            making(tmp_path / str(next(numbers)), every) as made,
            closing(AttachingDuel(declared, config, made, history.pools)) as duel,
        ):
            for action in actions:
                duel.act(action)
            seen.append(met)
            return duel.compared

    run_cases(budget, case)
    enough(seen, budget.cases // 10, changed=budget.cases // 40)


def test_answers_over_thinned_chunks_equal_partial_ones() -> None:
    budget, seen = Budget("complete, thinned", cases=30), list[Met]()

    def case(draw: Any) -> int:
        history = draw_history(draw, 12)
        make = Maker(draw, Scope(history.declaration.schema, history.pools), 2)
        rows = make_rows(history.declaration, history.pools, make.number(60, 200), 0, make.number(0, 1 << 16))
        actions = with_thinnings(make, [Push(tuple(rows)), Maintain(), *asked_often([*history.actions]), Maintain()])
        note(f"{history!r}\n{actions}")
        config = replace(history.config, results_bytes=1 << 30)
        with (
            complete(make.number(0, 1 << 16)) as met,
            closing(ThinningDuel(history.declaration, config, shards=history.shards)) as duel,
        ):
            duel.run(actions)
            seen.append(met)
            return duel.compared

    run_cases(budget, case)
    enough(seen, budget.cases // 10)


def test_joins_equal_partial_ones(tmp_path: Path) -> None:
    budget, seen = Budget("complete, joins", cases=30), list[Met]()

    def case(draw: Any) -> int:
        seed = draw(st.integers(0, 2**48))
        note(f"seed {seed}")
        with complete(seed % 997) as met:
            duel = JoinDuel(seed, tmp_path / str(len(seen)))
            try:
                duel.run(events=16)
            finally:
                duel.close()
        seen.append(met)
        return duel.compared

    run_cases(budget, case)
    enough(seen, budget.cases // 10)


_WINDOWS = ("ROWS 40", "ROWS 90", "BEGIN START", "BEGIN (NOW - 20 SECONDS)", "BEGIN (NOW - 60 SECONDS)")
_JOINS = (
    "SELECT a.x, b.y, a._id FROM r [{0}] AS a, s [{1}] AS b WHERE a.k = b.k AND a.x < 7",
    "SELECT b.y, a.k FROM r [{0}] AS a, s [{1}] AS b WHERE b.x BETWEEN a.x AND a.x + 2 AND b.k = 1",
    "SELECT a.x, b.x AS bx, c.x AS cx FROM r [{0}] AS a, s [{1}] AS b, r [{0}] AS c"
    " WHERE a.k = b.k AND b.y = c.y AND c.x < 4",
    "SELECT a.x, a._id FROM r [{0}] AS a WHERE a.x < 7 UNION ALL SELECT b.y, b.k FROM s [{1}] AS b",
    "SELECT a.t, a.y FROM r [{0}] AS a WHERE a.k = 1 UNION ALL SELECT b.t, b.y FROM s [{1}] AS b WHERE b.x > 2"
    " UNION ALL SELECT c._time, c.k FROM r [{1}] AS c WHERE c.k = 0",
)


class PlainJoins:
    """Joins and unions of streams that pause, step back, grow and start anew."""

    def __init__(self, draw: random.Random, path: Path, every: int) -> None:
        self.draw, self.made, self.clock = draw, Made(path, every), VirtualClock(BASE)
        self.soup = self.made(EngineConfig(chunk_rows=64, shape=draw.choice((Shape(), EAGER))), self.clock)
        self.timed, self.at, self.queries = draw.random() < 0.7, 0, list[int]()
        for name in "rs":
            timed = draw.choice((" TIMESTAMP BY t", " TIMESTAMP BY t LATENESS 5 SECONDS")) if self.timed else ""
            retention = draw.choice(("", "", " RETENTION 150 ROWS", " RETENTION 60 SECONDS"))
            columns = ", ".join(f"{column} BIGINT NOT NULL" for column in "kxy")
            self.soup.execute(f"CREATE STREAM {name} (t TIMESTAMP NOT NULL, {columns}){timed}{retention}")
        for _ in range(4):
            windows = draw.choice(_WINDOWS), draw.choice(_WINDOWS)
            with suppress(PSoupError):  # the window is wider than the retention
                self.queries.append(self.soup.register(draw.choice(_JOINS).format(*windows)))

    def push(self) -> None:
        """Push some rows to a stream. Some are late."""
        draw, count = self.draw, self.draw.choice((0, 1, 5, 30))
        self.at += draw.choice((0, 1, 5))
        times = [BASE + (self.at + draw.choice((0, 0, 1, -2, -9))) * SECOND for _ in range(count)]
        table = {"t": pa.array(sorted(times), pa.timestamp("us", "UTC"))}
        table |= {column: pa.array([draw.randrange(10) for _ in times], pa.int64()) for column in "kxy"}
        self.soup.push(draw.choice("rs"), pa.table(table), refused="count")

    def wait(self) -> None:
        """Let time go on."""
        self.clock.advance(seconds=3)

    def alter(self) -> None:
        """Add a column, once for each stream."""
        with suppress(PSoupError):
            self.soup.execute(f"ALTER STREAM {self.draw.choice('rs')} ADD COLUMN more TEXT")

    def ask(self) -> int:
        """Invoke all queries. Returns their number."""
        for query in self.queries:
            again(self.soup.invoke, query, accept_truncation=True)
        return len(self.queries)


@pytest.mark.parametrize("cases", swept([200, 800], fast=1))
def test_joins_of_plain_columns_equal_partial_ones(cases: int, tmp_path: Path) -> None:
    budget, seen = Budget("complete, plain joins", cases=cases), list[Met]()
    for number in budget.rounds():
        draw = random.Random(number)
        with replayable(number), complete(number) as met:
            joins = PlainJoins(draw, tmp_path / str(number), draw.choice((0, 0, 9)))
            steps = [joins.push] * 8 + [joins.soup.maintain, joins.wait, joins.alter]
            for _ in range(25):
                draw.choice(steps)()
                budget.count(joins.ask())
            joins.made.soup.store.close()
        seen.append(met)
    enough(seen, budget.cases // 10, changed=budget.cases // 40)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB. Opening it takes longer than ten questions."""
    with closing(duckdb.connect(config={"threads": 1})) as opened:
        yield opened


@pytest.mark.parametrize("cases", swept([20, 60], fast=1))
def test_answers_over_tables_equal_partial_ones(cases: int, connection: duckdb.DuckDBPyConnection) -> None:
    budget, seen = Budget("complete, tables", cases=cases), list[Met]()
    for number in budget.rounds():
        with replayable(number), complete(number) as met:
            duel = TableDuel(random.Random(number), connection)
            steps = [duel.push] * 6 + [duel.register] * 4 + [duel.advance] * 3 + [duel.beat, duel.maintain]
            for _ in range(16):
                duel.draw.choice([*steps, duel.restart, duel.alter])()
                if duel.draw.random() < 0.3:
                    duel.compare()
            duel.compare()
        seen.append(met)
        budget.count(duel.compared)
    enough(seen, budget.cases // 10)


def enough(seen: list[Met], count: int, changed: int = 0) -> None:
    """Check that kept answers were met often enough to say anything."""
    counts = [(met.sent, met.evaluated, met.changed, met.lost) for met in seen]
    sent, evaluated, brought, lost = (sum(column) for column in zip(*counts, strict=True))
    updated = sum(met.updated for met in seen)
    counted = f"{sent} sent again, {brought} brought up to date, {evaluated} evaluated, {lost} lost, {updated} updated"
    assert min(sent, evaluated) >= count, f"{counted}: too few to say anything"
    assert brought + updated >= changed, f"{counted}: too few to say anything"
    assert updated >= count // 4, f"{counted}: too few eager answers were updated"
    assert min(lost, sum(met.altered for met in seen)) >= count // 10, f"{counted}, and too few amounts changed"
