"""Windows of rows, whose places are known until a tuple comes: answers equal those that are computed anew."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.answer import invoke, join_ranges
from psoup.answer.invoke import Answer
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock

SYSTEM, EVENT = "k BIGINT, a BIGINT", "k BIGINT, a BIGINT, t TIMESTAMP"


def _soup(columns: str, options: str = "") -> tuple[LocalPSoup, VirtualClock]:
    clock = VirtualClock(1_000)
    soup = LocalPSoup(EngineConfig(chunk_rows=64), clock)
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} ({columns}) {options}")
        _push(soup, stream, 0, 120, timed=columns == EVENT)
    return soup, clock


def _push(soup: LocalPSoup, stream: str, start: int, stop: int, *, timed: bool = False) -> None:
    numbers = list(range(start, stop))
    columns = {"k": [n % 5 for n in numbers], "a": numbers}
    times = {"t": pa.array(numbers, pa.timestamp("us"))} if timed else {}
    soup.push(stream, pa.table({**columns, **times}))
    soup.maintain()


def _told(answer: Answer) -> tuple[object, ...]:
    return answer.to_table(), answer.completeness, answer.matched, answer.likeness, list(answer.ranges), answer.errors


def _register(soup: LocalPSoup, window: str = "[ROWS 10]") -> int:
    query: int = soup.register(f"SELECT r.a, s.a AS b FROM r {window}, s [ROWS 7] WHERE r.k = s.k AND r.a > 2")
    soup.maintain()
    return query


def _placed(soup: LocalPSoup, query: int) -> bool:
    return soup.engine.snapshot().notes.table(join_ranges.RANGES).get(query) is not None


@pytest.mark.parametrize("columns", [SYSTEM, EVENT])
def test_answers_are_those_of_windows_found_anew(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At other times of the clock, and after tuples of one stream, of the other, and late ones."""
    timed = columns == EVENT
    soup, clock = _soup(columns, "TIMESTAMP BY t" if timed else "")
    query = _register(soup)
    if timed:
        soup.heartbeat("r", 200)
        soup.heartbeat("s", 200)
    rows = set()
    for stream, start in (("r", 220), ("r", 240), ("s", 260), ("s", 280)):
        for _ in range(3):
            clock.advance(seconds=7)
            ours = _told(soup.invoke(query))
            assert _placed(soup, query) == (not timed or start == 220)
            with monkeypatch.context() as patched:
                patched.setattr(invoke, "placed", lambda snapshot, record: None)
                assert ours == _told(soup.invoke(query))
        rows.add(str(ours[0]))
        _push(soup, stream, start, start + 3, timed=timed)
    assert len(rows) > 1


@pytest.mark.parametrize(
    ("options", "window"),
    [("", "[RANGE 1 HOUR]"), ("", "[UNBOUNDED]"), ("", "[ROWS 999]"), ("RETENTION 1 HOUR", "[ROWS 10]")],
)
def test_windows_that_depend_on_more_are_found_anew(options: str, window: str) -> None:
    soup, _ = _soup(SYSTEM, options)
    query = _register(soup, window)
    assert soup.invoke(query).matched > 0
    assert not _placed(soup, query)


def test_another_window_and_another_time_are_not_those_that_are_known() -> None:
    soup, clock = _soup(SYSTEM)
    query = _register(soup)
    everything = soup.invoke(query)
    before = clock.now()
    clock.advance(seconds=50)
    _push(soup, "r", 120, 125)
    assert _told(soup.invoke(query, as_of=before))[0] == everything.to_table()
    assert list(soup.invoke(query).ranges) == [(115, 125), (113, 120)]
