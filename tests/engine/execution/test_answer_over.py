"""Window functions: exact sums, errors, budgets, many queries of one statement, and what EXPLAIN shows."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.local import LocalPSoup
from psoup.plan.patterns import Pattern
from psoup.sql import prepare
from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_testing.histories.trades import lookup

Soup = Callable[..., LocalPSoup]


def _soup(**columns: Any) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    table = pa.table(columns)
    kinds = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "TEXT"}
    listed = ", ".join(f"{field.name} {kinds[field.type]}" for field in table.schema)
    soup.execute(f"CREATE STREAM s ({listed})")
    soup.push("s", table)
    return soup


def _shown(soup: LocalPSoup, sql: str) -> list[Any]:
    """The values of the last column, and the number of errors if there are any."""
    answer = soup.invoke(soup.register(sql))
    values = answer.to_table().columns[-1].to_pylist()
    errors = answer.select_errors
    return [*values, f"{errors} errors"] if errors else values


def _answer(soup: LocalPSoup, sql: str, budget: ReadBudget, **config: int) -> Answer:
    query = soup.register(sql)
    snapshot = replace(soup.engine.snapshot(), config=replace(soup.engine.config, **config))
    return invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now(), budget=budget).lean()


def test_sums_over_frames_are_exact() -> None:
    doubles = [1e16, 1.0, -1e16, 2.0**-1000, 3.0]
    soup = _soup(d=doubles, b=[2**62, 2**62, -(2**62), 2**62, 1])
    expected = [math.fsum(doubles[max(end - 3, 0) : end]) for end in range(1, 6)]
    assert _shown(soup, "SELECT sum(d) OVER (ROWS 2 PRECEDING) FROM s") == expected
    assert _shown(soup, "SELECT sum(b) OVER (ROWS UNBOUNDED PRECEDING) FROM s")[1] == Decimal(2**63)
    assert _shown(soup, "SELECT sum(b) OVER (ROWS 2 PRECEDING) FROM s")[2:4] == [2**62, 2**62]
    assert _shown(soup, "SELECT avg(d) OVER (ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM s")[2:] == [1.5, 3.0, None]


def test_infinities_and_nan_stay_in_their_frames() -> None:
    soup = _soup(d=[1.0, np.inf, 2.0, -np.inf, np.nan, 3.0])
    got = _shown(soup, "SELECT sum(d) OVER (ROWS 1 PRECEDING) FROM s")
    assert got[:4] == [1.0, np.inf, np.inf, -np.inf] and all(map(np.isnan, got[4:]))
    assert _shown(soup, "SELECT sum(d) OVER (ROWS CURRENT ROW) FROM s")[-1] == 3.0


def test_a_sum_of_sums_beyond_38_digits_is_an_error_of_its_row() -> None:
    soup = _soup(b=[9 * 10**18, 9 * 10**18, 1])
    sql = "SELECT sum(sum(b) * 9000000000000000000) OVER (ORDER BY _id ROWS 1 PRECEDING) FROM s GROUP BY _id"
    assert _shown(soup, sql) == [81 * 10**36, None, 81 * 10**36 + 9 * 10**18, "1 errors"]


def test_failed_keys_and_arguments_are_null_and_counted() -> None:
    soup = _soup(b=[0, 1, 2, 0])
    assert _shown(soup, "SELECT sum(10 // b) OVER () FROM s") == [15, 15, 15, 15, "2 errors"]
    assert _shown(soup, "SELECT lag(10 // b) OVER (ORDER BY _id) FROM s") == [None, None, 10, 5, "2 errors"]
    assert _shown(soup, "SELECT row_number() OVER (ORDER BY 10 // b) FROM s") == [3, 2, 1, 4, "2 errors"]
    assert _shown(soup, "SELECT b FROM s QUALIFY 10 // b > row_number() OVER ()") == [1, 2, "2 errors"]


def test_no_rows_have_no_functions() -> None:
    soup = _soup(b=[1, 2, 3])
    assert _shown(soup, "SELECT sum(b) OVER (PARTITION BY b) FROM s WHERE b > 9") == []
    assert _shown(soup, "SELECT DISTINCT ON (b) b FROM s WHERE b > 9") == []
    assert _shown(soup, "SELECT row_number() OVER () FROM s LIMIT 0") == []
    assert _shown(soup, "SELECT row_number() OVER () FROM s LIMIT 9 OFFSET 2") == [3]
    assert _shown(soup, "SELECT ntile(2) OVER () FROM s QUALIFY lag(b, 9000000000000000000) OVER () IS NULL") == [
        1,
        1,
        2,
    ]


BUDGETED = [
    "SELECT row_number() OVER (PARTITION BY t ORDER BY a) FROM s",
    "SELECT t, sum(a) OVER (ORDER BY a ROWS 9 PRECEDING) AS x, min(t) OVER () AS m FROM s QUALIFY a % 2 = 0 AND x > 0",
    "SELECT a, lag(t) OVER (ORDER BY a) AS l FROM s ORDER BY l, a",
    "SELECT t, count(DISTINCT a) OVER (PARTITION BY t) FROM s ORDER BY 2 LIMIT 3",
    "SELECT DISTINCT ON (t) a FROM s ORDER BY a DESC",
]


@pytest.fixture(scope="module")
def many() -> LocalPSoup:
    """An engine with 3,000 tuples, each with a text of its own."""
    numbers = np.arange(3_000)
    return _soup(a=numbers * 7919 % 3_000, t=[f"{n:090d}" for n in numbers.tolist()])


@pytest.mark.parametrize("sql", BUDGETED)
def test_bytes_are_charged_and_returned(many: LocalPSoup, sql: str) -> None:
    checks, budget = 0, ReadBudget()
    rows = _answer(many, sql, budget).to_table().num_rows
    assert rows and budget.held == 0 and budget.wanted > 3_000 * 16

    def ask() -> None:
        nonlocal checks
        checks += 1
        if checks == 12:
            raise ReadEnded

    budget = ReadBudget(ask)
    with pytest.raises(ReadEnded):
        _answer(many, sql, budget).to_table()
    assert budget.held == 0
    budget = ReadBudget(sort_bytes=100_000)
    with pytest.raises(ResourceExhausted, match="would hold") as caught:
        _answer(many, sql, budget).to_table()
    assert (caught.value.reason, budget.held) == ("SORT_BUDGET", 0)
    with pytest.raises(ResourceExhausted, match=r"over 3,000 rows is more than the 2,000"):
        _answer(many, sql, ReadBudget(), sort_rows=2_000).to_table()


@pytest.mark.parametrize("call", ["row_number()", "sum(a)", "max(a)", "lag(a, 1, 0)", "count(DISTINCT a)"])
def test_a_million_rows_fit_into_the_default_budget(call: str) -> None:
    """The default `sort_mib` is 256: 256 bytes for each of 2^20 rows."""
    rows = 20_000
    soup, budget = _soup(a=np.arange(rows), k=np.arange(rows) % 7), ReadBudget()
    frame = "" if "DISTINCT" in call else " ORDER BY a"
    _answer(soup, f"SELECT {call} OVER (PARTITION BY k{frame}) FROM s", budget).to_table()
    assert budget.wanted < 256 * rows


def test_a_long_text_for_many_rows_is_charged_before_it_is_copied() -> None:
    """A text of a megabyte would be the least value of 20,000 rows."""
    soup = _soup(t=["a" * 1_000_000, *["b"] * 20_000])
    tracemalloc.start()
    try:
        with pytest.raises(ResourceExhausted, match="OVER would hold 20,0"):
            _answer(soup, "SELECT min(t) OVER () FROM s", ReadBudget(sort_bytes=1 << 28)).to_table()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000


def test_each_row_may_be_a_partition() -> None:
    rows = 100_000
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT)")
    soup.push("s", pa.table({"a": np.arange(rows) * 7919 % rows}))
    answer = soup.execute("SELECT count(DISTINCT a) OVER (PARTITION BY a) + row_number() OVER (PARTITION BY a) FROM s")
    assert answer is not None and set(answer.to_table().columns[0].to_pylist()) == {2}


def test_queries_of_one_template_share_a_plan_and_are_answered_as_alone() -> None:
    soup = _soup(a=[1, 2, 3, 4, 5, 6], k=[1, 1, 2, 2, 3, 3])
    for sql in (
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY a DESC) AS n FROM s WHERE a > ?",
        "SELECT DISTINCT ON (k) k, a FROM s WHERE a > ? ORDER BY a DESC",
        "SELECT k, rank() OVER (ORDER BY sum(a) DESC) AS r FROM s WHERE a > ? GROUP BY k",
        "SELECT k, sum(a) OVER (PARTITION BY k) AS x FROM s QUALIFY x > ?",
    ):
        queries = soup.register_many(sql, pa.table({"p": [0, 2, 4]}))
        alone = [soup.invoke(soup.register(sql.replace("?", str(value)))).to_table() for value in (0, 2, 4)]
        assert [soup.invoke(query).to_table() for query in queries] == alone
        table = soup.invoke_table(queries).to_table()
        for place, expected in enumerate(alone):
            assert table.filter(pc.field("_query") == place).drop_columns("_query").to_pylist() == expected.to_pylist()


def test_a_parameter_of_qualify_takes_the_type_of_its_condition() -> None:
    template = prepare("SELECT sym FROM trades WHERE qty > ? QUALIFY rank() OVER (ORDER BY price) <= ?", lookup)
    assert template.bind((1, 3)).text.endswith("WHERE qty > 1 QUALIFY rank() OVER (ORDER BY price) <= 3")
    shared = prepare("SELECT row_number() OVER (ORDER BY at) FROM trades WHERE qty > ?", lookup)
    assert shared.bind((1,)).plan is shared.bind((2,)).plan


def test_explain_shows_the_functions_and_what_they_may_take() -> None:
    soup = _soup(a=[1, 2, 3])
    explained = soup.explain(soup.register("SELECT rank() OVER (ORDER BY a) AS r FROM s QUALIFY r = 1"))
    text = "\n".join(explained.lines())
    assert (
        "Over rank() OVER (ORDER BY a) [strict, rows of s]" in text and "Filter (rank() OVER (ORDER BY a) = 1)" in text
    )
    assert Pattern.STRICT.title in text
