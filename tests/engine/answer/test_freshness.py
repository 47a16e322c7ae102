"""Freshness: a stream that follows the clock is behind by the distance of its watermark, a load of history is not."""

from __future__ import annotations

import pyarrow as pa

from psoup.answer.figures.freshness import NAMED_STREAMS, delays
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock

NOON = 1_900_000_000
DAY = 86_400


def _push(soup: LocalPSoup, stream: str, *seconds: float) -> None:
    times = pa.array([round(time * SECOND) for time in seconds], pa.timestamp("us"))
    soup.push(stream, pa.table({"t": times}))


def test_streams_that_follow_the_clock_are_behind_by_their_watermark() -> None:
    clock = VirtualClock(NOON * SECOND)
    soup = LocalPSoup(clock=clock)
    for name, lateness in (("fresh", 5), ("slow", 60), ("history", 5), ("never", 5)):
        soup.execute(f"CREATE STREAM {name} (t TIMESTAMP) TIMESTAMP BY t LATENESS {lateness} SECONDS")
    soup.execute("CREATE STREAM silent (t TIMESTAMP) TIMESTAMP BY t IDLE AFTER 1 MINUTE")
    soup.execute("CREATE STREAM arrival (t TIMESTAMP)")
    soup.execute("CREATE TABLE ads (id BIGINT PRIMARY KEY)")
    for name in ("fresh", "slow", "silent", "arrival"):
        _push(soup, name, NOON - 1)
    _push(soup, "history", NOON - 400 * DAY)
    soup.push("ads", pa.table({"id": [1]}))
    assert delays(soup.engine.snapshot(), (NOON + 30) * SECOND) == [
        (91, "default", "slow"),
        (36, "default", "fresh"),
        (31, "default", "silent"),
    ]
    later = delays(soup.engine.snapshot(), (NOON + DAY) * SECOND)
    assert [delay.stream for delay in later] == ["slow", "fresh"]
    assert delays(soup.engine.snapshot(), (NOON + 8 * DAY) * SECOND) == []


def test_only_the_streams_furthest_behind_are_named() -> None:
    soup = LocalPSoup(clock=VirtualClock(NOON * SECOND))
    for number in range(NAMED_STREAMS + 3):
        soup.execute(f"CREATE STREAM s{number} (t TIMESTAMP) TIMESTAMP BY t")
        _push(soup, f"s{number}", NOON - number)
    named = [delay.seconds for delay in delays(soup.engine.snapshot(), NOON * SECOND)]
    assert named == list(range(NAMED_STREAMS + 2, 2, -1))
