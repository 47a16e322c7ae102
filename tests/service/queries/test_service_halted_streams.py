"""Derived streams of a service that are suspended, stopped or resumed, and what reads and answers say then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psoup.derivation import Halt
from psoup.errors import InvalidBatch, ResourceExhausted
from psoup.events.commands import StopPump
from psoup.pumps import NO_ROOM, Pump
from psoup_client import Client, DelayInfo
from psoup_client.errors import FailedPrecondition
from psoup_service.chores import derived_streams
from psoup_storage import DurableStore
from psoup_testing.services.reply_wait import asked_until
from psoup_testing.services.threaded_service import Serving, serving

SECOND = 1_000_000


def rows_of(client: Client, name: str) -> list[dict[str, Any]]:
    return client.ask(f"SELECT *, _id, _time FROM {name}").to_arrow().to_pylist()


def halt_of(served: Serving) -> Halt | None:
    """Why the pump of x does not run."""
    derived = served.service.host.snapshot().stream("x", "default").spec.derived
    assert derived is not None
    return derived.halt


def refuse(pump: Pump) -> None:
    """Let each step be refused."""
    pump.step = lambda *_, **__: throw(InvalidBatch("row 1: the value is bad"))  # type: ignore[method-assign]


def fail(pump: Pump) -> None:
    """Let each step fail with an unexpected error."""
    pump.step = lambda *_, **__: throw(IndexError("row 1: the value is bad"))  # type: ignore[method-assign]


def unbind(pump: Pump) -> None:
    """Let the SELECT be one that cannot be bound any more."""
    pump._form, pump._derived = None, replace(pump._derived, select="SELECT row FROM t")


def throw(problem: Exception) -> None:
    raise problem


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (refuse, "row 1: the value is bad"),
        (fail, "IndexError: row 1: the value is bad"),
        (unbind, "column"),
    ],
)
def test_a_step_that_fails_stops_its_pump_until_resume(
    spoil: Callable[[Pump], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other streams are derived meanwhile, and no read waits for the stopped one."""
    monkeypatch.setattr(derived_streams, "RETRIES_S", (0.0, 0.0))
    with serving() as served, Client(served.address, timeout=60) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        client.execute("CREATE STREAM good AS (SELECT k FROM t)")
        pumps = served.service.regular.derived
        served.wait_until(lambda: len(pumps.pumps) == 2)
        bad = min(pumps.pumps)
        step, select = pumps.pumps[bad].step, pumps.pumps[bad]._derived
        spoil(pumps.pumps[bad])
        client.push("t", [{"k": 1}])
        assert [row["k"] for row in rows_of(client, "good")] == [1]
        served.wait_until(lambda: halt_of(served) is not None)
        assert pumps.failed == len(derived_streams.RETRIES_S) + 1
        derived = client.describe("x").derived
        assert derived is not None and reason in derived.failure and derived.since is not None
        assert rows_of(client, "x") == []
        answer = client.ask("SELECT k FROM x")
        assert answer.completeness.halt == "stopped"
        delay = answer.completeness.delay
        assert delay is not None and (delay.stream, delay.since) == ("x", derived.since) and reason in delay.why
        assert "tream x is stopped since" in answer.completeness.sentence()
        pumps.pumps[bad].step, pumps.pumps[bad]._derived = step, select  # type: ignore[method-assign]
        pumps.pumps[bad]._form = None
        client.execute("ALTER STREAM x RESUME")
        assert [row["k"] for row in rows_of(client, "x")] == [1]
        assert client.describe("x").derived.state == "running"  # type: ignore[union-attr]


def test_a_stop_that_cannot_be_logged_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_streams, "RETRIES_S", ())
    monkeypatch.setattr(derived_streams, "REST_S", 0.0)
    submit, refused = derived_streams.DerivedStreams._submit, [2]

    def refusing(pumps: derived_streams.DerivedStreams, command: Any) -> Any:
        if isinstance(command, StopPump) and refused[0]:
            refused[0] -= 1
            raise ResourceExhausted("the disk is full", reason="DISK_FULL")
        return submit(pumps, command)

    monkeypatch.setattr(derived_streams.DerivedStreams, "_submit", refusing)
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        pumps = served.service.regular.derived
        served.wait_until(lambda: len(pumps.pumps) == 1)
        refuse(*pumps.pumps.values())
        client.push("t", [{"k": 1}])
        served.wait_until(lambda: halt_of(served) is not None)
        assert pumps.failed == 3


def test_a_suspended_stream_holds_up_no_read_and_its_answers_say_so() -> None:
    with serving() as served, Client(served.address, timeout=60) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        client.execute("CREATE STREAM y AS (SELECT k + 1 AS k FROM x)")
        client.push("t", [{"k": 1}])
        assert [row["k"] for row in rows_of(client, "y")] == [2]
        client.execute("ALTER STREAM x SUSPEND")
        client.push("t", [{"k": 2}])
        assert [row["k"] for row in rows_of(client, "x")] == [1]
        assert [row["k"] for row in rows_of(client, "y")] == [2]
        completeness = client.ask("SELECT k FROM x").completeness
        assert (completeness.halt, completeness.gaps) == ("suspended", ())
        both = client.ask("SELECT x.k FROM x JOIN y ON x.k = y.k").completeness
        assert (both.halt, [source.halt for source in both.sources]) == ("suspended", ["suspended", "suspended"])
        assert [source.delay and source.delay.stream for source in both.sources] == ["x", "x"], "y gets none either"
        assert "y: stream x is suspended since" in both.sentence()
        client.execute("ALTER STREAM x RESUME")
        assert [row["k"] for row in rows_of(client, "y")] == [2, 3]
        assert client.ask("SELECT k FROM x").completeness.halt == ""


def test_an_answer_names_the_instants_that_were_left_out(tmp_path: Path) -> None:
    with serving(store=DurableStore(tmp_path)) as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        client.execute("CREATE STREAM y AS (SELECT k FROM x)")
        client.push("t", [{"k": 1}])
        assert rows_of(client, "x")
        client.execute("ALTER STREAM x SUSPEND")
        client.push("t", [{"k": 2}])
        client.execute("ALTER STREAM x RESUME FROM NOW")
        client.push("t", [{"k": 3}])
        assert [row["k"] for row in rows_of(client, "x")] == [1, 3]
        answer = client.ask("SELECT k FROM x")
        (gap,) = answer.completeness.gaps
        assert client.describe("x").derived.gaps == (gap,)  # type: ignore[union-attr]
        assert client.ask("SELECT k FROM y").completeness.gaps == (gap,)
        first, last = (row["_time"] for row in rows_of(client, "x"))
        assert gap.begin is not None and gap.end is not None and first < gap.begin <= gap.end < last
        lacks = f"the stream lacks rows from {gap.begin:%Y-%m-%d %H:%M:%S.%f}Z to {gap.end:%Y-%m-%d %H:%M:%S.%f}Z"
        assert lacks.replace(".000000", "") in answer.completeness.sentence()
        assert client.ask("SELECT k FROM x", window="BEGIN (NOW)").completeness.gaps == ()


def test_a_service_releases_the_pins_of_a_stream_that_is_suspended_for_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(derived_streams, "INSTANT_S", 0.01)
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t) LAG AT MOST 1 HOUR")
        client.push("t", [{"k": 1}])
        assert rows_of(client, "x")
        client.execute("ALTER STREAM x SUSPEND")
        pumps, ahead = served.service.regular.derived, [0]
        now = pumps._host.clock.now
        monkeypatch.setattr(pumps._host.clock, "now", lambda: now() + ahead[0])
        pins = lambda: [(pin.source, pin.released) for pin in client.describe("x").derived.pins]  # type: ignore[union-attr]  # noqa: E731
        assert pins() == [("t", False)]
        ahead[0] = 3_601 * SECOND
        served.wait_until(lambda: (halt := halt_of(served)) is not None and halt.released)
        assert pins() == [("t", True)]
        with pytest.raises(FailedPrecondition, match="RESUME FROM NOW") as refused:
            client.execute("ALTER STREAM x RESUME")
        assert refused.value.reason == "PINS_RELEASED"


def test_no_read_waits_for_a_stream_that_finds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_streams, "INSTANT_S", 0.01)
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t)")
        client.execute("CREATE STREAM y AS (SELECT k FROM x)")
        client.push("t", [{"k": 1}])
        assert rows_of(client, "y")
        pump = served.service.regular.derived.pumps[served.service.host.snapshot().stream("x", "default").stream_id]
        step = pump.step
        pump.step = lambda *_, **__: throw(ResourceExhausted("it is full", reason=NO_ROOM))  # type: ignore[method-assign]
        client.push("t", [{"k": 2}])
        assert [row["k"] for row in rows_of(client, "x")] == [row["k"] for row in rows_of(client, "y")] == [1]
        derived = client.describe("x").derived
        assert derived is not None and (derived.state, derived.failure) == ("waiting", "it is full")
        assert client.describe("y").derived.held_by == "x"  # type: ignore[union-attr]
        for name in ("x", "y"):
            answer = client.ask(f"SELECT k FROM {name}").completeness
            assert (answer.halt, answer.delay) == ("waiting", DelayInfo("x", derived.since, "it is full"))  # type: ignore[arg-type]
            assert "tream x waits for room in memory since" in answer.sentence()
            assert answer.sentence().endswith("so no rows come: it is full.")
        pump.step = step  # type: ignore[method-assign]
        asked_until(lambda: [row["k"] for row in rows_of(client, "y")], lambda read: read == [1, 2])
        assert client.ask("SELECT k FROM y").completeness.delay is None
        assert client.describe("x").derived.state == "running"  # type: ignore[union-attr]


def test_a_service_stops_a_stream_that_finds_no_room_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_streams, "INSTANT_S", 0.01)
    with serving() as served, Client(served.address) as client:
        client.create_stream("CREATE STREAM t (k BIGINT)")
        client.execute("CREATE STREAM x AS (SELECT k FROM t) LAG AT MOST 1 HOUR")
        client.push("t", [{"k": 1}])
        assert rows_of(client, "x")
        pumps, ahead = served.service.regular.derived, [0]
        pump = pumps.pumps[served.service.host.snapshot().stream("x", "default").stream_id]
        step, now = pump.step, pumps._host.clock.now
        monkeypatch.setattr(pumps._host.clock, "now", lambda: now() + ahead[0])
        pump.step = lambda *_, **__: throw(ResourceExhausted("it is full", reason=NO_ROOM))  # type: ignore[method-assign]
        client.push("t", [{"k": 2}])
        served.wait_until(lambda: bool(served.service.host.snapshot().waits.items()))
        assert halt_of(served) is None
        ahead[0] = 3_601 * SECOND
        served.wait_until(lambda: (halt := halt_of(served)) is not None and halt.released)
        derived = client.describe("x").derived
        assert derived is not None and derived.state == "stopped"
        assert derived.failure == "it waited for room in memory for longer than its LAG AT MOST 1 HOUR: it is full"
        served.wait_until(lambda: not served.service.host.snapshot().waits.items())
        pump.step = step  # type: ignore[method-assign]
        client.execute("ALTER STREAM x RESUME FROM NOW")
        client.push("t", [{"k": 3}])
        asked_until(lambda: [row["k"] for row in rows_of(client, "x")], lambda read: read == [1, 3])
        assert len(client.ask("SELECT k FROM x").completeness.gaps) == 1
