"""The view of readers: whole events, snapshots that never change, answers while the writer is busy, and their cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import note

from psoup.admission import Admission
from psoup.answer.invoke import invoke
from psoup.answer.tuples.queries_of_tuple import matches
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.events.commands import CreateStream, Push, Register
from psoup.events.events import Pushed, RefusedTuples, Registered
from psoup.expressions.tree import AttributeRef
from psoup.local import LocalPSoup
from psoup.model import BIGINT, WindowClause
from psoup.plan.factors import Factor, Interval, Term
from psoup.plan.nodes import Output, Project, Source
from psoup.plan.standing_query import Selection, StandingQuery
from psoup.published.snapshot import Snapshot
from psoup.sql import create_stream
from psoup.values.columns import Batch, Column
from psoup_testing.engines.recorded import Player
from psoup_testing.histories.histories import EAGER, Invoke, draw_history
from psoup_testing.oracles.duckdb_answers import normal_rows
from psoup_testing.oracles.questions import again, rows_of
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.call_counts import calls_of
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, shape=EAGER)
ROOMY = EngineConfig(chunk_rows=256)
"""A piece may be long enough to be shared among threads."""
A = AttributeRef(BIGINT, 0, "a")
Tasks = Sequence[Callable[[], None]]


def numbers(low: int, high: int) -> pa.Table:
    return pa.table({"a": pa.array(range(low, high), pa.int64())})


def count(snapshot: Snapshot, query_id: int) -> int:
    return int(invoke(snapshot, query_id, tenant="default", now=0).to_table().num_rows)


def made(config: EngineConfig = SMALL, run: Any = None) -> LocalPSoup:
    soup = LocalPSoup(config) if run is None else LocalPSoup(config, run=run)
    soup.execute("CREATE STREAM s (a BIGINT)")
    return soup


class Gate:
    """A runner that stops in the middle of the work when it is closed, until it is opened."""

    threads, handover = 2, 0

    def __init__(self) -> None:
        self.closed = False
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, tasks: Tasks) -> None:
        for task in tasks:
            task()
            if self.closed:
                self.reached.set()
                assert self.opened.wait(60)


def test_an_invocation_returns_while_the_writer_is_inside_apply() -> None:
    gate = Gate()
    soup = made(ROOMY, gate)
    query = soup.register("SELECT a FROM s WHERE a >= 0")
    soup.push("s", numbers(0, 10))
    gate.closed = True
    writer = threading.Thread(target=soup.push, args=("s", numbers(10, 300)))
    writer.start()
    assert gate.reached.wait(60)
    assert soup.invoke(query).to_table().num_rows == 10
    assert soup.matches("s", 3) == [query]
    assert soup.explain(query).lines()
    gate.opened.set()
    writer.join(60)
    assert soup.invoke(query).to_table().num_rows == 300


def test_a_run_of_events_becomes_visible_at_its_end_only() -> None:
    query, seen = 1, []

    def look(tasks: Tasks) -> None:
        for task in tasks:
            task()
            seen.append(count(engine.snapshot(), query))

    look.threads, look.handover = 2, 0  # type: ignore[attr-defined]
    engine, admission = Engine(ROOMY, look), Admission(ROOMY)
    commands = [CreateStream("CREATE STREAM s (a BIGINT)"), Register("SELECT a FROM s WHERE a >= 0")]
    prepared = [admission.prepare(command, 0).event for command in commands]
    engine.apply([event for event in prepared if event is not None])
    pushes = [admission.prepare(Push("s", numbers(at, at + 150)), 0).event for at in (0, 150, 300)]
    engine.apply([event for event in pushes if event is not None])
    assert set(seen) == {0}
    assert count(engine.snapshot(), query) == 450


def test_snapshots_never_change() -> None:
    """Whatever happens afterwards: sealing, eviction, expiry, unregistering, slots used again, the stream dropped."""
    budget = Budget("snapshots", cases=120)

    def case(draw: Any) -> int:
        history = draw_history(draw, events=14)
        note(repr(history))
        kept: list[tuple[Snapshot, int, int, object]] = []

        class Keeping(Player):
            def _act(self, action: Any) -> Any:
                said = super()._act(action)
                if isinstance(action, Invoke) and said and self._query(action.number):
                    snapshot, now = self.psoup.engine.snapshot(), self.clock.now()
                    query_id = self._query(action.number)
                    kept.append((snapshot, query_id, now, ask(snapshot, query_id, now)))
                return said

        played = Keeping(history)
        for query_id in played.standing():
            played.psoup.unregister(query_id)
        played.psoup.maintain()
        played.psoup.register("SELECT * FROM s")
        played.psoup.maintain()
        for snapshot, query_id, now, rows in kept:
            assert again(ask, snapshot, query_id, now) == rows
        return len(kept)

    def ask(snapshot: Snapshot, query_id: int, now: int) -> object:
        answer = again(invoke, snapshot, query_id, tenant="default", now=now, accept_truncation=True)
        view = snapshot.by_id[snapshot.query(query_id, "default").stream_id]
        newest = (
            matches(snapshot, "s", view.next_id - 1, tenant="default", now=0) if view.next_id > view.first_id else []
        )
        return normal_rows(rows_of(answer)), newest

    run_cases(budget, case)


def test_readers_in_threads_see_whole_events() -> None:
    """Each push is 10 rows of one value: an answer with part of a push, or of a later one, would not divide by 10."""
    soup = made()
    query = soup.register("SELECT a FROM s WHERE a % 2 = 0")
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        last = 0
        while not done.is_set():
            rows = soup.invoke(query).to_table().column("a").to_pylist()
            if len(rows) % 10 or len(rows) < last or rows != [2 * (i // 10) for i in range(len(rows))]:
                problems.append(f"{len(rows)} rows after {last}: {rows[-12:]}")
                return
            last = len(rows)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for value in range(120):
        soup.push("s", pa.table({"a": pa.array([value] * 10, pa.int64())}))
        if value % 10 == 0:
            soup.maintain()
    done.set()
    for reader in readers:
        reader.join(60)
    assert problems == []


def standing(sequence: int, low: int, high: int) -> Registered:
    """A registered query `low <= a < high`, made without its text."""
    factor = Factor((Term(A, (Interval(low, high),)),))
    text = f"SELECT a FROM s WHERE a BETWEEN {low} AND {high - 1}"
    source = Source(0, create_stream("CREATE STREAM s (a BIGINT)"), WindowClause())
    query = StandingQuery(text, (Selection(source, text, (factor,)),), Project(source, (Output("a", A),)))
    return Registered(sequence, "default", 1, sequence, query, "", 0)


def calls_of_a_piece(queries: int, narrow: bool) -> int:
    """Python functions called while a piece of 256 tuples is joined with so many queries and published."""
    config = EngineConfig(delta_queries=64)
    soup = made(config)
    engine = soup.engine
    first = engine.snapshot().sequence + 1
    # the same 64 widths again and again, each time begun elsewhere: every way of emission is taken with few and many
    lows = [n % 64 * 8 + n // 64 % 64 for n in range(queries)]
    widths = [1 if narrow else 200 + n % 64 * 2 for n in range(queries)]
    engine.apply([standing(first + n, low, low + w) for n, (low, w) in enumerate(zip(lows, widths, strict=True))])
    soup.maintain()
    values = np.arange(256) * 4 % 1000

    def push(sequence: int) -> Pushed:
        none = np.zeros(0, np.int64)
        batch = Batch((Column(BIGINT, values),), np.zeros(256, np.int64))
        return Pushed(sequence, "default", 1, batch, RefusedTuples(none, none), 0, 0)

    for n in range(3):  # compile, load, and give rows to all clauses that match many of these values
        engine.apply([push(first + queries + n)])
    event = push(first + queries + 3)
    calls = calls_of(lambda: engine.apply([event]))
    assert soup.engine.snapshot().by_id[1].next_id == 1024
    return calls


@pytest.mark.parametrize(
    ("few", "many", "narrow"), swept([(64, 1024, False), (64, 4096, False), (2048, 8192, True)], fast=1)
)
def test_python_calls_for_a_piece_do_not_depend_on_the_number_of_queries(few: int, many: int, narrow: bool) -> None:
    """Few queries are not put into posting lists, so equalities begin where they are."""
    assert calls_of_a_piece(few, narrow) == calls_of_a_piece(many, narrow)


@pytest.mark.parametrize("queries", [1, 500])
def test_publishing_a_push_copies_no_directory_of_queries(queries: int) -> None:
    soup = made()
    first = soup.engine.snapshot().sequence + 1
    soup.engine.apply([standing(first + n, n, n + 1) for n in range(queries)])
    before = soup.engine.snapshot()
    soup.admission = Admission(SMALL, first + queries)
    none = np.zeros(0, np.int64)
    batch = Batch((Column(BIGINT, np.arange(10)),), np.zeros(10, np.int64))
    soup.engine.apply([Pushed(first + queries, "default", 1, batch, RefusedTuples(none, none), 0, 0)])
    after = soup.engine.snapshot()
    assert after is not before
    assert after.queries is before.queries or after.queries._pages is before.queries._pages
