"""Update-pattern-aware processing of continuous queries (SIGMOD 2005): rows that leave out of order, step by step.

    figure 2        DISTINCT over a window: the oldest x leaves, a later x stays for it, and both y came in between
    figure 5        a join of two windows: the row of u came after the row of t, and leaves before it
    figure 6        a join and a negation, in both orders: the pattern of each edge of the plan
    equation 1      negation: of v1 tuples on the left and v2 on the right, v1 - v2 stay
    definition 2    a table that is not retroactive: its update meets only tuples that come later

DISTINCT and the join are weak. A selection over one window, which is weakest, keeps the order. The language goes as far
as equation 1 over values: EXCEPT ALL compares all columns, where the paper keeps whole tuples by one attribute.
"""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

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


EDGES = {
    "negation last": "SELECT one.n FROM one {0} JOIN two {0} ON one.v = two.v"
    " WHERE NOT EXISTS (SELECT 1 FROM three {0} WHERE three.v = one.v)",
    "negation first": "SELECT x.n FROM (SELECT v, n FROM one {0}"
    " WHERE NOT EXISTS (SELECT 1 FROM three {0} WHERE three.v = one.v)) x JOIN two {0} ON x.v = two.v",
}


@pytest.mark.parametrize(
    ("order", "labels"),
    [
        ("negation last", {"anti join": "strict", "join": "weak", "source": "weakest"}),
        ("negation first", {"anti join": "strict", "join": "strict", "source": "weakest"}),
    ],
)
def test_figure_6_the_order_of_join_and_negation_decides_the_pattern_between_them(
    order: str, labels: dict[str, str]
) -> None:
    soup, _ = made("one", "two", "three")
    query = soup.register(EDGES[order].format(f"[RANGE {WINDOW}]"))
    nodes = [node for node in soup.explain(query).nodes if node.operator != "project"]
    assert {node.operator: node.updates.split(",")[0] for node in nodes} == labels


def test_equation_1_the_rows_of_a_negation_are_those_that_the_other_window_lacks() -> None:
    soup, clock = made("one", "two")
    sql = f"SELECT v FROM one [RANGE {WINDOW}] EXCEPT ALL SELECT v FROM two [RANGE {WINDOW}]"
    negation = soup.register(sql)
    assert pattern(soup, negation) is Pattern.STRICT

    def rows() -> list[str]:
        return sorted(soup.invoke(negation).to_table()["v"].to_pylist())

    push(soup, "two", "x", 0)
    clock.advance(seconds=4)
    for number, value in enumerate("xxxy"):
        push(soup, "one", value, number)
    assert rows() == ["x", "x", "y"]
    for value in "xy":  # a row leaves at once, before its window ends
        push(soup, "two", value, 4)
        clock.advance(seconds=1)
    assert rows() == ["x"]
    clock.advance(seconds=WINDOW - 5)  # the first x of the other window has left, and a row comes without a tuple
    assert rows() == ["x", "x"]


def test_definition_2_an_update_of_a_table_meets_only_later_tuples() -> None:
    soup, clock = made("one")
    soup.execute("CREATE TABLE names (v TEXT PRIMARY KEY, name TEXT)")
    select = f"SELECT n, name FROM one [RANGE {WINDOW}] JOIN names {{}} ON names.v = one.v"
    later, retroactive = (soup.register(select.format(version)) for version in ("AS OF one", ""))
    assert (pattern(soup, later), pattern(soup, retroactive)) == (Pattern.WEAKEST, Pattern.STRICT)

    def rows(query: int) -> list[tuple[int, str]]:
        return [(row["n"], row["name"]) for row in soup.invoke(query).to_table().to_pylist()]

    for number, name in enumerate(("old", "new")):
        soup.push("names", pa.table({"v": ["a"], "name": [name]}))
        clock.advance(seconds=1)
        push(soup, "one", "a", number)
        clock.advance(seconds=1)
    assert rows(later) == [(0, "old"), (1, "new")]
    assert rows(retroactive) == [(0, "new"), (1, "new")]


def test_a_table_may_be_joined_above_a_negation() -> None:
    """The paper forbids it, because a negative tuple would have to find a row that the table no longer has."""
    soup, _ = made("one", "two")
    soup.execute("CREATE TABLE names (v TEXT PRIMARY KEY, name TEXT)")
    query = soup.register(
        f"SELECT x.n, name FROM (SELECT v, n FROM one [RANGE {WINDOW}]"
        f" WHERE NOT EXISTS (SELECT 1 FROM two [RANGE {WINDOW}] WHERE two.v = one.v)) x JOIN names ON names.v = x.v"
    )
    for number, value in enumerate("ab"):
        push(soup, "one", value, number)
    soup.push("names", pa.table({"v": ["a", "a"], "name": ["old", "new"]}))
    assert [tuple(row.values()) for row in soup.invoke(query).to_table().to_pylist()] == [(0, "new")]
    push(soup, "two", "a", 0)
    assert soup.invoke(query).to_table().num_rows == 0
