"""AHEAD: the time past the clock that a stream accepts, and the producer that moved a watermark there."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import AlreadyExists, FailedPrecondition, InvalidInput, OutOfRange, SqlError
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import AlterStream, CreateStream, Heartbeat, Push
from psoup.events.events import StreamAltered, StreamCreated
from psoup.model import SECOND
from psoup.sql import Alteration, alter_statement, alter_stream, create_statement, create_stream
from psoup_service.host.jumps import Jumps
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.suite.log_records import own_records

EVENTS = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t"


def ahead(gate: Gate, time: float) -> int:
    """How many of one tuple are refused as too far ahead."""
    done = gate.push("s", t=[time], x=[1])
    assert isinstance(done, PushAcknowledgement)
    return done.ahead


def altered(gate: Gate, sql: str) -> StreamAltered | None:
    event = gate.send(AlterStream(sql)).event
    assert event is None or isinstance(event, StreamAltered)
    return event


def test_a_stream_that_says_nothing_has_five_minutes() -> None:
    gate = Gate(now=1_000)
    created = gate.send(CreateStream(EVENTS)).event
    assert isinstance(created, StreamCreated)
    assert (created.spec.ahead, created.spec.ahead_stated) == (300 * SECOND, False)
    assert created.sql == create_statement(created.spec) == EVENTS
    assert ahead(gate, 1_301) == 1
    assert ahead(gate, 1_300) == 0


def test_a_stream_says_how_far() -> None:
    gate = Gate(now=1_000)
    gate.create(EVENTS + " LATENESS 5 SECONDS AHEAD 10 SECONDS RETENTION 1 DAY")
    assert ahead(gate, 1_010.5) == 1
    with pytest.raises(OutOfRange, match="ALTER STREAM … AHEAD") as caught:
        gate.send(Heartbeat("s", 1_011 * SECOND))
    assert caught.value.reason == "TOO_FAR_AHEAD"
    assert ahead(gate, 1_010) == 0
    gate.send(Heartbeat("s", 1_010 * SECOND))


def test_a_stream_of_an_older_log_keeps_what_the_service_allows_until_it_is_altered() -> None:
    gate = Gate(now=1_000)
    spec = create_stream(EVENTS)
    assert spec.ahead is None
    for admission in (gate.admission, gate.shadow):
        admission.replay(StreamCreated(1, "default", 1, spec, EVENTS, 0))
    assert ahead(gate, 1_000 + 86_401) == 1
    assert ahead(gate, 1_000 + 3_600) == 0
    event = altered(gate, "ALTER STREAM s AHEAD 2 MINUTES")
    assert event is not None
    assert (event.spec.ahead, event.added) == (120 * SECOND, "ALTER STREAM s AHEAD 2 MINUTES")
    assert event.sql == EVENTS + " AHEAD 2 MINUTES"
    assert altered(gate, "ALTER STREAM s AHEAD 120 SECONDS") is None, "it has that already"
    gate.now = 5_000
    assert ahead(gate, 5_121) == 1
    assert ahead(gate, 5_120) == 0


def test_a_stream_is_the_same_whether_it_says_what_it_has_or_not() -> None:
    gate = Gate()
    gate.create(EVENTS)
    altered(gate, "ALTER STREAM s AHEAD 1 HOUR")
    for sql, identical in ((EVENTS, "true"), (EVENTS + " AHEAD 1 HOUR", "true"), (EVENTS + " AHEAD 1 DAY", "false")):
        with pytest.raises(AlreadyExists) as caught:
            gate.create(sql)
        assert caught.value.facts["identical"] == identical


def test_the_service_has_the_last_word() -> None:
    gate = Gate(EngineConfig(max_ahead=100 * SECOND), now=1_000)
    gate.create(EVENTS)
    assert ahead(gate, 1_101) == 1
    for send in (
        CreateStream(EVENTS.replace(" s ", " r ") + " AHEAD 2 MINUTES"),
        AlterStream("ALTER STREAM s AHEAD 101 SECONDS"),
    ):
        with pytest.raises(InvalidInput, match="is more than this service allows, 100 SECONDS") as caught:
            gate.send(send)
        assert caught.value.reason == "AHEAD_TOO_LONG"
    gate.create("CREATE STREAM p (x BIGINT)")
    with pytest.raises(FailedPrecondition, match="is in system time"):
        gate.send(AlterStream("ALTER STREAM p AHEAD 1 MINUTE"))
    with pytest.raises(SqlError, match="AHEAD needs TIMESTAMP BY"):
        gate.create("CREATE STREAM q (x BIGINT) AHEAD 1 MINUTE")


def test_ahead_default_takes_a_stated_ahead_back() -> None:
    gate = Gate(now=1_000)
    gate.create(EVENTS + " AHEAD 1 HOUR")
    event = altered(gate, "alter stream s ahead default")
    assert event is not None
    assert (event.spec.ahead, event.spec.ahead_stated, event.added) == (
        300 * SECOND,
        False,
        "ALTER STREAM s AHEAD DEFAULT",
    )
    assert event.sql == EVENTS and event.spec.clock_bound
    assert (ahead(gate, 1_301), ahead(gate, 1_300)) == (1, 0)
    assert altered(gate, "ALTER STREAM s AHEAD DEFAULT") is None, "it has that already"


def test_the_default_is_that_of_the_service() -> None:
    gate = Gate(EngineConfig(ahead=60 * SECOND), now=1_000)
    gate.create(EVENTS + " AHEAD 1 HOUR")
    event = altered(gate, "ALTER STREAM s AHEAD DEFAULT")
    assert event is not None
    assert (event.spec.ahead, event.added) == (60 * SECOND, "ALTER STREAM s AHEAD 1 MINUTE")
    gate.create("CREATE STREAM p (x BIGINT)")
    with pytest.raises(FailedPrecondition, match="is in system time"):
        gate.send(AlterStream("ALTER STREAM p AHEAD DEFAULT"))


def test_another_lateness_moves_no_watermark_back() -> None:
    gate = Gate(now=1_000)
    gate.create(EVENTS)
    assert gate.push("s", t=[900], x=[1]).watermark == 900 * SECOND
    event = altered(gate, "ALTER STREAM s LATENESS 1 MINUTE")
    assert event is not None
    assert (event.spec.lateness, event.sql) == (60 * SECOND, EVENTS + " LATENESS 1 MINUTE")
    assert event.added == "ALTER STREAM s LATENESS 1 MINUTE"
    assert gate.push("s", t=[899, 950], x=[2, 3]).watermark == 900 * SECOND
    assert gate.push("s", t=[970], x=[4]).watermark == 910 * SECOND
    assert altered(gate, "ALTER STREAM s LATENESS 60 SECONDS") is None, "it has that already"
    event = altered(gate, "ALTER STREAM s LATENESS 0 SECONDS")
    assert event is not None and event.sql == EVENTS
    assert gate.push("s", t=[971], x=[5]).watermark == 971 * SECOND
    gate.create("CREATE STREAM p (x BIGINT)")
    with pytest.raises(FailedPrecondition, match="no tuple is late; LATENESS is for streams with TIMESTAMP BY"):
        gate.send(AlterStream("ALTER STREAM p LATENESS 1 SECOND"))


def test_zero_is_the_clock() -> None:
    gate = Gate(now=1_000)
    gate.create(EVENTS + " AHEAD 0")
    assert ahead(gate, 1_000.000001) == 1
    assert ahead(gate, 1_000) == 0


@pytest.mark.parametrize(
    "text",
    [
        "ALTER STREAM s AHEAD",
        "ALTER STREAM s AHEAD 5 MINUTES, ADD x INT",
        "ALTER STREAM s AHEAD DEFAULT 5",
        "ALTER STREAM s LATENESS",
        "ALTER STREAM s LATENESS DEFAULT",
        "ALTER STREAM s LATENESS 5 SECONDS AHEAD DEFAULT",
        EVENTS + " AHEAD",
    ],
)
def test_what_is_no_alteration(text: str) -> None:
    with pytest.raises(SqlError):
        (create_stream if text.startswith("CREATE") else alter_stream)(text)


@pytest.mark.parametrize("span", ["0 SECONDS", "1 SECOND", "90 MINUTES", "3 DAYS"])
def test_statements_and_what_they_say_are_each_others_inverse(span: str) -> None:
    spec = create_stream(f"{EVENTS} AHEAD {span} RETENTION 4 DAYS")
    assert create_stream(create_statement(spec)) == spec
    change = Alteration("s", ahead=spec.ahead)
    assert alter_stream(alter_statement(change)) == change


@pytest.mark.seeded("F15: one clock that is wrong makes all others late")
def test_a_jump_is_told_once_with_who_it_was(caplog: pytest.LogCaptureFixture) -> None:
    gate, jumps = Gate(now=1_000), Jumps()
    gate.create(EVENTS)

    def heartbeat(time: float) -> None:
        command = Heartbeat("s", round(time * SECOND))
        jumps.see(command, gate.send(command).event)

    with caplog.at_level(logging.WARNING):
        for time in (900, 1_060, 1_061, 1_100, 1_120.9):
            heartbeat(time)
        assert jumps.count == 1
        heartbeat(1_121)
    assert jumps.count == 2
    told = own_records(caplog)[0]
    assert (told.stream, told.seconds_ahead, told.by) == ("s", 61, "a heartbeat")  # type: ignore[attr-defined]
    assert told.watermark == "1970-01-01 00:17:41Z"  # type: ignore[attr-defined]


def test_a_clock_that_was_set_back_is_not_a_jump_of_streams_in_system_time(caplog: pytest.LogCaptureFixture) -> None:
    gate, jumps = Gate(now=10_000), Jumps()
    gate.create("CREATE STREAM s (x BIGINT)")
    with caplog.at_level(logging.WARNING):
        for now in (10_000, 10_001, 2_800, 2_900, 9_000, 10_002):
            gate.now = now
            command = Push("s", pa.table({"x": [now]}))
            jumps.see(command, gate.send(command).event)
    assert jumps.count == 0 and not own_records(caplog)
