"""Refused tuples, told inside the window of an answer as long as their times are known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.data.refusals import KEPT, Refusals
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock


def times(*values: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, np.int64)


def test_counts_lie_between_the_times_of_the_window() -> None:
    refusals = Refusals()
    assert refusals.view().within(None, None) == 0
    refusals.add(times(5, 1, 9))
    before = refusals.view()
    refusals.add(times(5))
    #  1 . . . 5 . . . 9
    #          5
    seen = refusals.view()
    assert (seen.count, seen.within(None, 9), seen.within(2, 8), seen.within(5, 5), seen.within(6, 8)) == (
        4,
        4,
        2,
        2,
        0,
    )
    assert seen.within(7, 6) == 0
    assert seen.within(3, None) is None  # no time yet
    assert (before.count, before.within(None, 9)) == (3, 3)  # what a reader holds stays


@pytest.mark.parametrize("step", [1, 7, KEPT // 2, KEPT, 3 * KEPT])
def test_the_newest_times_are_kept_and_the_others_known_by_their_ends(step: int) -> None:
    refusals, total = Refusals(), 4 * KEPT
    for start in range(0, total, step):
        refusals.add(np.arange(start, min(start + step, total)))
    seen = refusals.view()
    assert seen.count == total
    assert KEPT // 4 <= len(seen.times) <= KEPT
    assert seen.forgotten == (0, total - len(seen.times) - 1)
    assert seen.within(total - 10, total) == 10
    assert seen.within(0, 5) is None
    assert seen.within(None, total) is None
    assert seen.within(-9, -1) == 0


def test_what_a_log_has_forgotten_lies_below_a_watermark() -> None:
    seen = Refusals(3, 100).view()
    assert (seen.count, seen.within(50, 200), seen.within(101, 200)) == (3, None, 0)
    assert Refusals(3).view().within(101, 200) is None
    assert Refusals(0, 100).view().within(0, 1) == 0


def test_an_answer_tells_them_inside_its_window() -> None:
    """
    taken     10 20 30 40                40 waits for the watermark 35, and so does 37
    late      [12 22]                    refused when the watermark was 25 and more
    """
    soup = LocalPSoup(EngineConfig(max_ahead=1_000 * SECOND), VirtualClock(50 * SECOND))
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 5 SECONDS")
    query = soup.register("SELECT x FROM s BEGIN (NOW - 10) END (NOW)")

    def push(*seconds: int) -> None:
        times = pa.array([n * SECOND for n in seconds], pa.timestamp("us"))
        soup.push("s", pa.table({"t": times, "x": list(seconds)}), refused="count")

    push(10, 20, 30)
    push(12, 22, 40, 9_999)
    push(37)

    def told(window: str | None = None, as_of: int | None = None) -> tuple[object, ...]:
        answer = soup.invoke(query, as_of=None if as_of is None else as_of * SECOND, window=window)
        (said,) = answer.completeness.sources
        return said.late, said.late_inside, said.ahead, said.ahead_inside, said.pending, said.pending_inside

    assert told() == (2, 0, 1, 0, 2, 0)  # [25, 35]
    assert told("BEGIN (NOW - 15)") == (2, 1, 1, 0, 2, 0)
    assert told("BEGIN (START)") == (2, 2, 1, 0, 2, 0)
    assert told("BEGIN (21) END (38)") == (2, 1, 1, 0, 2, 1)
    assert told("BEGIN (21) END (9999)") == (2, 1, 1, 1, 2, 2)
    assert told("BEGIN (START) END (9999)", as_of=15) == (2, 1, 1, 0, 2, 0)
    assert told("BEGIN (NOW - 2 ROWS)") == (2, 1, 1, 0, 2, 0)  # 20 and 30: 22 would be among them
    assert told("BEGIN (NOW - 3 ROWS) END (NOW - 1 ROWS)") == (2, 1, 1, 0, 2, 0)  # 10 and 20: 12
