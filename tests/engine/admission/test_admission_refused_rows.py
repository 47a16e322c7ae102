"""Pushes that take all rows or none: what is refused, what the error lists, and that nothing changes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import RowsRefused
from psoup.events.commands import Push
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.oracles.questions import again

EVENT = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 5 SECONDS AHEAD 100 SECONDS"


def timed(*seconds: int) -> pa.Table:
    return pa.table({"t": pa.array([n * SECOND for n in seconds], pa.timestamp("us", "UTC")), "x": list(seconds)})


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(), VirtualClock(1_000 * SECOND))
    soup.execute(EVENT)
    soup.push("s", timed(10))
    return soup


def test_one_row_that_is_refused_refuses_all(soup: LocalPSoup) -> None:
    #   late | 5     accepted      1100 | ahead
    sequence = soup.engine.snapshot().sequence
    for _ in range(2):  # a repeat is harmless
        with pytest.raises(RowsRefused) as caught:
            soup.push("s", timed(20, 4, 1_101, 5, 1))
        assert caught.value.facts == {
            "row": "1",
            "rows": "5",
            "late": "2",
            "ahead": "1",
            "late_rows": "1,4",
            "ahead_rows": "2",
            "watermark": str(5 * SECOND),
            "latest": str(1_100 * SECOND),
            "now": str(1_000 * SECOND),
            "stream": "s",
        }
        message = "row 1: its time 1970-01-01 00:00:04Z is too late by 0:00:01: the watermark is 1970-01-01 00:00:05Z"
        assert caught.value.message.startswith(f"{message}; 2 more rows are refused")
    assert soup.engine.snapshot().sequence == sequence
    assert soup.push("s", timed(5, 20)).accepted == 2
    soup.check()


def test_a_row_ahead_is_named_with_the_clock(soup: LocalPSoup) -> None:
    named = r"row 1: .* too far ahead of the clock by 0:01:41: rows up to .*00:18:20Z are accepted now"
    with pytest.raises(RowsRefused, match=named):
        soup.push("s", timed(999, 1_101))
    with pytest.raises(RowsRefused, match=r"\. The row was not taken; leave it out"):
        soup.push("s", timed(1_101))


def test_count_and_numbered_batches_take_what_can_be_taken(soup: LocalPSoup) -> None:
    assert soup.push("s", timed(20, 4), refused="count").late == 1
    first = soup.push("s", timed(21, 3), "p", 1, 0)
    again = soup.push("s", timed(21, 3), "p", 1, 0)
    assert (first.late, again.late, again.duplicate) == (1, 1, True)


def test_a_refused_number_is_not_used_up() -> None:
    gate = Gate(EngineConfig(), now=1_000)
    gate.create(EVENT)
    gate.push("s", t=[10], x=[0])
    with pytest.raises(RowsRefused):
        gate.send(Push("s", rows(t=[4, 20], x=[1, 2]), "p", 1, 0, b"", all_or_none=True))
    done = gate.send(Push("s", rows(t=[20], x=[2]), "p", 1, 0, b"", all_or_none=True)).acknowledgement
    assert (done.accepted, done.duplicate) == (1, False)
    again = gate.send(Push("s", rows(t=[20], x=[2]), "p", 1, 0, b"", all_or_none=True)).acknowledgement
    assert (again.accepted, again.duplicate) == (1, True)  # though its row may be late by now


def test_the_error_has_bounded_lists(soup: LocalPSoup) -> None:
    with pytest.raises(RowsRefused) as caught:
        soup.push("s", timed(*[1] * 100_000))
    facts = caught.value.facts
    assert facts["late"] == "100000" and facts["late_rows"].startswith("0,1,2,3,")
    assert len(facts["late_rows"]) <= 200 and facts["late_rows"].endswith(",…")


def test_random_pushes_are_refused_exactly_if_a_row_would_be(soup: LocalPSoup) -> None:
    """Two engines with the same pushes: one counts, the other refuses the push that has a refused row."""
    drawn = random.Random(3)
    twin = LocalPSoup(EngineConfig(), VirtualClock(1_000 * SECOND))
    twin.execute(EVENT)
    twin.push("s", timed(10))
    for _ in range(300):
        low = drawn.randrange(1_100)
        times = [drawn.randrange(low, low + drawn.choice([4, 30])) for _ in range(drawn.randrange(1, 6))]
        watermark = soup.engine.snapshot().stream("s", soup.tenant).watermark
        assert watermark is not None
        late = [row for row, time in enumerate(times) if time * SECOND < watermark]
        ahead = [row for row, time in enumerate(times) if time > 1_100 and row not in late]
        try:
            done = soup.push("s", timed(*times))
        except RowsRefused as refused:
            assert (refused.facts["late"], refused.facts["ahead"]) == (str(len(late)), str(len(ahead)))
            assert refused.facts["late_rows"] == ",".join(map(str, late))
            times = [time for row, time in enumerate(times) if row not in late and row not in ahead]
            if not times:
                continue
            done = soup.push("s", timed(*times))
        else:
            assert not late and not ahead
        assert done.watermark == twin.push("s", timed(*times), refused="count").watermark
    assert np.array_equal(stored(soup), stored(twin))
    soup.check()


def stored(soup: LocalPSoup) -> np.ndarray:
    soup.heartbeat("s", 1_100 * SECOND)
    answer = again(soup.ask, "SELECT x FROM s BEGIN (START)")
    values: np.ndarray = answer.to_table().column("x").to_numpy()
    return values
