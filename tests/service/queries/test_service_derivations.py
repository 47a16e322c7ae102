"""Derived streams of a service: the thread of the pumps, reads of one's own writes, and a restart."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.errors import ResourceExhausted
from psoup.pumps import Pump
from psoup.work.read_budget import ReadBudget
from psoup_client import Client, ClientOptions
from psoup_client.errors import FailedPrecondition
from psoup_service.chores import derived_streams
from psoup_storage import DurableStore
from psoup_testing.services.reply_wait import asked_until
from psoup_testing.services.threaded_service import serving

TIMED = "(k BIGINT, at TIMESTAMP) TIMESTAMP BY at"
SECOND = 1_000_000


def rows_of(client: Client, name: str) -> list[dict[str, Any]]:
    return client.ask(f"SELECT *, _id, _time FROM {name}").to_arrow().to_pylist()


def test_a_read_of_a_derived_stream_shows_ones_own_writes() -> None:
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k * 10 AS k FROM t WHERE k > 2)")
        client.execute("CREATE STREAM y AS (SELECT k + 1 AS k FROM x)")
        query = client.register("SELECT k FROM y WHERE k < 45")
        for k in range(8):
            client.push("t", [{"k": k}])
            assert [row["k"] for row in rows_of(client, "x")] == [10 * n for n in range(3, k + 1)]
            assert [row["k"] for row in rows_of(client, "y")] == [10 * n + 1 for n in range(3, k + 1)]
            assert [row["k"] for row in query.invoke()] == [10 * n + 1 for n in range(3, min(k, 4) + 1)]


def test_an_open_instant_holds_no_read_up() -> None:
    """A tuple at the watermark waits, and a read after its push does not."""
    with serving() as served, Client(served.address) as client:
        client.create_stream(f"CREATE STREAM e {TIMED}")
        client.execute("CREATE STREAM x AS (SELECT k FROM e)")
        client.push("e", pa.table({"k": [1, 2], "at": pa.array([SECOND, 2 * SECOND], pa.timestamp("us"))}))
        assert [row["k"] for row in rows_of(client, "x")] == [1]
        client.heartbeat("e", 3 * SECOND)
        assert [row["k"] for row in rows_of(client, "x")] == [1, 2]


def test_a_watch_and_a_copy_follow_a_derived_stream() -> None:
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t WHERE k % 2 = 0)")
        copy = client.copy(client.register("SELECT k FROM x"))
        client.push("t", [{"k": k} for k in range(10)])
        copy.sync()
        assert copy.to_arrow().column("k").to_pylist() == [0, 2, 4, 6, 8]


def test_now_of_a_stream_with_queries_follows_its_sources_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_streams, "INSTANT_S", 0.01)
    with serving() as served, Client(served.address) as client:
        client.create_stream(f"CREATE STREAM e {TIMED}")
        client.execute("CREATE STREAM x AS (SELECT k FROM e WHERE k < 0)")
        client.register("SELECT k FROM x")
        client.push("e", pa.table({"k": [1], "at": pa.array([50 * SECOND], pa.timestamp("us"))}))
        view = lambda: served.service.host.snapshot().stream("x", "default")  # noqa: E731
        served.wait_until(lambda: view().watermark == 50 * SECOND - 1)
        last = served.service.host.applied
        assert rows_of(client, "x") == []
        assert served.service.host.applied == last


def test_ticks_that_the_clock_closes_need_no_event() -> None:
    """A tuple leaves its window, and no push comes after it."""
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        select = "SELECT k FROM t [RANGE 100 MILLISECONDS]"
        client.execute(f"CREATE STREAM came AS ({select}) EVERY 50 MILLISECONDS")
        client.execute(f"CREATE STREAM gone AS DSTREAM ({select}) EVERY 50 MILLISECONDS")
        client.push("t", [{"k": 1}])
        view = lambda: served.service.host.snapshot().stream("gone", "default")  # noqa: E731
        served.wait_until(lambda: view().next_id == 1)
        ((came,), (gone,)) = (rows_of(client, name) for name in ("came", "gone"))
        assert gone["_time"] - came["_time"] in (dt.timedelta(milliseconds=100), dt.timedelta(milliseconds=150))
        assert came["_time"].microsecond % 50_000 == gone["_time"].microsecond % 50_000 == 0


def test_a_restart_goes_on_with_the_same_rows_and_ids(tmp_path: Path) -> None:
    shown = list[Any]()
    for life in range(3):
        with serving(store=DurableStore(tmp_path)) as served, Client(served.address) as client:
            if not life:
                client.create_stream("CREATE STREAM t (k BIGINT)")
                client.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n TEXT)")
                client.push("c", [{"k": 1, "n": "one"}])
                client.execute("CREATE STREAM x AS (SELECT t.k, c.n FROM t JOIN c AS OF t ON t.k = c.k)")
            assert rows_of(client, "x") == shown
            client.push("t", [{"k": 1}, {"k": 2}])
            before, shown = shown, rows_of(client, "x")
            assert shown[: len(before)] == before
            assert [row["_id"] for row in shown] == list(range(life + 1))


@pytest.mark.long
def test_a_full_memory_delays_a_step_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        pump, left = served.service.regular.derived, [3]
        submit = pump._submit

        def full(command: Any) -> Any:
            if left[0]:
                left[0] -= 1
                raise ResourceExhausted("the memory is full", reason="MEMORY_BUDGET")
            return submit(command)

        monkeypatch.setattr(pump, "_submit", full)
        client.push("t", [{"k": 1}])
        shown = asked_until(lambda: rows_of(client, "x"), bool)  # a read does not wait for room
        assert [row["k"] for row in shown] == [1]
        served.wait_until(lambda: not left[0] and not pump.reasons)


def test_rows_that_are_logged_and_applied_late_are_not_pushed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for the writer ends too early, after the rows are logged."""
    monkeypatch.setattr(derived_streams, "_PATIENCE_S", 0.0)
    with serving() as served, Client(served.address) as client:
        client.create_stream(f"CREATE STREAM e {TIMED}")
        client.execute("CREATE STREAM x AS (SELECT k FROM e)")
        pumps = served.service.regular.derived
        for at in range(1, 9):
            client.push("e", pa.table({"k": [at], "at": pa.array([at * SECOND], pa.timestamp("us"))}))
            shown = asked_until(lambda: rows_of(client, "x"), lambda rows, wanted=at - 1: len(rows) >= wanted)
            assert [row["k"] for row in shown] == [*range(1, at)]
        assert not pumps.failed


def test_clients_are_told_that_the_service_derives_the_stream() -> None:
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        with pytest.raises(FailedPrecondition, match="is derived by the service") as refused:
            client.push("x", [{"k": 1}])
        assert refused.value.reason == "DERIVED"
        with pytest.raises(FailedPrecondition, match="streams derive from stream 't': x"):
            client.execute("DROP STREAM t")
        client.execute("DROP STREAM t CASCADE")
        assert not client.streams()


def test_a_derived_stream_shows_its_definition_and_its_pump() -> None:
    with serving() as served, Client(served.address) as client:
        for name in ("e", "f"):
            client.create_stream(f"CREATE STREAM {name} {TIMED}")
        select = "SELECT e.k FROM e [RANGE 1 HOUR], f [RANGE 1 HOUR] WHERE e.k = f.k"
        client.execute(f"CREATE STREAM x AS ({select}) RETENTION 1 DAY")
        at = lambda *seconds: pa.array([second * SECOND for second in seconds], pa.timestamp("us"))  # noqa: E731
        client.push("e", pa.table({"k": [1, 2], "at": at(5, 20)}))
        client.push("f", pa.table({"k": [1, 2], "at": at(6, 9)}))
        assert [row["k"] for row in rows_of(client, "x")] == [1]
        info = client.describe("x")
        derived = info.derived
        assert derived is not None and info.time_column == ""
        assert info.sql == f"CREATE STREAM x (k) AS ISTREAM ({select}) FROM START RETENTION 1 DAY"
        assert (derived.select, derived.sources, derived.from_now) == (select, ("e", "f"), False)
        assert derived.reached is not None and derived.reached.timestamp() == pytest.approx(9, abs=1e-5)
        assert (derived.lag.total_seconds(), derived.held_by) == (pytest.approx(11, abs=1e-5), "f")
        assert (derived.tuples, derived.rows, derived.errors, derived.failure) == (2, 1, 0, "")
        assert derived.state_bound == "no state"
        assert next(each for each in client.streams() if each.name == "x").derived == derived
        assert client.describe("e").derived is None


def test_an_answer_over_a_stream_and_what_derives_from_it_has_a_line_for_each() -> None:
    with serving() as served, Client(served.address) as client:
        client.create_stream(f"CREATE STREAM e {TIMED}")
        client.execute("CREATE STREAM x AS (SELECT k FROM e WHERE k > 1)")
        times = pa.array([SECOND, 2 * SECOND, 3 * SECOND], pa.timestamp("us"))
        client.push("e", pa.table({"k": [1, 2, 3], "at": times}))
        answer = client.ask("SELECT e.k FROM e JOIN x ON e.k = x.k")
        assert [row["k"] for row in answer.to_arrow().to_pylist()] == [2]
        first, second = answer.completeness.sources
        assert first.watermark is not None and second.watermark is not None
        assert (first.watermark - second.watermark).total_seconds() == pytest.approx(1e-6)
        assert client.ask("SELECT k FROM x").completeness.final


@pytest.mark.long
def test_a_pump_without_room_does_not_stop_other_pumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream without room lags most. Another stream is derived meanwhile. Afterwards no row is missing."""
    full, submit = [True], derived_streams.DerivedStreams._submit

    def refusing(pumps: derived_streams.DerivedStreams, command: Any) -> Any:
        if full[0] and getattr(command, "stream_id", None) == blocked:
            raise ResourceExhausted("the memory budget is used up", reason="MEMORY_BUDGET")
        return submit(pumps, command)

    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        blocked = served.service.host.snapshot().stream("x", "default").stream_id
        monkeypatch.setattr(derived_streams.DerivedStreams, "_submit", refusing)
        client.execute("CREATE STREAM y AS (SELECT k FROM t)")
        for k in range(20):
            client.push("t", [{"k": k}])
            assert [row["k"] for row in rows_of(client, "y")] == [*range(k + 1)]
        assert "memory budget" in client.describe("x").derived.failure
        full[0] = False
        shown = asked_until(lambda: rows_of(client, "x"), lambda rows: len(rows) == 20)  # a read does not wait for room
        assert [row["k"] for row in shown] == [*range(20)]


@pytest.mark.long
def test_the_work_for_a_push_grows_with_the_number_of_derived_streams_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pumps are looked at a few times for all steps together."""
    looks, due = [0], Pump.due

    def counted(pump: Pump, *arguments: Any, **options: Any) -> Any:
        looks[0] += 1
        return due(pump, *arguments, **options)

    monkeypatch.setattr(Pump, "due", counted)
    monkeypatch.setattr(derived_streams, "_ROUND_S", 60.0)
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        for number in range(60):
            client.execute(f"CREATE STREAM x{number} AS (SELECT k FROM t WHERE k > {number})")
        client.push("t", [{"k": k} for k in range(100)])
        assert len(rows_of(client, "x59")) == 40 and len(rows_of(client, "x0")) == 99
        looks[0] = 0
        done = client.push("t", [{"k": 100}])
        for number in range(60):
            assert len(client.ask(f"SELECT k FROM x{number} WHERE k = 100", wait_for=done.sequence)) == 1
        assert looks[0] < 60 * 20


def test_pushes_that_no_reader_waits_for_are_derived_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read ends the pause of the pumps, and so does the end of the service."""
    monkeypatch.setattr(derived_streams, "PACE_S", 3_600.0)
    monkeypatch.setattr(derived_streams, "MOST_REST_S", 3_600.0)
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        assert rows_of(client, "x") == []
        pumps = served.service.regular.derived
        for begin in range(0, 60, 20):
            before = pumps.steps
            for k in range(begin, begin + 20):
                last = client.push("t", [{"k": k}]).sequence
            served.wait_until(lambda last=last: served.service.host.applied >= last)  # type: ignore[misc]
            assert [row["k"] for row in rows_of(client, "x")] == [*range(begin + 20)]
            assert pumps.steps <= before + 4
        client.push("t", [{"k": 60}])
        client.push("t", [{"k": 61}])
    assert not pumps._thread.is_alive()


def test_a_service_stops_during_a_long_step() -> None:
    """The step ends at its next check of the budget."""
    begun = threading.Event()

    def endless(_snapshot: Any, _promised: int, budget: ReadBudget, **_: Any) -> None:
        begun.set()
        while True:
            budget.check()

    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        pumps = served.service.regular.derived
        served.wait_until(lambda: bool(pumps.pumps))
        (pump,) = pumps.pumps.values()
        pump.step = endless  # type: ignore[method-assign]
        client.push("t", [{"k": 1}])
        assert begun.wait(30)
    assert not pumps._thread.is_alive()
    assert not pumps.failed


def test_a_long_step_is_divided_while_other_tenants_have_derived_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of more than 8 tuples never ends here. Without another tenant nothing would wait for it."""
    monkeypatch.setattr(derived_streams, "STEP_S", 0.02)
    step = Pump.step

    def slow(pump: Pump, snapshot: Any, promised: int, budget: ReadBudget, **options: Any) -> Any:
        while pump.tenant == "default" and pump._share > 8:
            budget.check()
        return step(pump, snapshot, promised, budget, **options)

    with serving() as served, Client(served.address) as first:
        token = first.issue_token("operator", ["operator", "owner"]).secret
        with Client(served.address, options=ClientOptions(token=token), timeout=60) as client:
            client.create_tenant("acme")
            theirs = client.issue_token("theirs", ["owner"], tenant="acme").secret
            with Client(served.address, options=ClientOptions(token=theirs), timeout=60) as other:
                for each in (client, other):
                    each.create_stream("CREATE STREAM t (k BIGINT)")
                    each.execute("CREATE STREAM x AS (SELECT k FROM t)")
                pumps = served.service.regular.derived
                served.wait_until(lambda: len(pumps.pumps) == 2)
                monkeypatch.setattr(Pump, "step", slow)
                client.push("t", [{"k": k} for k in range(100)])
                other.push("t", [{"k": 1}])
                assert [row["k"] for row in rows_of(other, "x")] == [1]
                assert [row["k"] for row in rows_of(client, "x")] == [*range(100)]
                assert not pumps.failed
