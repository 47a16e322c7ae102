"""The clock and the watermark: a fast sender makes no row late, and WATERMARK BY CLOCK moves on without rows."""

from __future__ import annotations

import pytest

from psoup.errors import FailedPrecondition, SqlError
from psoup.events.acknowledgements import HeartbeatAcknowledgement
from psoup.events.commands import AlterStream, Heartbeat, Push, RaiseWatermarks
from psoup.events.events import StreamCreated, WatermarksRaised
from psoup.model import SECOND
from psoup.sql import Alteration, alter_statement, alter_stream, create_statement, create_stream
from psoup_testing.engines.admission_gate import Gate, rows

EVENTS = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 5 SECONDS"
BY_CLOCK = EVENTS + " WATERMARK BY CLOCK"
STEADY = 60 * SECOND


def gate_of(sql: str, now: float = 1_000) -> Gate:
    gate = Gate(now=now)
    gate.create(sql)
    return gate


def pushed(gate: Gate, *times: float) -> tuple[int, int, int, float]:
    """The accepted, late and ahead rows of a push, and the watermark in seconds."""
    done = gate.push("s", t=[*times], x=[0] * len(times))
    return done.accepted, done.late, done.ahead, done.watermark / SECOND


def raised(gate: Gate, now: float, steady: int = STEADY, **more: object) -> float | None:
    """The watermark of stream 1 after a heartbeat by the clock; None if it has not moved."""
    gate.now = now
    event = gate.send(RaiseWatermarks(steady, **more)).event  # type: ignore[arg-type]
    assert event is None or isinstance(event, WatermarksRaised)
    return None if event is None else dict(event.of_streams())[1] / SECOND


# A fast sender -----------------------------------------------------------------------------------------------


def test_a_sender_four_minutes_fast_makes_no_row_late() -> None:
    gate = gate_of(EVENTS)
    assert pushed(gate, 1_000) == (1, 0, 0, 995)
    assert pushed(gate, 1_240) == (1, 0, 0, 995), "its time counts as the clock"
    assert pushed(gate, 996) == (1, 0, 0, 995)
    gate.now = 1_010
    assert pushed(gate, 1_250) == (1, 0, 0, 1_005)
    assert pushed(gate, 1_004.9, 1_311) == (0, 1, 1, 1_005)


def test_a_stream_that_states_ahead_follows_its_rows() -> None:
    gate = gate_of(EVENTS + " AHEAD 1 HOUR")
    assert pushed(gate, 2_000) == (1, 0, 0, 1_995)
    assert pushed(gate, 1_000) == (0, 1, 0, 1_995)


def test_history_moves_the_watermark_as_before() -> None:
    gate = gate_of(EVENTS, now=10**9)
    assert pushed(gate, 10, 30, 20) == (3, 0, 0, 25)
    assert pushed(gate, 24, 31) == (1, 1, 0, 26)


def test_a_clock_that_is_set_back_moves_no_watermark_back() -> None:
    gate = gate_of(EVENTS)
    assert pushed(gate, 1_000) == (1, 0, 0, 995)
    gate.now = 800
    assert pushed(gate, 1_050) == (1, 0, 0, 995)


def test_small_pushes_share_an_event_if_none_is_late_after_the_others() -> None:
    gate = gate_of(EVENTS)
    done = gate.send(Push("s", rows(t=[1_000, 1_200, 996], x=[1, 2, 3]), whole=True)).acknowledgement
    assert done.accepted == 3  # type: ignore[attr-defined]
    with pytest.raises(FailedPrecondition):
        gate.send(Push("s", rows(t=[1_200, 994.9], x=[1, 2]), whole=True))


def test_a_stream_of_an_older_log_follows_its_rows() -> None:
    gate = Gate(now=1_000)
    old = EVENTS + " AHEAD 5 MINUTES"  # the default stood in the statement
    for admission in (gate.admission, gate.shadow):
        admission.replay(StreamCreated(1, "default", 1, create_stream(old), old, 0))
    assert pushed(gate, 1_240) == (1, 0, 0, 1_235)


# WATERMARK BY CLOCK ------------------------------------------------------------------------------------------


def test_a_live_stream_follows_the_clock() -> None:
    gate = gate_of(BY_CLOCK)
    assert raised(gate, 1_001) is None, "an empty stream is not live"
    assert pushed(gate, 998) == (1, 0, 0, 993)
    assert raised(gate, 1_001) == 996
    assert raised(gate, 1_001) is None, "it is there already"
    assert raised(gate, 1_002) == 997
    assert pushed(gate, 996.9, 997) == (1, 1, 0, 997)


def test_old_rows_make_no_stream_live() -> None:
    gate = gate_of(BY_CLOCK + " AHEAD 10 SECONDS")
    for time in (100, 500, 984.9):
        pushed(gate, time)
        assert raised(gate, 1_000) is None
    pushed(gate, 985)  # LATENESS and AHEAD before the clock
    assert raised(gate, 1_000) == 995


def test_a_stream_that_gets_old_rows_again_is_not_live_any_more() -> None:
    gate = gate_of(BY_CLOCK.replace("5 SECONDS", "1 HOUR"), now=10_000)
    pushed(gate, 9_999)
    assert raised(gate, 10_001, 3_600 * SECOND) == 6_401
    pushed(gate, 6_401)  # within LATENESS and AHEAD
    assert raised(gate, 10_002, 3_600 * SECOND) == 6_402
    gate.now = 20_000
    pushed(gate, 6_500)
    assert raised(gate, 20_001, 3_600 * SECOND) is None


def test_an_all_refused_push_and_a_heartbeat_change_nothing_about_it() -> None:
    gate = gate_of(BY_CLOCK)
    pushed(gate, 1_000)
    assert pushed(gate, 10, 2_000) == (0, 1, 1, 995)
    gate.send(Heartbeat("s", 996 * SECOND))
    assert raised(gate, 1_002) == 997


@pytest.mark.parametrize(
    ("lateness", "steady", "moves"), [(5, 59, False), (5, 60, True), (300, 299, False), (300, 300, True)]
)
def test_the_clock_counts_after_the_grace(lateness: int, steady: int, moves: bool) -> None:
    gate = gate_of(BY_CLOCK.replace("5 SECONDS", f"{lateness} SECONDS"))
    pushed(gate, 1_000)
    assert (raised(gate, 1_001, steady * SECOND) is not None) == moves
    assert (raised(gate, 1_002, unsteady={"default": steady * SECOND}) is not None) == (moves and steady <= 60)
    assert raised(gate, 1_003, 10**12, unsteady={"other": 0}) is not None


def test_a_stream_whose_push_waits_does_not_move() -> None:
    gate = gate_of(BY_CLOCK)
    pushed(gate, 1_000)
    assert raised(gate, 1_001, waiting=frozenset({("default", "s")})) is None
    assert raised(gate, 1_001, waiting=frozenset({("default", "r"), ("other", "s")})) == 996


def test_rows_past_the_clock_do_not_move_it_though_ahead_is_stated() -> None:
    gate = gate_of(BY_CLOCK + " AHEAD 1 HOUR")
    assert pushed(gate, 2_000) == (1, 0, 0, 995)


def test_one_event_has_all_streams_that_an_earlier_one_had() -> None:
    gate = gate_of(BY_CLOCK)
    gate.create(BY_CLOCK.replace(" s ", " r "))
    gate.create(EVENTS.replace(" s ", " q "))
    for name in "srq":
        gate.push(name, t=[1_000], x=[1])
    gate.now = 1_001
    event = gate.send(RaiseWatermarks(STEADY)).event
    assert isinstance(event, WatermarksRaised)
    assert event.of_streams() == [(1, 996 * SECOND), (2, 996 * SECOND)]
    gate.send(AlterStream("ALTER STREAM s WATERMARK BY ROWS"))
    gate.now = 1_002
    event = gate.send(RaiseWatermarks(STEADY)).event
    assert isinstance(event, WatermarksRaised)
    assert event.of_streams() == [(1, 996 * SECOND), (2, 997 * SECOND)], "a log may forget the event before"
    gate.drop("s")
    gate.now = 1_003
    event = gate.send(RaiseWatermarks(STEADY)).event
    assert isinstance(event, WatermarksRaised)
    assert event.of_streams() == [(2, 998 * SECOND)]
    for admission in (gate.admission, gate.shadow):  # a start whose log has forgotten the dropped stream
        admission.replay(WatermarksRaised(50, event.stream_ids - 1, event.watermarks, 0))
    gate.drop("r")
    done = gate.send(RaiseWatermarks(STEADY))
    assert done.event is None
    assert isinstance(done.acknowledgement, HeartbeatAcknowledgement)


def test_an_altered_stream_is_live_from_its_next_row_on() -> None:
    gate = gate_of(EVENTS)
    pushed(gate, 1_000)
    gate.send(AlterStream("ALTER STREAM s WATERMARK BY CLOCK"))
    assert raised(gate, 1_001) is None
    pushed(gate, 1_000)
    assert raised(gate, 1_001) == 996
    gate.send(AlterStream("ALTER STREAM s WATERMARK BY ROWS"))
    assert raised(gate, 1_002) is None
    gate.send(AlterStream("ALTER STREAM s WATERMARK BY CLOCK"))
    assert raised(gate, 1_003) is None


# The statement -----------------------------------------------------------------------------------------------


def test_statements_and_definitions_are_each_others_inverse() -> None:
    spec = create_stream(BY_CLOCK.lower() + " retention 1 day ahead 1 hour")
    assert spec.by_clock
    assert create_stream(create_statement(spec)) == spec
    assert (
        create_statement(spec)
        == BY_CLOCK.replace("CREATE STREAM s", "create stream s").replace("create stream", "CREATE STREAM")
        + " AHEAD 1 HOUR RETENTION 1 DAY"
    )
    assert not create_stream(EVENTS + " WATERMARK BY ROWS").by_clock
    for by_clock in (True, False):
        change = Alteration("s", by_clock=by_clock)
        assert alter_stream(alter_statement(change)) == change


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        (EVENTS + " WATERMARK", "WATERMARK BY needs CLOCK or ROWS"),
        (EVENTS + " WATERMARK BY", "WATERMARK BY needs CLOCK or ROWS"),
        (EVENTS + " WATERMARK BY NOON", "WATERMARK BY needs CLOCK or ROWS"),
        (BY_CLOCK + " WATERMARK BY CLOCK", "WATERMARK is given twice"),
        ("CREATE STREAM s (x BIGINT) WATERMARK BY CLOCK", "WATERMARK BY needs TIMESTAMP BY"),
        (EVENTS + " IDLE AFTER 0", "WATERMARK BY CLOCK"),
        (BY_CLOCK + " IDLE AFTER 1 MINUTE", "leave IDLE AFTER out"),
        ("ALTER STREAM s WATERMARK BY CLOCK AHEAD 1 HOUR", "stands alone"),
    ],
)
def test_refused_statements(sql: str, hint: str) -> None:
    with pytest.raises(SqlError) as caught:
        (create_stream if sql.startswith("CREATE") else alter_stream)(sql)
    assert hint in str(caught.value)


def test_streams_that_cannot_follow_the_clock() -> None:
    gate = gate_of("CREATE STREAM s (x BIGINT)")
    gate.create("CREATE STREAM i (t TIMESTAMP) TIMESTAMP BY t IDLE AFTER 1 MINUTE")
    for name, reason in (("s", "SYSTEM_TIME"), ("i", "IDLE_AFTER")):
        with pytest.raises(FailedPrecondition) as caught:
            gate.send(AlterStream(f"ALTER STREAM {name} WATERMARK BY CLOCK"))
        assert caught.value.reason == reason
