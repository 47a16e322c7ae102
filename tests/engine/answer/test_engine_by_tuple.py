"""Which queries matched some tuples: one or many, covered or not, and nothing before the retention edge."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup.answer.tuples.queries_of_tuple import matches_between, matches_each
from psoup.config import EngineConfig
from psoup.errors import OutOfRange
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.suite.sweeps import swept


def filled(queries_before: int, queries_after: int, maintained: bool) -> tuple[LocalPSoup, dict[int, tuple[int, int]]]:
    """Two closed chunks and an open one of a = 0 .. 149, and queries `low <= a < high` registered around them."""
    rng = random.Random(queries_before + queries_after)
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    soup.execute("CREATE STREAM s (a BIGINT)")
    ranges: dict[int, tuple[int, int]] = {}

    def register(count: int) -> None:
        for _ in range(count):
            low, high = sorted(rng.sample(range(160), 2))
            ranges[soup.register(f"SELECT a FROM s WHERE a >= {low} AND a < {high}")] = (low, high)

    register(queries_before)
    for start in range(0, 150, 50):
        soup.push("s", pa.table({"a": range(start, start + 50)}))
    register(queries_after)
    if maintained:
        soup.maintain()
    return soup, ranges


@pytest.mark.parametrize("maintained", swept([False, True], fast=(1,)))
@pytest.mark.parametrize(("before", "after"), swept([(0, 3), (3, 0), (5, 40), (40, 300)], fast=3))
def test_many_tuples_give_what_each_gives_alone(before: int, after: int, maintained: bool) -> None:
    soup, ranges = filled(before, after, maintained)
    asked = [149, 3, 64, 63, 127, 3, 128, 0]
    wanted = [[query for query, (low, high) in ranges.items() if low <= a < high] for a in asked]
    assert soup.matches_many("s", asked) == wanted
    assert [soup.matches("s", a) for a in asked] == wanted
    assert any(wanted)
    table = soup.matches_between("s", 0, 150)
    assert [table.of(a) for a in range(150)] == soup.matches_many("s", range(150))
    assert soup.matches_between("s", 70, 9).of(3) == soup.matches("s", 73)


@pytest.mark.parametrize("maintained", [False, True])
def test_the_matches_of_many_tuples_are_found_in_parts_between_which_the_budget_is_asked(
    maintained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=4_096))
    soup.execute("CREATE STREAM s (a BIGINT)")
    queries = soup.register_many("SELECT a FROM s WHERE a >= ?", [(low,) for low in range(40)])
    soup.push("s", pa.table({"a": range(5_000)}))
    if maintained:
        soup.maintain()
    wanted = [[query for low, query in enumerate(queries) if a >= low] for a in range(128)]
    matched, asked = sum(map(len, wanted)), list[int]()
    budget = ReadBudget(lambda: asked.append(len(asked)))

    def asks(find: Callable[[], list[list[int]]]) -> int:
        asked.clear()
        assert find() == wanted
        return len(asked)

    def between() -> list[list[int]]:
        found = matches_between(soup.engine.snapshot(), "s", 0, 128, tenant=DEFAULT_TENANT, now=0, budget=budget)
        return [found.of(a) for a in range(128)]

    def each() -> list[list[int]]:
        return [*matches_each(soup.engine.snapshot(), "s", range(128), tenant=DEFAULT_TENANT, now=0, budget=budget)]

    whole, tuples = asks(between), asks(each)
    monkeypatch.setattr("psoup.results.by_tuple._TOGETHER", 128)
    assert asks(between) == whole + 39, "each bitmap is a part"
    assert asks(each) >= tuples + 39
    monkeypatch.setattr("psoup.answer.tuples.queries_of_tuple._CHECKED", 2)
    monkeypatch.setattr("psoup.results.by_tuple._TOGETHER", 65_536)
    assert asks(each) >= matched // 2


def test_queries_that_went_are_not_shown() -> None:
    soup, ranges = filled(20, 20, True)
    gone = list(ranges)[::2]
    for query in gone:
        soup.unregister(query)
    found = soup.matches_many("s", range(150))
    assert not set(gone) & {query for queries in found for query in queries}
    assert max(len(queries) for queries in found) > 5


def test_nothing_before_the_retention_edge_is_shown() -> None:
    """The chunk is still there: retention is 10 s, and the stream in system time has been silent since."""
    clock = VirtualClock(0)
    soup = LocalPSoup(EngineConfig(chunk_rows=64), clock)
    soup.execute("CREATE STREAM s (a BIGINT) RETENTION 10 SECONDS")
    query = soup.register("SELECT a FROM s WHERE a > 0")
    soup.push("s", pa.table({"a": [1]}))
    clock.advance(seconds=5)
    soup.push("s", pa.table({"a": [2]}))
    assert soup.matches_many("s", [0, 1]) == [[query], [query]]
    clock.advance(seconds=6)
    assert soup.matches("s", 1) == [query]
    with pytest.raises(OutOfRange, match="tuple 0 is not in stream 's'; tuple IDs kept: 1 to 1"):
        soup.matches_many("s", [1, 0])


def test_expressions_and_text_of_uncovered_clauses_are_evaluated_for_just_these_tuples() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    soup.execute("CREATE STREAM s (a BIGINT, b TEXT)")
    soup.push("s", pa.table({"a": pa.array([*range(69), None]), "b": [f"x{k % 7}" for k in range(70)]}))
    wheres = {
        "a * 2 > 100": lambda a, b: a is not None and a * 2 > 100,
        "b = 'x3'": lambda a, b: b == "x3",
        "b LIKE '%1' OR a IS NULL": lambda a, b: b.endswith("1") or a is None,
        "a IN (1, 50, 60)": lambda a, b: a in (1, 50, 60),
        "_time >= TIMESTAMP '1970-01-01'": lambda a, b: True,
        "a <> 7": lambda a, b: a is not None and a != 7,
        "FALSE": lambda a, b: False,
        "a IS NOT NULL AND b >= 'x5'": lambda a, b: a is not None and b >= "x5",
    }
    queries = {soup.register(f"SELECT a FROM s WHERE {where}"): (where, holds) for where, holds in wheres.items()}
    asked = [1, 7, 50, 62, 69]
    for tuple_id, found in zip(asked, soup.matches_many("s", asked), strict=True):
        a, b = (None if tuple_id == 69 else tuple_id), f"x{tuple_id % 7}"
        wanted = [q for q, (_, holds) in queries.items() if holds(a, b)]
        assert found == wanted
