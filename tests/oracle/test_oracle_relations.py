"""Relations between answers of composed statements, which hold without knowing any answer.

LEFT = inner + anti.          SEMI + ANTI = all.          IN = EXISTS without NULL.
A = A EXCEPT ALL B + A INTERSECT ALL B.                 UNION ALL = all of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again, rows_of

ROWS = 150
CONDITIONS = (
    "r.k = s.k",
    "r.k = s.k AND s.n > 2",
    "r.k = s.k AND r.n > 2",
    "r.k = s.k AND r.n < s.n",
    "s.at BETWEEN r.at - INTERVAL 3 SECOND AND r.at",
    "r.n = s.n AND s.at BETWEEN r.at AND r.at + INTERVAL 9 SECOND",
    "r.w = s.w AND (r.n = 1 OR s.n = 2)",
    "r.k = s.k + 1000",
    "r.n < s.n AND r.k < 30",
    "coalesce(r.n, 0) = s.n AND r.f = s.f",
)
WINDOWS = ("", " BEGIN (NOW - 40 SECONDS)", " BEGIN (NOW - 70 ROWS)", " BEGIN (NOW - 90 SECONDS) END (NOW - 5 SECONDS)")
SECOND = 1_000_000


def cases(values: Sequence[str], fast: int) -> Any:
    """Marks for each value with each window: the first `fast` values with a window of their own are not long."""
    pairs = [
        (value, window, n < fast and n % len(WINDOWS) == w)
        for n, value in enumerate(values)
        for w, window in enumerate(WINDOWS)
    ]
    return [pytest.param(value, window, marks=() if now else pytest.mark.long) for value, window, now in pairs]


def tuples(rng: np.random.Generator, first: int, rows: int) -> pa.Table:
    """Tuples a second apart, with NULLs, equal keys, NaN and -0.0."""
    words = np.array(["", "a", "b", "words of more than eight bytes"], object)
    return pa.table(
        {
            "at": pa.array((first + np.arange(rows)) * SECOND, pa.timestamp("us")),
            "k": pa.array(rng.integers(0, 90, rows), mask=rng.random(rows) < 0.1),
            "n": pa.array(rng.integers(0, 6, rows), mask=rng.random(rows) < 0.1),
            "w": pa.array(words[rng.integers(0, 4, rows)], pa.string(), mask=rng.random(rows) < 0.1),
            "f": pa.array(rng.choice([0.0, -0.0, 1.0, np.nan], rows), mask=rng.random(rows) < 0.1),
        }
    )


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """Two streams of several chunks, and an open one."""
    soup, rng = (
        LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER, ahead=10**12), VirtualClock(0)),
        np.random.default_rng(4),
    )
    for stream in "rs":
        soup.execute(
            f"CREATE STREAM {stream} (at TIMESTAMP NOT NULL, k BIGINT, n BIGINT, w TEXT, f DOUBLE) TIMESTAMP BY at"
        )
    for first in range(0, ROWS, 50):
        for stream in "rs":
            soup.push(stream, tuples(rng, first, 50))
        soup.maintain()
    return soup


@contextmanager
def asked(soup: LocalPSoup, *statements: str) -> Iterator[list[Counter[Any]]]:
    """The rows of registered statements, each asked several times."""
    queries = [soup.register(statement) for statement in statements]
    yield [Counter(map(repr, rows_of(again(soup.invoke, query)))) for query in queries]
    for query in queries:
        soup.unregister(query)


@pytest.mark.parametrize(("condition", "window"), cases(CONDITIONS, 3))
def test_outer_joins_are_the_inner_join_and_the_rows_without_a_partner(
    condition: str, window: str, soup: LocalPSoup
) -> None:
    both, nothing = "SELECT r._id AS a, s._id AS b FROM", "CAST(NULL AS BIGINT)"
    with asked(
        soup,
        f"{both} r JOIN s ON {condition}{window}",
        f"{both} r LEFT JOIN s ON {condition}{window}",
        f"{both} r RIGHT JOIN s ON {condition}{window}",
        f"{both} r FULL JOIN s ON {condition}{window}",
        f"SELECT r._id AS a, {nothing} AS b FROM r ANTI JOIN s ON {condition}{window}",
        f"SELECT {nothing} AS a, s._id AS b FROM s ANTI JOIN r ON {condition}{window}",
    ) as (inner, left, right, full, alone, other):
        assert left == inner + alone
        assert right == inner + other
        assert full == inner + alone + other


@pytest.mark.parametrize(("condition", "window"), cases(CONDITIONS, 2))
def test_semi_and_anti_joins_share_out_all_rows(condition: str, window: str, soup: LocalPSoup) -> None:
    with asked(
        soup,
        f"SELECT r._id AS a FROM r{window}",
        f"SELECT r._id AS a FROM r SEMI JOIN s ON {condition}{window}",
        f"SELECT r._id AS a FROM r ANTI JOIN s ON {condition}{window}",
        f"SELECT r._id AS a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE {condition}){window}",
        f"SELECT r._id AS a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE {condition}){window}",
        f"SELECT DISTINCT r._id AS a FROM r JOIN s ON {condition}{window}",
    ) as (everything, semi, anti, exists, not_exists, partners):
        assert semi + anti == everything
        assert semi == exists == partners
        assert anti == not_exists


@pytest.mark.parametrize(("more", "window"), cases(["", " AND s.n > 2", " AND s.at <= r.at", " AND s.n = r.n"], 2))
def test_in_is_exists_where_there_is_no_null(more: str, window: str, soup: LocalPSoup) -> None:
    select = "SELECT r._id AS a FROM r WHERE r.k IS NOT NULL AND"
    keys = f"(SELECT s.k FROM s WHERE s.k IS NOT NULL{more})"
    partner = f"EXISTS (SELECT 1 FROM s WHERE s.k = r.k{more})"
    with asked(
        soup,
        f"{select} r.k IN {keys}{window}",
        f"{select} {partner}{window}",
        f"{select} r.k NOT IN {keys}{window}",
        f"{select} NOT {partner}{window}",
    ) as (member, exists, other, not_exists):
        assert member == exists
        assert other == not_exists
        assert other


@pytest.mark.parametrize(("columns", "window"), cases(["{0}.k", "{0}.n, {0}.w", "{0}.f, {0}.n", "{0}.at"], 2))
def test_set_operations_share_out_all_rows(columns: str, window: str, soup: LocalPSoup) -> None:
    r, s = (f"SELECT {columns.format(stream)} FROM {stream}" for stream in "rs")
    operators = ("UNION ALL", "EXCEPT ALL", "INTERSECT ALL", "UNION", "EXCEPT", "INTERSECT")
    statements = [f"{r} {operator} {s}{window}" for operator in operators]
    with asked(soup, f"{r}{window}", f"{s}{window}", *statements) as (first, second, every, less, common, *sets):
        assert every.total() == first.total() + second.total()
        assert less.total() + common.total() == first.total()
        union, fewer, shared = sets
        assert max(union.values()) == max([*fewer.values(), *shared.values(), 1]) == 1
        assert fewer.total() + shared.total() == len({*_equal(first)})
        assert union.total() == len({*_equal(first), *_equal(second)})


def _equal(rows: Counter[str]) -> list[str]:
    """Rows with one zero."""
    return [row.replace("-0.0", "0.0") for row in rows]
