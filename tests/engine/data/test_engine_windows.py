"""Windows as ranges of tuple IDs: each picture is the stream, with the edge `|` and the window `[ ]` drawn under it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest

from psoup.data.windows import Timeline, apply_window, as_of_window, last_rows, refuse_truncation, retention_edge
from psoup.errors import OutOfRange
from psoup.model import NOW, START, Anchor, Bound, Retention, WindowClause

#        IDs 3  4  5  6  7  8  9
TIMES = [10, 12, 12, 13, 20, 20, 25]
FIRST = 3


def timeline(dropped: int | None = 9) -> Timeline:
    return Timeline(
        FIRST,
        FIRST + len(TIMES),
        dropped,
        TIMES[0] if dropped is None else dropped - 1,
        lambda time: FIRST + bisect_left(TIMES, time),
        lambda time: FIRST + bisect_right(TIMES, time),
        lambda tuple_id: TIMES[tuple_id - FIRST],
        lambda time: FIRST + -(-bisect_left(TIMES, time) // 4) * 4,
    )


def back(offset: int) -> Bound:
    return Bound(Anchor.NOW, offset=offset)


def at(time: int) -> Bound:
    return Bound(Anchor.ABSOLUTE, at=time)


def rows(count: int) -> Bound:
    return Bound(Anchor.NOW, rows=count)


@pytest.mark.parametrize(
    ("window", "now", "low", "high"),
    [
        #  10 12 12 13 20 20 25      now
        # [3                 9]       25
        (WindowClause(START, NOW), 25, 3, 10),
        (WindowClause(START, NOW), 20, 3, 9),
        #              [6        9]   closed at both ends: 13 to 25
        (WindowClause(back(12), NOW), 25, 6, 10),
        (WindowClause(back(13), back(5)), 25, 4, 9),
        #     [4 5]                    snapshot of 12
        (WindowClause(at(12), at(12)), 25, 4, 6),
        #     [4                       landmark
        (WindowClause(at(12), NOW), 25, 4, 10),
        # an end in the future is legal
        (WindowClause(at(21), at(99)), 25, 9, 10),
        # no tuple later than NOW, which is that of a slower stream
        (WindowClause(at(12), at(99)), 19, 4, 7),
        (WindowClause(START, at(25)), 20, 3, 9),
        (WindowClause(at(20), at(99)), 13, 7, 7),
        (WindowClause(at(20), at(25)), 11, 7, 7),
        # nothing there
        (WindowClause(at(14), at(19)), 25, 7, 7),
        # END before BEGIN is empty, not negative
        (WindowClause(at(20), at(12)), 25, 7, 7),
        # rows: the last 3; the last 5 without the last 2; as of 20
        (WindowClause(rows(3), NOW), 25, 7, 10),
        (WindowClause(rows(5), rows(2)), 25, 5, 8),
        (WindowClause(rows(2), NOW), 20, 7, 9),
        (WindowClause(START, rows(1)), 25, 3, 9),
    ],
)
def test_range(window: WindowClause, now: int, low: int, high: int) -> None:
    found = apply_window(window, timeline(), Retention(), 25, now)
    assert (found.low, found.high) == (low, high)
    assert not found.truncated


@pytest.mark.parametrize(
    ("retention", "current", "edge"),
    [
        (Retention(), 25, 3),
        (Retention(duration=13), 25, 4),  # 12 is the oldest time kept
        (Retention(duration=12), 25, 6),
        (Retention(rows=2), 25, 8),
        (Retention(rows=100), 25, 3),
        (Retention(duration=1), 99, 10),
    ],
)
def test_retention_edge_is_exact_whatever_is_still_in_memory(retention: Retention, current: int, edge: int) -> None:
    assert retention_edge(timeline(), retention, current) == edge


@pytest.mark.parametrize(
    ("window", "retention", "truncated"),
    [
        (WindowClause(START, NOW), Retention(duration=5), False),  # START never is
        (WindowClause(at(9), NOW), Retention(), True),  # the dropped tuple of time 9
        (WindowClause(at(10), NOW), Retention(), False),  # nothing at or after 10 was dropped
        (WindowClause(at(13), NOW), Retention(duration=5), True),  # 13 is in memory, but before the edge
        (WindowClause(at(14), NOW), Retention(duration=5), False),  # no tuple in [14, 20)
        (WindowClause(back(5), NOW), Retention(duration=5), False),
        (WindowClause(rows(7), NOW), Retention(), False),
        (WindowClause(rows(8), NOW), Retention(), True),
    ],
)
def test_truncation_is_noticed_exactly_when_a_tuple_is_missing(
    window: WindowClause, retention: Retention, truncated: bool
) -> None:
    found = apply_window(window, timeline(), retention, 25, 25)
    assert found.truncated == truncated
    if truncated:
        with pytest.raises(OutOfRange, match="accept truncation"):
            refuse_truncation("s", found)


def test_without_time_a_window_is_empty() -> None:
    found = apply_window(WindowClause(START, NOW), timeline(None), Retention(duration=1), None, None)
    assert found.low == found.high
    assert found.end is None


def test_as_of_before_the_first_tuple_has_lost_nothing() -> None:
    window = WindowClause(Bound(Anchor.NOW, rows=2), NOW)
    assert not apply_window(window, timeline(dropped=0), Retention(), 9, -5).truncated
    assert apply_window(window, timeline(dropped=0), Retention(), 9, 0).truncated


@pytest.mark.parametrize(
    ("window", "as_of", "low", "high"),
    [
        #  10 12 12 13 20 20 25      as of 13
        #     [4     6]                the end 99 is cut at 13
        (WindowClause(at(12), at(99)), 13, 4, 7),
        (WindowClause(START, at(20)), 13, 3, 7),
        # an end before that stays
        (WindowClause(at(10), at(12)), 13, 3, 6),
        # it begins later: nothing of it was there
        (WindowClause(at(20), at(25)), 13, 7, 7),
        (WindowClause(at(10), NOW), 13, 3, 7),
        (WindowClause(rows(2), NOW), 13, 5, 7),
    ],
)
def test_as_of_shows_nothing_later(window: WindowClause, as_of: int, low: int, high: int) -> None:
    found = apply_window(as_of_window(window, as_of), timeline(), Retention(), 25, as_of)
    assert (found.low, max(found.high, found.low)) == (low, high)
    assert found.end is not None
    assert found.end <= as_of


def test_a_window_after_as_of_has_lost_nothing() -> None:
    #  10 12 12 13 20 20|25      as of 11: the dropped tuples of 20 are in the window, and later than 11
    window = as_of_window(WindowClause(at(20), at(25)), 11)
    assert not apply_window(window, timeline(), Retention(rows=1), 25, 11).truncated
    assert apply_window(WindowClause(at(20), at(25)), timeline(), Retention(rows=1), 25, 25).truncated
    assert not apply_window(WindowClause(at(20), at(25)), timeline(), Retention(rows=1), 25, 11).truncated
    assert apply_window(WindowClause(at(20), at(25)), timeline(), Retention(rows=1), 25, 20).truncated


def test_a_window_keeps_its_end_though_no_tuple_after_now_is_in_it() -> None:
    found = apply_window(WindowClause(at(12), at(99)), timeline(), Retention(), 25, 13)
    assert (found.low, found.high, found.end) == (4, 7, 99)


def test_the_last_rows_are_found_as_other_windows_are() -> None:
    """All of them are kept, or `last_rows` leaves it to `apply_window`."""
    found = 0
    ends = NOW, rows(0), rows(2), rows(9), back(3)
    windows = [WindowClause(begin, end) for begin in (START, back(5), *map(rows, range(9))) for end in ends]
    kept = [Retention(), Retention(rows=4), Retention(duration=9), Retention(rows=6, duration=5)]
    for window in windows:
        for retention in kept:
            for now in (None, 9, 24, 25, 30):
                quick = last_rows(window, (FIRST, FIRST + len(TIMES)), TIMES[-1], retention, now)
                if quick is not None:
                    found += 1
                    assert quick == apply_window(window, timeline(), retention, now, now), (window, retention, now)
    assert found > 50 and last_rows(WindowClause(rows(2), NOW), (0, 0), None, Retention(), 5) is None
