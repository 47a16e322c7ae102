"""Services of a machine whose wall clock is set, while they run and between two starts: what they keep and show."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from psoup.config import EngineConfig
from psoup.model import DEFAULT_TENANT, SECOND, time_text
from psoup_client import AccessDenied, Client, ClientOptions, ServiceClock
from psoup_service.chores.expiry import WAIT
from psoup_service.gate.audit import NAME
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.machine_clocks import START, Machine
from psoup_testing.services.threaded_service import Serving, serving

STREAM = "CREATE STREAM s (v BIGINT) RETENTION 1 HOUR"
WINDOW = "SELECT v FROM s BEGIN (NOW - 30 MINUTES) END (NOW)"
CHUNK = 64


class SmallChunks(Settings):
    """Settings with chunks of 64 tuples, as a tuple expires with its chunk."""

    def engine_config(self) -> EngineConfig:
        return replace(super().engine_config(), chunk_rows=CHUNK)


@contextmanager
def service_on(machine: Machine, path: Path | None = None, metrics_port: int = -1) -> Iterator[tuple[Serving, Client]]:
    """A service on the machine, in memory or in a directory, and a client."""
    store = None if path is None else DurableStore(path, reserve_bytes=0)
    machine.clock = machine.new_clock()
    settings = SmallChunks(port=0, metrics_port=metrics_port)
    with serving(settings, machine.clock, store) as running, Client(running.address) as client:
        yield running, client


def client_with(running: Serving, token: str) -> Client:
    return Client(running.address, options=ClientOptions(token=token))


def push(client: Client, value: int) -> None:
    """Push one chunk of equal values."""
    client.push("s", {"v": [value] * CHUNK})


def kept(client: Client, query: str = "SELECT v FROM s") -> list[int]:
    """The different values that an answer has."""
    return sorted({value for (value,) in client.ask(query).rows()})


def oldest(running: Serving) -> int:
    """The ID of the oldest tuple that is still there."""
    return running.service.host.snapshot().stream("s", DEFAULT_TENANT).first_id


def clock_of(client: Client) -> ServiceClock:
    told = client.info().clock
    assert told is not None
    return told


def test_a_clock_that_is_ahead_for_a_moment_deletes_nothing() -> None:
    machine = Machine()
    with service_on(machine) as (_, client):
        client.create_stream(STREAM)
        push(client, 1)
        machine.pass_seconds(60)
        machine.set_forward(7_200)
        push(client, 2)
        assert kept(client, WINDOW) == [1, 2]
        machine.set_forward(-7_200)
        machine.pass_seconds(60)
        push(client, 3)
        assert kept(client) == kept(client, WINDOW) == [1, 2, 3]
        stamps = {row[0] for row in client.ask("SELECT _time FROM s").rows()}
        assert max(stamps).timestamp() * SECOND == machine.true
        machine.pass_seconds(1_700)
        assert kept(client, WINDOW) == [2, 3], "windows move on"
        machine.pass_seconds(3_600)
        push(client, 4)
        assert kept(client) == [4], "and so does retention"


def test_a_clock_that_is_behind_for_a_moment_doubles_and_deletes_nothing() -> None:
    machine = Machine()
    with service_on(machine) as (_, client):
        client.create_stream(STREAM)
        push(client, 1)
        machine.set_forward(-7_200)
        machine.pass_seconds(60)
        push(client, 2)
        assert kept(client, WINDOW) == [1, 2]
        assert clock_of(client).behind == timedelta(seconds=7_200 - 60)
        machine.set_forward(7_200)
        machine.pass_seconds(60)
        push(client, 3)
        assert kept(client) == kept(client, WINDOW) == [1, 2, 3]
        assert len(client.ask(WINDOW).rows()) == 3 * CHUNK
        told = clock_of(client)
        assert (told.ahead, told.behind, told.steps) == (timedelta(0), timedelta(0), 0)


def test_an_access_token_does_not_end_by_a_step_that_is_pending(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path) as (running, client):
        operator = client.issue_token("operator", ["operator", "owner"], first=True).secret
        with client_with(running, operator) as allowed:
            issued = allowed.issue_token("hour", ["reader"], expires_after=timedelta(hours=1)).secret
            machine.set_forward(7_200)
            with client_with(running, issued) as reader:
                assert reader.streams() == []
                assert not [token for token in allowed.tokens() if token.expired]
                with pytest.raises(AccessDenied, match="AcceptClock"):
                    reader.accept_clock()
                assert allowed.accept_clock()
                with pytest.raises(AccessDenied, match="expired"):
                    reader.streams()
            assert not allowed.accept_clock(), "there is none any more"
            allowed.create_tenant("acme")
            other = allowed.issue_token("other", ["operator"], tenant="acme").secret
        with client_with(running, other) as tenants, pytest.raises(AccessDenied, match="about all tenants"):
            tenants.accept_clock()
    assert (tmp_path / NAME).read_text().count('"call":"AdminService/AcceptClock","outcome":"OK"') == 2


def test_a_step_is_shown_until_it_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    with service_on(machine, metrics_port=0) as (running, client):

        def read(path: str) -> str:
            with urllib.request.urlopen(f"http://{running.service.metrics_address}{path}", timeout=60) as reply:
                assert reply.status == 200
                return str(reply.read().decode())

        def figures() -> list[float]:
            families = {family.name: family for family in text_string_to_metric_families(read("/metrics"))}
            return [families[f"psoup_clock_{name}"].samples[0].value for name in ("steps", "ahead_seconds")]

        assert figures() == [0, 0]
        assert read("/readyz") == "serving\n"
        machine.set_forward(7_200)
        machine.pass_seconds(100)
        told = clock_of(client)
        assert (told.ahead, told.followed_in, told.steps) == (timedelta(hours=2), timedelta(seconds=501), 1)
        assert told.pending_since is not None
        assert told.pending_since.timestamp() * SECOND == START + SECOND
        assert figures() == [1, 7_200]
        assert read("/readyz").startswith("serving: the wall clock was set forward and is 7,200 s ahead; ")
        assert "psoup clock accept" in read("/readyz")
        assert client.accept_clock()
        told = clock_of(client)
        assert (told.ahead, told.pending_since, told.time) == (timedelta(0), None, told.wall)
        assert figures() == [1, 0]
        assert read("/readyz") == "serving\n"
    lines = [record.getMessage() for record in caplog.records if record.name == "psoup_service.process.clock"]
    assert [line.split(":")[0] for line in lines] == [
        "the wall clock was set forward, and is not followed yet",
        "an operator has accepted the wall clock",
    ]


def test_a_service_looks_at_its_clock_without_being_asked() -> None:
    machine = Machine()
    with service_on(machine) as (running, _):
        assert "clock" in running.service.regular.supervisor.names


def test_after_a_start_expiry_waits_a_minute(tmp_path: Path) -> None:
    """The clock of the second start is two hours ahead: what is pushed then has a wrong time, but deletes nothing."""
    machine = Machine()
    with service_on(machine, tmp_path) as (_, client):
        client.create_stream(STREAM)
        push(client, 1)
    machine.set_forward(7_200)
    with service_on(machine, tmp_path) as (running, client):
        machine.pass_seconds(WAIT // SECOND - 1)
        push(client, 2)
        assert kept(client) == [2], "NOW is the time of the last tuple"
        assert oldest(running) == 0, "and what is before the retention is kept nevertheless"
        machine.pass_seconds(1)
        for _ in range(1_000):  # until what is past is forgotten by the log
            push(client, 3)
            assert kept(client) == [2, 3]
            if oldest(running) == CHUNK:
                break
        assert oldest(running) == CHUNK, "a minute later it goes"


def test_a_start_without_events_waits_for_nothing(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path) as (running, client):
        client.create_stream("CREATE STREAM s (v BIGINT) RETENTION 1 SECOND")
        push(client, 1)
        machine.pass_seconds(3)
        push(client, 2)
        for _ in range(1_000):
            push(client, 2)
            assert kept(client) == [2]
            if oldest(running) >= CHUNK:
                break
        assert oldest(running) >= CHUNK


def test_a_start_with_a_clock_before_the_last_event_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Windows stay as they are: new tuples get the time of the last one until the clock has reached it."""
    machine = Machine()
    machine.set_forward(7_200)
    with service_on(machine, tmp_path) as (_, client):
        client.create_stream(STREAM)
        push(client, 1)
    machine.set_forward(-7_200)
    caplog.clear()
    with service_on(machine, tmp_path) as (_, client):
        (record,) = [record for record in caplog.records if record.name == "psoup_service.process.clock"]
        assert record.levelno == logging.WARNING
        assert "the clock is before the last event" in record.getMessage()
        assert (vars(record)["seconds"], vars(record)["last_event"]) == (7_200, time_text(START + 7_200 * SECOND))
        push(client, 2)
        assert kept(client, WINDOW) == [1, 2]
        told = clock_of(client)
        assert (told.behind, told.ahead) == (timedelta(hours=2), timedelta(0))
        machine.pass_seconds(7_200, observed=False)
        push(client, 3)
        assert kept(client, WINDOW) == [1, 2, 3]
        assert clock_of(client).behind == timedelta(0)


def test_a_clock_that_is_set_while_a_service_starts_is_trusted() -> None:
    machine = Machine()
    clock = machine.clock
    machine.set_forward(7_200)
    clock.begin(None)
    assert machine.error == 7_200
    assert clock.state().steps == 0
