"""Which tuples are taken, with which physical IDs, and where the watermark goes."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidBatch, InvalidInput, OutOfRange
from psoup.events.commands import Heartbeat
from psoup.model import SECOND
from psoup_testing.engines.admission_gate import Gate

EVENT = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 5 SECONDS"
SYSTEM = "CREATE STREAM s (x BIGINT)"


@pytest.fixture
def gate() -> Gate:
    gate = Gate(EngineConfig(max_ahead=100 * SECOND), now=1_000)
    gate.create(EVENT)
    return gate


def test_the_watermark_is_the_greatest_time_minus_lateness(gate: Gate) -> None:
    assert gate.push("s", t=[10, 30, 20], x=[1, 2, 3]).watermark == 25 * SECOND
    assert gate.push("s", t=[26], x=[4]).watermark == 25 * SECOND


def test_rows_stay_in_the_order_sent_and_their_time_is_the_attribute(gate: Gate) -> None:
    gate.push("s", t=[30, 10, 20], x=[1, 2, 3])
    assert gate.pushed.batch.times.tolist() == [30 * SECOND, 10 * SECOND, 20 * SECOND]
    assert gate.pushed.batch.columns[1].values.tolist() == [1, 2, 3]


def test_late_and_ahead_tuples_are_refused_alone(gate: Gate) -> None:
    #   late   | 25      accepted      1100 |  ahead          the batch's own 1100 does not make its 25 late
    gate.push("s", t=[30], x=[0])
    answer = gate.push("s", t=[24.999999, 25, 1_100, 1_100.000001, 3, 40], x=[1, 2, 3, 4, 5, 6])
    assert (answer.accepted, answer.late, answer.ahead) == (3, 2, 1)
    assert answer.watermark == 995 * SECOND, "a time past the clock counts as the clock"
    assert gate.pushed.batch.columns[1].values.tolist() == [2, 3, 6]
    assert gate.pushed.refused.late.tolist() == [24_999_999, 3 * SECOND]
    assert gate.pushed.refused.ahead.tolist() == [1_100_000_001]


def test_a_batch_refused_to_the_last_row_is_still_an_event(gate: Gate) -> None:
    gate.push("s", t=[30], x=[0])
    answer = gate.push("s", t=[1, 2], x=[1, 2])
    assert (answer.accepted, answer.late, answer.watermark) == (0, 2, 25 * SECOND)
    assert gate.pushed.refused.count == 2
    assert len(gate.pushed.batch) == 0


def test_nothing_seen_nothing_late(gate: Gate) -> None:
    answer = gate.push("s", t=[-(2**62) // SECOND, -5], x=[1, 2])
    assert (answer.accepted, answer.late) == (2, 0)


def test_a_batch_without_refusals_is_not_copied(gate: Gate) -> None:
    gate.push("s", t=[10, 20], x=[1, 2])
    assert np.shares_memory(gate.pushed.batch.times, gate.pushed.batch.columns[0].values)


@pytest.mark.parametrize("sql", [EVENT, EVENT.replace("TIMESTAMP,", "TIMESTAMP NOT NULL,")])
def test_a_null_time_refuses_the_batch_and_names_the_row(sql: str) -> None:
    gate = Gate()
    gate.create(sql)
    with pytest.raises(InvalidBatch, match=r"row 1: 't' is NULL") as caught:
        gate.push("s", t=[1, None, 3], x=[1, 2, 3])
    assert caught.value.facts["row"] == "1"


def test_the_watermark_does_not_underflow(gate: Gate) -> None:
    least = -(2**63)
    gate.create("CREATE STREAM old (t TIMESTAMP) TIMESTAMP BY t LATENESS 1 DAY")
    answer = gate.push("old", t=[least / SECOND])
    assert (answer.accepted, answer.watermark) == (1, least)


def test_max_ahead_may_be_endless() -> None:
    gate = Gate(EngineConfig(ahead=2**63 - 1, max_ahead=2**63 - 1), now=5)
    gate.create(EVENT)
    assert gate.push("s", t=[9e12], x=[1]).accepted == 1
    assert gate.heartbeat("s", 9.1e12).watermark == 9_100_000_000_000 * SECOND


# Heartbeats


def test_a_heartbeat_raises_the_watermark_once(gate: Gate) -> None:
    assert gate.heartbeat("s", 50).watermark == 50 * SECOND
    again = gate.heartbeat("s", 50)
    assert (again.duplicate, again.watermark, again.sequence) == (True, 50 * SECOND, gate.admission.sequence)
    assert gate.heartbeat("s", 20).watermark == 50 * SECOND
    assert gate.push("s", t=[49, 50, 51], x=[1, 2, 3]).late == 1
    assert gate.pushed.watermark == 50 * SECOND  # 51 - 5 lies below it


@pytest.mark.seeded("F15: one clock that is wrong makes all others late")
def test_a_heartbeat_too_far_ahead_is_refused(gate: Gate) -> None:
    assert gate.heartbeat("s", 1_100).watermark == 1_100 * SECOND
    with pytest.raises(OutOfRange, match="past the clock") as caught:
        gate.heartbeat("s", 1_100.000001)
    assert caught.value.reason == "TOO_FAR_AHEAD"


def test_a_heartbeat_must_be_an_int64(gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="int64"):
        gate.send(Heartbeat("s", -(2**63) - 1))


# System time


def test_system_time_is_the_clock_made_non_decreasing() -> None:
    gate = Gate(now=10)
    gate.create(SYSTEM)
    assert gate.push("s", x=[1, 2]).watermark == 10 * SECOND
    assert gate.pushed.batch.times.tolist() == [10 * SECOND] * 2
    gate.now = 4  # the clock jumps back
    assert gate.push("s", x=[3]).watermark == 10 * SECOND
    gate.now = 11
    assert gate.push("s", x=[4]).watermark == 11 * SECOND


def test_system_time_has_no_heartbeat() -> None:
    gate = Gate()
    gate.create(SYSTEM)
    with pytest.raises(FailedPrecondition, match="system time") as caught:
        gate.heartbeat("s", 1)
    assert caught.value.reason == "SYSTEM_TIME"


@pytest.mark.parametrize("sql", [EVENT, SYSTEM])
def test_an_empty_batch_is_accepted_and_changes_nothing(sql: str) -> None:
    gate = Gate(now=7)
    gate.create(sql)
    columns = {"t": []} if "TIMESTAMP" in sql else {}
    answer = gate.push("s", x=[], **columns)
    assert (answer.accepted, answer.watermark, answer.sequence) == (0, None, 1)
    assert len(gate.events) == 1
