"""Lists of rows that aggregates sort: STRING_AGG and ORDER BY inside aggregates, within their bounds, and bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates.bits import Bits
from psoup.aggregates.measures import folding_of
from psoup.aggregates.ordered_rows import MOST_TEXT, OrderedRows
from psoup.aggregates.state import Rows
from psoup.config import EngineConfig
from psoup.errors import PSoupError, ResourceExhausted
from psoup.local import LocalPSoup
from psoup.model import BIGINT, TEXT
from psoup.plan.nodes import Measure, plan_text
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup_testing.histories.histories import EAGER

VALUE = Measure("string_agg", (), TEXT)
TEXTS = ["b", None, "", "a", "b", "ü"]


def column(kind: Any, values: list[Any]) -> Column:
    return column_from_arrow("", kind, pa.array(values, pa.string() if kind == TEXT else pa.int64()))


def texts(folding: OrderedRows, cuts: list[int]) -> list[str | None]:
    """The results of STRING_AGG over TEXTS, in parts that end at `cuts`, for four groups."""
    keys, codes = [2, 1, 2, None, 1, 2], np.array([0, 0, 1, 2, 0, 1], np.int32)
    states = []
    for start, stop in zip([0, *cuts], [*cuts, 6], strict=True):
        args = [column(TEXT, TEXTS), column(BIGINT, keys)][: len(folding.types)]
        mask = np.array([text is not None for text in TEXTS[start:stop]], np.uint8)
        rows = Rows(stop - start, [arg.slice(start, stop) for arg in args], mask, codes[start:stop])
        states.append(folding.add(folding.empty(4), rows))
    whole = states[0]
    for state in states[1:]:
        whole = folding.combine(whole, state, np.arange(4))
    turned = folding.arrange(whole, np.array([3, 2, 1, 0]))
    assert folding.finish(turned, VALUE, 4).to_list() == folding.finish(whole, VALUE, 4).to_list()[::-1]
    assert folding.count(whole) == 5
    return folding.finish(whole, VALUE, 4).to_list()


@pytest.mark.parametrize("cuts", [[], [1], [2, 3], [1, 2, 3, 4, 5]])
def test_texts_are_put_together_in_order(cuts: list[int]) -> None:
    assert texts(OrderedRows((TEXT,), (), separator=", "), cuts) == ["b, b", ", ü", "a", None]
    assert texts(OrderedRows((TEXT,), (), distinct=True), cuts) == ["b", "ü", "a", None]
    assert texts(OrderedRows((TEXT, BIGINT), ((False, False),), separator="-"), cuts) == ["b-b", "-ü", "a", None]
    twice = OrderedRows((TEXT, TEXT, BIGINT), ((True, False), (False, False)))
    assert twice.finish(twice.empty(2), VALUE, 2).to_list() == [None, None]


def test_many_parts_are_merged() -> None:
    folding, state = OrderedRows((TEXT,), (), separator="|"), OrderedRows((TEXT,), ()).empty(1)
    for number in range(500):
        state = folding.add(state, Rows(1, [column(TEXT, [str(number)])]))
    assert len(state) < 200
    assert folding.finish(state, VALUE, 1).to_list() == ["|".join(map(str, range(500)))]


def test_bits_of_parts_are_those_of_the_whole() -> None:
    values = [6, 3, -1, 2**63 - 1, -(2**63), 0]
    for function, operator in (("bit_and", np.bitwise_and), ("bit_or", np.bitwise_or), ("bit_xor", np.bitwise_xor)):
        folding = Bits(function)
        whole = folding.add(folding.empty(2), Rows(6, [column(BIGINT, values)], codes=np.zeros(6, np.int32)))
        parts = folding.empty(2)
        for value in values:
            part = folding.add(folding.empty(1), Rows(1, [column(BIGINT, [value])]))
            parts = folding.combine(parts, part, np.array([0]))
        assert folding.finish(whole, VALUE, 2).to_list() == folding.finish(parts, VALUE, 2).to_list()
        assert folding.finish(folding.grow(whole, 3), VALUE, 3).to_list() == [int(operator.reduce(values)), None, None]
        assert folding_of(Measure(function, (), BIGINT)) == folding


@pytest.fixture
def soup() -> LocalPSoup:
    made = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=64, sort_rows=1_000, shape=EAGER))
    made.execute("CREATE STREAM s (k BIGINT, x TEXT)")
    made.push("s", pa.table({"k": [n % 3 for n in range(20)], "x": [chr(97 + n) for n in range(20)]}))
    return made


def shown(soup: LocalPSoup, select: str) -> list[Any]:
    answer = soup.execute(f"SELECT {select} FROM s")
    assert answer is not None
    return [column.to_pylist() for column in answer.to_table().columns]


def test_a_text_that_is_too_long_is_refused(soup: LocalPSoup) -> None:
    separator = "-" * (MOST_TEXT // 19)
    assert len(shown(soup, f"string_agg(x, '{separator[:20_000]}')")[0][0]) == 20 + 19 * 20_000
    soup.push("s", pa.table({"k": [1] * 200, "x": ["y" * 1_000] * 200}))
    with pytest.raises(ResourceExhausted, match=r"string_agg makes a text of .* bytes, and a text may have 1,048,576"):
        shown(soup, f"string_agg(x, '{separator[:20_000]}')")
    assert len(shown(soup, "string_agg(x, ',')")[0][0]) > 200_000


def test_too_many_rows_are_refused(soup: LocalPSoup) -> None:
    soup.push("s", pa.table({"k": [1] * 1_000, "x": ["y"] * 1_000}))
    for aggregate in ("string_agg(x, '')", "first(x ORDER BY k)"):
        with pytest.raises(ResourceExhausted, match=r"an ordered aggregate of 1,0\d\d values is more than the 1,000"):
            shown(soup, aggregate)
    assert shown(soup, "first(x ORDER BY k) FILTER (WHERE x <> 'y'), bit_or(k)") == [["a"], [3]]


def test_many_queries_have_the_answers_of_each(soup: LocalPSoup) -> None:
    aggregates = "string_agg(x, ',' ORDER BY k DESC, x) AS a, last(x ORDER BY k, x) AS b, bit_xor(k) AS c"
    for select in (f"SELECT {aggregates}", f"SELECT k, {aggregates}"):
        group = " GROUP BY k" if "k, " in select[:12] else ""
        queries = [soup.register(f"{select} FROM s WHERE x > '{chr(96 + n)}'{group}") for n in range(20)]
        table = soup.invoke_table(queries).to_table()
        for place, query in enumerate(queries):
            rows = table.filter(pa.compute.equal(table["_query"], place)).drop_columns("_query")
            assert rows.to_pylist() == soup.invoke(query).to_table().to_pylist()


def test_explain_shows_the_order(soup: LocalPSoup) -> None:
    query = soup.register("SELECT string_agg(x, '; ' ORDER BY k DESC NULLS FIRST) FROM s")
    plan = soup.engine.snapshot().query(query, soup.tenant).query.plan
    assert "string_agg(x, '; ' ORDER BY k DESC NULLS FIRST)" in plan_text(plan)
    with pytest.raises(PSoupError):
        soup.register("SELECT string_agg(x ORDER BY nope) FROM s")
