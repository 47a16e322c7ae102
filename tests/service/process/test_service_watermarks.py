"""Services with WATERMARK BY CLOCK: restarts, loads of old rows, clocks that jump, refused pushes."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from psoup.errors import ResourceExhausted
from psoup.model import SECOND
from psoup_client import Client
from psoup_service.chores import clock_heartbeats
from psoup_service.chores.clock_heartbeats import ClockHeartbeats
from psoup_service.host.push_pauses import LONG, PushPauses
from psoup_service.process.clock import GuardedClock
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.machine_clocks import Machine
from psoup_testing.services.threaded_service import Serving, serving

BY_CLOCK = "CREATE STREAM s (at TIMESTAMP NOT NULL, v BIGINT) TIMESTAMP BY at LATENESS 30 SECONDS WATERMARK BY CLOCK"


@pytest.fixture(autouse=True)
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the test lets watermarks follow the clock."""
    monkeypatch.setattr(clock_heartbeats, "EVERY_S", 3_600.0)


@contextmanager
def service_on(machine: Machine, path: Path) -> Iterator[tuple[Serving, Client]]:
    machine.clock = machine.new_clock()
    store = DurableStore(path, reserve_bytes=0)
    with serving(Settings(port=0), machine.clock, store) as running, Client(running.address) as client:
        yield running, client


def push(client: Client, *times: float) -> tuple[int, int]:
    """The accepted and the late rows of a push of rows with these times, in seconds."""
    done = client.push(
        "s", {"at": [round(time * SECOND) for time in times], "v": [1] * len(times)}, refused="count", time_unit="us"
    )
    return done.accepted, done.late


def pass_seconds(machine: Machine, running: Serving, seconds: int) -> int:
    """Let time go by, with a heartbeat every second. Returns the number of moves."""
    moves = 0
    for _ in range(seconds):
        machine.pass_seconds(1)
        moves += running.follow_clock()
    return moves


def behind(client: Client, machine: Machine) -> float:
    """The seconds by which the watermark is behind the right time."""
    watermark = client.describe("s").watermark
    assert watermark is not None
    return machine.true / SECOND - watermark.timestamp()


def live(client: Client) -> tuple[bool, bool]:
    """Whether the stream has WATERMARK BY CLOCK, and whether it is live."""
    info = client.describe("s")
    return info.watermark_by_clock, info.live


def now(machine: Machine) -> float:
    return machine.true / SECOND


@pytest.mark.long
def test_a_quiet_stream_goes_on_and_a_restart_makes_no_kept_row_late(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path / "data") as (running, client):
        client.create_stream(BY_CLOCK)
        assert live(client) == (True, False), "an empty stream is not live"
        query = client.register("SELECT v FROM s BEGIN (NOW - 1 HOUR)").id
        assert push(client, now(machine)) == (1, 0)
        assert live(client) == (True, True)
        assert pass_seconds(machine, running, 59) == 0, "the grace after a start"
        assert len(client.query(query).invoke()) == 0
        assert pass_seconds(machine, running, 31) == 31
        assert behind(client, machine) == 30
        assert live(client) == (True, True)
        assert len(client.query(query).invoke()) == 1, "the last minute of a quiet stream comes in"
        stopped = now(machine)
    machine.pass_seconds(3_600, observed=False)
    with service_on(machine, tmp_path / "data") as (running, client):
        assert behind(client, machine) == 3_630, "as the log says"
        assert live(client) == (True, True)
        assert pass_seconds(machine, running, 40) == 0
        for minute in range(60):  # rows that a producer could not send, in the order of time
            assert push(client, stopped + 60 * minute, stopped + 60 * minute + 59) == (2, 0)
        assert push(client, now(machine) - 29, now(machine)) == (2, 0)
        assert pass_seconds(machine, running, 30) > 0
        assert behind(client, machine) == 30
        assert push(client, now(machine) - 31, now(machine) - 29) == (1, 1)
        before = client.query(query).invoke()
        rows = running.service._store._database.query("SELECT count(*) FROM log WHERE kind = 'watermarks'", ())
        assert list(rows) == [(1,)], "the log keeps the last heartbeat of the clock"
    with service_on(machine, tmp_path / "data") as (_, client):
        again = client.query(query).invoke()
        assert again.rows() == before.rows()
        assert again.completeness == before.completeness


def test_a_slow_load_of_old_rows_makes_no_stream_live(tmp_path: Path) -> None:
    machine, week = Machine(), 7 * 86_400
    with service_on(machine, tmp_path / "data") as (running, client):
        client.create_stream(BY_CLOCK)
        pass_seconds(machine, running, 61)
        for minute in range(20):
            assert push(client, now(machine) - week + 50 * minute) == (1, 0)
            assert pass_seconds(machine, running, 10) == 0


def test_a_clock_that_jumps_makes_no_row_late(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path / "data") as (running, client):
        client.create_stream(BY_CLOCK)
        pass_seconds(machine, running, 61)
        assert push(client, now(machine)) == (1, 0)
        assert pass_seconds(machine, running, 5) == 5
        machine.set_forward(7_200)  # the guarded clock does not follow
        assert pass_seconds(machine, running, 5) == 5
        assert push(client, now(machine) - 29) == (1, 0)
        machine.set_forward(-7_200)
        assert pass_seconds(machine, running, 5) == 5
        machine.set_forward(50)  # a small step is followed, and the grace begins anew
        assert pass_seconds(machine, running, 50) == 0
        assert push(client, now(machine) - 29) == (1, 0)
        machine.set_forward(-50 - 3_600)  # followed at once
        assert pass_seconds(machine, running, 120) == 0
        assert push(client, now(machine)) == (0, 0), "it is ahead of the wrong clock"
        machine.set_forward(3_600)
        assert push(client, now(machine) - 29) == (1, 0)


def test_a_process_that_stood_still_waits(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path / "data") as (running, client):
        client.create_stream(BY_CLOCK)
        pass_seconds(machine, running, 61)
        push(client, now(machine))
        assert pass_seconds(machine, running, 1) == 1
        before = now(machine)
        machine.pass_seconds(300, observed=False)
        assert not running.follow_clock()
        assert push(client, before) == (1, 0)
        assert pass_seconds(machine, running, 59) == 0
        assert pass_seconds(machine, running, 1) == 1


def test_a_full_disk_stops_the_clock_until_pushes_are_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    with service_on(machine, tmp_path / "data") as (running, client):
        client.create_stream(BY_CLOCK)
        pass_seconds(machine, running, 61)
        push(client, now(machine))
        assert pass_seconds(machine, running, 1) == 1

        def full(size: int) -> None:
            raise ResourceExhausted("the disk is full", reason="DISK_FULL")

        with monkeypatch.context() as patch:
            patch.setattr(running.service._store, "check_room", full)
            assert pass_seconds(machine, running, 90) == 0
        assert push(client, now(machine) - 90) == (1, 0)
        assert pass_seconds(machine, running, 59) == 0
        assert pass_seconds(machine, running, 1) == 1


class JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the time of its loop instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


async def virtual(seconds: float) -> None:
    """Let the time of the loop go on."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


def heartbeats_during(seconds: float, host: Any, monkeypatch: pytest.MonkeyPatch) -> ClockHeartbeats:
    """The heartbeats of a service after so many seconds in which no time really passes."""
    monkeypatch.setattr(clock_heartbeats, "EVERY_S", 1.0)
    selector = JumpingSelector()
    clock = GuardedClock(lambda: round(selector.now * SECOND), lambda: round(selector.now * SECOND))
    heartbeats = ClockHeartbeats(host, clock, PushPauses(clock.boot), lambda: True)
    loop = asyncio.SelectorEventLoop(selector)
    monkeypatch.setattr(loop, "time", lambda: selector.now)

    async def run() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(heartbeats.run(), seconds)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    return heartbeats


def test_slow_heartbeats_are_no_stall_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowHost:
        async def submit(self, command: object) -> SimpleNamespace:
            await virtual(0.4)
            return SimpleNamespace(duplicate=False, sequence=1)

        async def wait_for(self, sequence: int, patience: float) -> None:
            await virtual(6.0)

    heartbeats = heartbeats_during(1_000.0, SlowHost(), monkeypatch)
    assert heartbeats.count >= 7
    assert heartbeats.pauses.steady()[0] >= 999 * SECOND, "the pause after a slow heartbeat is not a pause in pushes"


def test_refused_heartbeats_are_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class FullHost:
        async def submit(self, command: object) -> SimpleNamespace:
            raise ResourceExhausted("the disk is full", reason="DISK_FULL")

    caplog.set_level("INFO", clock_heartbeats.__name__)
    heartbeats_during(150.0, FullHost(), monkeypatch)
    assert len([record for record in caplog.records if "the disk is full" in record.message]) == 3


# Pauses ------------------------------------------------------------------------------------------------------


class Boot:
    """Boot time that a test moves."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_refused_pushes_count_for_their_tenant() -> None:
    boot = Boot()
    pauses = PushPauses(boot)
    boot.now = 100
    pauses.ended("IngestService/Push", "acme", "RESOURCE_EXHAUSTED")
    pauses.ended("IngestService/PushStream", "umbra", "OK")
    pauses.ended("QueryService/Register", "umbra", "RESOURCE_EXHAUSTED")
    pauses.ended("IngestService/Push", "umbra", "OUT_OF_RANGE")
    boot.now = 150
    assert pauses.steady() == (150, {"acme": 50})
    pauses.interrupt()
    boot.now = 160
    assert pauses.steady() == (10, {})


def test_a_push_in_line_counts_while_it_waits_and_when_it_goes_on() -> None:
    boot = Boot()
    pauses = PushPauses(boot)
    seen = []

    async def reserve(tenant: str, size: int, *, patience: float) -> str:
        for _ in range(2):
            boot.now += LONG - 1
            seen.append(pauses.steady())
        return f"{tenant} {size} {patience}"

    assert asyncio.run(pauses.watching(reserve)("acme", 3, patience=2.0)) == "acme 3 2.0"
    assert seen == [(LONG - 1, {}), (2 * LONG - 2, {"acme": 0})]
    boot.now += 5
    assert pauses.steady() == (2 * LONG + 3, {"acme": 5})
