"""Update-pattern-aware processing of continuous queries (SIGMOD 2005), figures 2 and 5: rows that leave out of order.

    figure 2    DISTINCT over a window: the oldest x leaves, a later x stays for it, and both y came in between
    figure 5    a join of two windows: the row of u came after the row of t, and leaves before it

Both operators are weak. A selection over one window, which is weakest, keeps the order.
"""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa

from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.plan.patterns import Pattern
from psoup.plan.updates import updates_of
from psoup.work.clock import VirtualClock

WINDOW = 10
"""The length of each window, seconds."""


def made(*streams: str) -> tuple[LocalPSoup, VirtualClock]:
    clock = VirtualClock(1_000 * SECOND)
    soup = LocalPSoup(clock=clock, verify="all")
    for name in streams:
        soup.execute(f"CREATE STREAM {name} (v TEXT, n BIGINT)")
    return soup, clock


def push(soup: LocalPSoup, stream: str, value: str, number: int) -> None:
    soup.push(stream, pa.table({"v": [value], "n": [number]}))


def pattern(soup: LocalPSoup, query: int) -> Pattern:
    return updates_of(soup.engine.snapshot().query(query, soup.tenant).query.plan).pattern


def test_figure_2_a_later_tuple_of_the_same_value_takes_the_place_of_the_one_that_leaves() -> None:
    soup, clock = made("w")
    distinct = soup.register(f"SELECT DISTINCT v FROM w [RANGE {WINDOW}]")
    arrivals = soup.register(f"SELECT v, n FROM w [RANGE {WINDOW}]")
    assert (pattern(soup, distinct), pattern(soup, arrivals)) == (Pattern.WEAK, Pattern.WEAKEST)

    for number, value in enumerate("xyxyz"):  # one a second
        push(soup, "w", value, number)
        clock.advance(seconds=1)
    assert soup.invoke(distinct).to_table()["v"].to_pylist() == ["x", "y", "z"]

    clock.advance(seconds=WINDOW - 4)  # the first x has left: the second x stands in the answer now, after y
    assert soup.invoke(arrivals).to_table()["n"].to_pylist() == [1, 2, 3, 4]
    assert soup.invoke(distinct).to_table()["v"].to_pylist() == ["y", "x", "z"]

    clock.advance(seconds=1)  # y leaves in the same way; x, which is in the answer again, stays
    assert soup.invoke(distinct).to_table()["v"].to_pylist() == ["x", "y", "z"]
    clock.advance(seconds=1)
    assert soup.invoke(distinct).to_table()["v"].to_pylist() == ["y", "z"]


def test_figure_5_the_later_row_of_a_join_leaves_first() -> None:
    soup, clock = made("one", "two")
    join = soup.register(
        f"SELECT two.v AS v, two.n AS n FROM one [RANGE {WINDOW}] JOIN two [RANGE {WINDOW}] ON one.v = two.v"
    )
    assert pattern(soup, join) is Pattern.WEAK

    came: list[str] = []

    def rows() -> list[str]:
        values = [str(value) for value in soup.invoke(join).to_table()["v"].to_pylist()]
        came.extend(value for value in values if value not in came)
        return values

    push(soup, "one", "u", 0)  # the partner of u is older than the partner of t
    clock.advance(seconds=4)
    push(soup, "one", "t", 1)
    clock.advance(seconds=2)
    push(soup, "two", "t", 2)
    assert rows() == ["t"]
    clock.advance(seconds=1)
    push(soup, "two", "u", 3)
    assert sorted(rows()) == ["t", "u"] and came == ["t", "u"]

    clock.advance(seconds=WINDOW - 6)  # the partner of u has left its window
    assert rows() == ["t"]
    clock.advance(seconds=4)
    assert rows() == []


def test_figure_5_rows_of_one_window_leave_in_the_order_in_which_they_came() -> None:
    soup, clock = made("one")
    query = soup.register(f"SELECT n FROM one [RANGE {WINDOW}] WHERE v = 'a'")
    assert pattern(soup, query) is Pattern.WEAKEST
    for number in range(6):
        push(soup, "one", "ab"[number % 3 == 0], number)
        clock.advance(seconds=1)
    seen = []
    for _ in range(WINDOW):
        seen.append(soup.invoke(query).to_table()["n"].to_pylist())
        clock.advance(seconds=1)
    assert all(later == before[len(before) - len(later) :] for before, later in pairwise(seen))
    assert (seen[0], seen[-1]) == ([1, 2, 4, 5], [5])
