"""An error counts where it decides, and alike on arrival, when a query comes later, in covering and when asked once."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

Truth = bool | None
Row = tuple[int, int, str]


def number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def less(left: int | None, right: int) -> Truth:
    return None if left is None else left < right


def every(*parts: Truth) -> Truth:
    return False if False in parts else None if None in parts else True


def some(*parts: Truth) -> Truth:
    return True if True in parts else None if None in parts else False


def whole(row: Row) -> int | None:
    return None if row[1] == 0 else row[0] // row[1]


WHERE: list[tuple[str, Callable[[Row], Truth]]] = [
    ("CAST(n AS BIGINT) < 5", lambda r: less(number(r[2]), 5)),
    ("a < 3 AND CAST(n AS BIGINT) < 5", lambda r: every(r[0] < 3, less(number(r[2]), 5))),
    (
        "CAST(n AS BIGINT) < 5 AND a < 3 AND a // b < 2",
        lambda r: every(r[0] < 3, less(number(r[2]), 5), less(whole(r), 2)),
    ),
    ("a // b < 2 AND n LIKE '%4%'", lambda r: every(less(whole(r), 2), "4" in r[2])),
    (
        "CAST(n AS BIGINT) < 50 AND n LIKE '%4%' AND a < 9",
        lambda r: every(less(number(r[2]), 50), "4" in r[2], r[0] < 9),
    ),
    ("a = 1 OR CAST(n AS BIGINT) < 5", lambda r: some(r[0] == 1, less(number(r[2]), 5))),
    ("a = 1 AND length(n) = 1 AND a // b < 2", lambda r: every(r[0] == 1, len(r[2]) == 1, less(whole(r), 2))),
    ("n LIKE '%x%' AND CAST(n AS BIGINT) < 5", lambda r: every("x" in r[2], less(number(r[2]), 5))),
    (
        "(a < 2 OR a // b < 1) AND (b < 1 OR n = '4')",
        lambda r: every(some(r[0] < 2, less(whole(r), 1)), r[1] < 1 or r[2] == "4"),
    ),
]


@pytest.mark.parametrize("least", swept([1, 10**9], fast=1))
def test_failures_are_those_of_sql_on_every_way(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On arrival, of queries that come later, before and after chunks are covered, and after a removal."""
    monkeypatch.setattr("psoup.expressions.deferral.LEAST_ROWS", least)
    rng = random.Random(5)
    soup = LocalPSoup(EngineConfig(chunk_rows=128, piece_rows=64, delta_queries=16, shape=EAGER))
    soup.execute("CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL, n TEXT NOT NULL)")
    rows: list[Row] = [
        (rng.randrange(10), rng.randrange(4), rng.choice(["4", "44", "x", "x4", "7", "400"])) for _ in range(500)
    ]
    early = [soup.register(f"SELECT a FROM s WHERE {where}") for where, _ in WHERE]
    for start in range(0, 500, 50):
        taken = rows[start : start + 50]
        soup.push("s", pa.table({name: [row[k] for row in taken] for k, name in enumerate("abn")}))
    wanted = [[holds(row) for row in rows] for _, holds in WHERE]
    counts = [(truth.count(True), truth.count(None)) for truth in wanted]
    assert all(failed for _, failed in counts)

    def told(query: int) -> tuple[int, int]:
        answer = again(soup.invoke, query)
        return answer.to_table().num_rows, answer.completeness.errors

    assert [told(query) for query in early] == counts
    few = [soup.register(f"SELECT b FROM s WHERE {where}") for where, _ in WHERE]
    for query in early:
        soup.unregister(query)
    assert [told(query) for query in few] == counts
    late = [soup.register(f"SELECT b FROM s WHERE {where} AND a >= 0") for where, _ in WHERE[1:2]]
    late += soup.register_many([f"SELECT b FROM s WHERE ({where}) AND a >= 0" for where, _ in WHERE])
    before = [told(query) for query in late]
    soup.maintain()
    soup.check()
    assert before == [told(query) for query in late] == [counts[1], *counts]
    assert [told(query) for query in few] == counts
    for where, (matched, failed) in zip(WHERE, counts, strict=True):
        answer = again(soup.ask, f"SELECT b FROM s WHERE {where[0]}")
        assert (answer.to_table().num_rows, answer.completeness.errors) == (matched, failed)
