"""Whatever evaluation raises, and wherever: answers stay exact, the writer goes on, and a replay is as safe as arrival.

     a    6  13   2   8      abs(13) raises, in a piece of any size     a row with 13 has an error, and only that row
          ── piece ───        abs raises at some other calls too         no row has one

Random histories on small chunks and smaller pieces: pushes, registrations alone and in blocks over the open chunk and
over closed ones, unregistrations, maintenance, replays into a fresh engine. The truth is Python's, row by row.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest

from psoup.answer.invoke import invoke
from psoup.answer.tuples.queries_of_tuple import matches_many
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.model import DEFAULT_TENANT
from psoup.work.clock import VirtualClock
from psoup_testing.engines.error_expressions import poison, raising
from psoup_testing.engines.recorded import RecordingPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import TIMES
from psoup_testing.suite.budget import Budget, replayable
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=8, delta_queries=4, columnar_queries=4, list_limit=4, shape=EAGER)
POISON, BAD = 13, "bad"
Row = tuple[int, int, str]
Truth = Callable[[Row], bool | None]
"""What WHERE is for a row; None if it could not be evaluated."""


def _abs(row: Row) -> int | None:
    return None if row[0] == POISON else abs(row[0])


def _length(row: Row) -> int | None:
    return None if row[2] == BAD else len(row[2])


def _like(row: Row) -> bool | None:
    return None if row[2] == BAD else "a" in row[2] and "b" in row[2][row[2].index("a") + 1 :]


def _either(left: bool | None, right: bool) -> bool | None:
    return True if right else left


def _both(*parts: bool | None) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


@dataclass(frozen=True)
class Form:
    """A kind of WHERE with one constant: its text and its truth."""

    where: str
    holds: Callable[[Row, int], bool | None]


def _above(row: Row, constant: int) -> bool | None:
    absolute = _abs(row)
    return None if absolute is None else absolute > constant


FORMS = [
    Form("abs(a) > ?", _above),
    Form("abs(a) > ? AND n < 4", lambda r, k: _both(r[1] < 4, _above(r, k))),
    Form("(abs(a) > ? OR n = 2)", lambda r, k: _either(_above(r, k), r[1] == 2)),
    Form("length(t) = ?", lambda r, k: None if _length(r) is None else _length(r) == k),
    Form(
        "abs(a) > ? AND length(t) > 1",
        lambda r, k: _both(_above(r, k), None if (length := _length(r)) is None else length > 1),
    ),
    Form("t LIKE '%a%b%' AND n < ?", lambda r, k: _both(_like(r), r[1] < k)),
    Form("n > ?", lambda r, k: r[1] > k),
]


@dataclass
class Standing:
    """A query that stands."""

    form: Form
    constant: int

    def rows(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if self.form.holds(row, self.constant) is True]

    def errors(self, rows: list[Row]) -> int:
        return sum(self.form.holds(row, self.constant) is None for row in rows)


class History:
    """One random history, and its truth."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.soup = RecordingPSoup(SMALL, VirtualClock())
        self.soup.execute("CREATE STREAM s (a BIGINT, n BIGINT, t TEXT)")
        self.rows: list[Row] = []
        self.standing: dict[int, Standing] = {}
        self.bad = self.random.choice([0.0, 0.01, 0.05, 0.3])
        self.moody = self.random.choice([0.0, 0.05, 0.5])

    def moods(self) -> bool:
        """Whether a call raises that need not."""
        return self.random.random() < self.moody

    def play(self, steps: int) -> int:
        """So many actions; returns how many answers were compared."""
        compared = 0
        for _ in range(steps):
            action = self.random.choice([self.push, self.push, self.register, self.block, self.forget, self.maintain])
            action()
            compared += self.compare(
                self.soup.engine, self.random.sample(sorted(self.standing), min(3, len(self.standing)))
            )
        self.soup.check()
        compared += self.compare(self.soup.engine, list(self.standing))
        compared += self.compare(self.replayed(), list(self.standing))
        self.soup.maintain()
        self.soup.check()
        return compared + self.compare(self.soup.engine, list(self.standing))

    def push(self) -> None:
        rows = [self.row() for _ in range(self.random.choice([1, 5, 30, 70]))]
        columns = dict(zip("ant", map(list, zip(*rows, strict=True)), strict=True))
        self.soup.push("s", pa.table(columns, pa.schema([("a", pa.int64()), ("n", pa.int64()), ("t", pa.string())])))
        self.rows += rows

    def row(self) -> Row:
        a = POISON if self.random.random() < self.bad else self.random.randrange(-9, 10)
        t = BAD if self.random.random() < self.bad else "".join(self.random.choices("ab", k=self.random.randrange(4)))
        return a, self.random.randrange(6), t

    def register(self) -> None:
        form, constant = self.random.choice(FORMS), self.random.randrange(8)
        query_id = self.soup.register(f"SELECT a, n, t FROM s WHERE {form.where.replace('?', str(constant))}")
        self.standing[query_id] = Standing(form, constant)

    def block(self) -> None:
        form, count = self.random.choice(FORMS), self.random.choice([2, 9])
        constants = [self.random.randrange(12) for _ in range(count)]
        ids = self.soup.register_many(f"SELECT a, n, t FROM s WHERE {form.where}", [(k,) for k in constants])
        self.standing.update((i, Standing(form, k)) for i, k in zip(ids, constants, strict=True))

    def forget(self) -> None:
        for query_id in self.random.sample(sorted(self.standing), len(self.standing) // 3):
            self.soup.unregister(query_id)
            del self.standing[query_id]

    def maintain(self) -> None:
        task = self.soup.engine.maintenance(everything=self.random.random() < 0.5)
        if task is not None:
            result = task.compute()
            if self.random.random() < 0.5:
                self.random.choice([self.push, self.register, self.forget])()
            self.soup.engine.install(result)

    def replayed(self) -> Engine:
        """Another engine, from the log."""
        engine, at = Engine(SMALL), 0
        while at < len(self.soup.events):
            size = self.random.choice([1, 3, 50])
            engine.apply(self.soup.events[at : at + size])
            at += size
        engine.check()
        return engine

    def compare(self, engine: Engine, query_ids: list[int]) -> int:
        """The answers of some queries, and which of all match some tuples."""
        snapshot, now = engine.snapshot(), self.soup.clock.now()
        for query_id in query_ids:
            query = self.standing[query_id]
            for _ in range(TIMES):
                answer = invoke(snapshot, query_id, tenant=DEFAULT_TENANT, now=now)
                table = answer.to_table()
                found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
                assert found == query.rows(self.rows), (query_id, query)
                assert answer.completeness.errors == query.errors(self.rows), (query_id, query)
        some = self.random.sample(range(len(self.rows)), min(4, len(self.rows)))
        matched = matches_many(snapshot, "s", some, tenant=DEFAULT_TENANT, now=now)
        for tuple_id, ids in zip(some, matched, strict=True):
            row = self.rows[tuple_id]
            assert ids == [i for i, query in sorted(self.standing.items()) if query.rows([row])], (tuple_id, row)
        return len(query_ids) + len(some)


@pytest.mark.parametrize("steps", swept([16, 40], fast=1))
def test_answers_are_exact_whatever_raises(steps: int) -> None:
    budget = Budget("what raises", cases=4)
    outside = raised = 0
    for number in budget.rounds():
        history = History(number)
        rules = {"abs": poison(POISON), "length": poison(BAD), "like": poison(BAD)}
        with replayable(number), raising(rules, history.moods) as told:
            history.play(steps)
        outside += len(history.soup.engine.snapshot().stream("s", DEFAULT_TENANT).outside.ids)
        raised += len(told)
        budget.count()
    assert outside > 0 and raised > 0, "nothing raised: the test attacks nothing"
