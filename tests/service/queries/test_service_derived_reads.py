"""Reads that wait for derived streams: new ones, dropped ones, and those with many sources."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pytest

from psoup.local import LocalPSoup
from psoup.pumps import Due, Pump, mark_of
from psoup_client import Client
from psoup_service.chores import derived_streams
from psoup_service.chores.derived_streams import DerivedStreams
from psoup_service.host.pump_progress import Passed, PassedEvents
from psoup_testing.services.threaded_service import serving

TIMEOUT_S = 30.0
SECOND = 1_000_000


def test_a_read_waits_for_a_pump_that_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first derived stream of a service: nothing is noted of it when the read comes."""
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        backend, begun = served.service._backend, [False]
        step = DerivedStreams._step
        monkeypatch.setattr(DerivedStreams, "_step", lambda pumps: begun[0] and step(pumps))
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        query = client.register("SELECT k FROM x")
        done = client.push("t", [{"k": 1}])
        waits = [
            asyncio.run_coroutine_threadsafe(work, served._loop)
            for work in (
                backend.derived_of_tenant("default", done.sequence),
                backend.derived_of_query(backend.ids.read_query(query.id), done.sequence),
            )
        ]
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), served._loop).result(TIMEOUT_S)
        assert not any(wait.done() for wait in waits)
        begun[0] = True
        client.push("t", [{"k": 2}])
        for wait in waits:
            wait.result(TIMEOUT_S)


def test_a_read_of_a_stream_that_is_dropped_does_not_wait_for_it() -> None:
    async def read() -> None:
        events, present = PassedEvents(), {1, 2}
        events.note({2: Passed(5, 0, (1,))})
        wait = asyncio.create_task(events.reach([2], 7, TIMEOUT_S, present.__contains__))
        await asyncio.sleep(0)
        assert not wait.done()
        present.clear()
        events.note({})
        await wait

    asyncio.run(read())


def test_a_drop_ends_a_wait_during_a_long_step() -> None:
    """The thread of the pumps notes nothing until the step has ended."""
    begun, ends = threading.Event(), threading.Event()

    def long(*_: Any, **__: Any) -> None:
        begun.set()
        assert ends.wait(TIMEOUT_S)

    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        client.register("SELECT k FROM x")
        pumps = served.service.regular.derived
        served.wait_until(lambda: bool(pumps.pumps))
        (pump,) = pumps.pumps.values()
        pump.step = long  # type: ignore[method-assign]
        done = client.push("t", [{"k": 1}])
        try:
            assert begun.wait(TIMEOUT_S)
            reads = served.service._backend.derived_of_tenant("default", done.sequence)
            wait = asyncio.run_coroutine_threadsafe(reads, served._loop)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), served._loop).result(TIMEOUT_S)
            assert not wait.done()
            client.execute("DROP STREAM x CASCADE")
            wait.result(TIMEOUT_S)
        finally:
            ends.set()


def test_the_look_at_streams_that_meet_again_and_again_is_linear() -> None:
    """Each stream derives from both of the layer below: there are 2^400 ways down."""
    events, layers = PassedEvents(), 400
    pairs = {2 * layer + side: (2 * layer - 2, 2 * layer - 1) for layer in range(1, layers) for side in (0, 1)}
    events.note({stream_id: Passed(9, 8, sources) for stream_id, sources in pairs.items()})
    assert events.has_passed(2 * layers - 1, 9)
    assert not events.has_passed(2 * layers - 1, 10)


def test_a_stream_that_replaces_another_in_one_publication_is_seen() -> None:
    """The number of streams is the same before and after."""
    soup = LocalPSoup()
    marks = list[tuple[int, ...]]()
    for statement in ("CREATE STREAM t (k BIGINT)", "CREATE STREAM u (k BIGINT)", "DROP STREAM u"):
        soup.execute(statement)
        marks.append(mark_of(soup.engine.snapshot().by_id))
    soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    assert mark_of(soup.engine.snapshot().by_id) not in marks
    assert PassedEvents().derived(soup.engine.snapshot().by_id, soup.tenant) == (3,)


def test_a_read_of_a_join_waits_for_a_source_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round has one step. There is no query, for which instants would be logged."""
    monkeypatch.setattr(derived_streams, "_ROUND_S", 0.0)
    with serving() as served, Client(served.address) as client:
        for name in ("a", "b"):
            client.create_stream(f"CREATE STREAM {name} (k BIGINT, at TIMESTAMP) TIMESTAMP BY at")
        client.execute("CREATE STREAM x AS (SELECT k FROM a)")
        client.execute("CREATE STREAM z AS (SELECT k FROM b WHERE k > 0)")
        client.execute("CREATE STREAM y AS (SELECT x.k FROM x [RANGE 1 DAY], z [RANGE 1 DAY] WHERE x.k = z.k)")

        def push(name: str, k: int, second: int) -> None:
            client.push(name, pa.table({"k": [k], "at": pa.array([second * SECOND], pa.timestamp("us"))}))

        push("b", 1, 1)
        for count in range(10):
            push("b", 0, 10 * count + 11)
            push("a", 1, 10 * count + 5)
            push("a", 2, 10 * count + 9)
            assert [row["k"] for row in client.ask("SELECT k FROM y")] == [1] * (count + 1)


def test_calls_about_many_queries_wait_only_for_the_streams_that_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pump of another derived stream of the tenant never makes a step."""
    due = Pump.due
    with serving() as served, Client(served.address, timeout=60) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        for name in ("busy", "x"):
            client.execute(f"CREATE STREAM {name} AS (SELECT k FROM t)")
        busy = served.service.host.snapshot().stream("busy", "default").stream_id
        client.register("SELECT k FROM busy", key="busy")
        query = client.register("SELECT k FROM x", key="mine")
        copy = client.copy(query)
        monkeypatch.setattr(Pump, "due", lambda pump, *a, **b: None if pump.stream_id == busy else due(pump, *a, **b))
        done = client.push("t", [{"k": 1}])
        assert [row["k"] for row in query.invoke()] == [1]
        assert [len(answer) for answer in client.invoke_many([query.id], wait_for=done.sequence)] == [1]
        assert [len(answer) for answer in client.invoke_many(keys=["mine"], wait_for=done.sequence)] == [1]
        assert len(client.invoke_table([query.id], wait_for=done.sequence)) == 1
        copy.sync()
        assert copy.to_arrow().column("k").to_pylist() == [1]


def test_instants_are_logged_between_steps_and_steps_between_instants(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is always due does not stop the NOW of quiet streams. They do not stop its steps."""
    monkeypatch.setattr(derived_streams, "INSTANT_S", 0.01)
    monkeypatch.setattr(derived_streams, "_ROUND_S", 0.0)
    rounds, done, step = list[list[int]](), DerivedStreams._done, DerivedStreams._step

    def in_round(pumps: DerivedStreams) -> bool:
        rounds.append([])
        return step(pumps)

    def noted(pumps: DerivedStreams, pump: Any, due: Any) -> bool:
        rounds[-1].append(pump.stream_id)
        return done(pumps, pump, due)

    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM busy (k BIGINT)")
        client.create_stream("CREATE STREAM e (k BIGINT, at TIMESTAMP) TIMESTAMP BY at")
        client.execute("CREATE STREAM x AS (SELECT k FROM busy)")
        for name in ("a", "b", "c"):
            client.execute(f"CREATE STREAM {name} AS (SELECT k FROM e WHERE k < 0)")
            client.register(f"SELECT k FROM {name}")
        pumps = served.service.regular.derived
        served.wait_until(lambda: len(pumps.pumps) == 4)
        busy, *quiet = sorted(pumps.pumps)
        look = pumps._pumps.due
        always = (pumps.pumps[busy], Due(()))
        monkeypatch.setattr(pumps._pumps, "due", lambda *given: look(*given) or [always])
        monkeypatch.setattr(DerivedStreams, "_step", in_round)
        served.wait_until(lambda: bool(rounds))
        monkeypatch.setattr(DerivedStreams, "_done", noted)
        client.push("e", pa.table({"k": [1], "at": pa.array([50 * SECOND], pa.timestamp("us"))}))
        views = lambda: [served.service.host.snapshot().by_id[i] for i in quiet]  # noqa: E731
        served.wait_until(lambda: all(view.watermark == 50 * SECOND - 1 for view in views()))
    assert all(sum(stream_id in quiet for stream_id in of_round) <= 1 for of_round in rounds)
    assert sum(busy in of_round for of_round in rounds) >= len(quiet)
