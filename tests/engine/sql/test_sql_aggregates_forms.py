"""Templates and forms of statements with aggregates: constants of WHERE alone make a form, and plans are shared."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import InvalidInput, NotSupported
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TEXT, DataType, decimal
from psoup.plan.nodes import plan_text
from psoup.plan.standing_query import Parameter
from psoup.sql import prepare
from psoup.sql.templates import template as template_module
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.forms import Forms, form_of, in_order
from psoup.sql.templates.ladder import ParameterValues, bind_values, gathered
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.trades import bind, lookup


@pytest.mark.seeded("a constant of HAVING is taken for one of WHERE")
def test_constants_of_having_and_filter_are_not_those_of_where() -> None:
    """A constant of HAVING taken for one of WHERE would give every query of the form the first one's plan."""
    forms = Forms()
    text = (
        "SELECT sym, count(*) FILTER (WHERE rate > {a}) AS n FROM trades WHERE qty > {b} GROUP BY sym"
        " HAVING count(*) > {c}"
    )
    values = [{"a": a, "b": b, "c": c} for a, b, c in product((1, 2), (3, 4), (5, 6))] * 3
    for given in values:
        query = forms.query(text.format(**given), lookup)
        assert query == bind(text.format(**given))
        assert f"(count(*) > {given['c']})" in plan_text(query.plan) and f"qty >= {given['b'] + 1}" in query.clause
        assert f"FILTER (WHERE (rate > {given['a']}))" in plan_text(query.plan)
    assert form_of("SELECT sym FROM trades WHERE qty > 3 GROUP BY sym HAVING count(*) > 4") == (
        "SELECT sym FROM trades WHERE qty > ? GROUP BY sym HAVING count(*) > 4",
        (3,),
    )
    assert form_of("SELECT sym FROM trades GROUP BY sym HAVING count(*) FILTER (WHERE qty > 3) > 4") is None
    assert form_of("SELECT count(*) FILTER ( WHERE qty = 1) FROM trades WHERE sym = 'a' HAVING count(*) > 4") == (
        "SELECT count(*) FILTER ( WHERE qty = 1) FROM trades WHERE sym = ? HAVING count(*) > 4",
        ("a",),
    )
    assert in_order(
        "SELECT sym FROM trades WHERE sym = 'a' AND qty = 1 GROUP BY sym HAVING max(qty) = 1 AND sym = 'a'"
    ) == ("SELECT sym FROM trades WHERE qty = 1 AND sym = 'a' GROUP BY sym HAVING max(qty) = 1 AND sym = 'a'")


def test_statements_of_a_form_share_a_plan_and_a_template() -> None:
    forms = Forms()
    queries = [forms.query(f"SELECT count(*) FROM trades WHERE qty = {n} GROUP BY sym", lookup) for n in range(5)]
    assert queries[2].plan is queries[3].plan is queries[4].plan
    template = prepare("SELECT sym, sum(price) AS s FROM trades WHERE qty = ? AND sym > ? GROUP BY sym", lookup)
    first, second = template.bind((1, "a")), template.bind((2, "b"))
    assert first.plan is second.plan is template.plan
    assert first == bind("SELECT sym, sum(price) AS s FROM trades WHERE qty = 1 AND sym > 'a' GROUP BY sym")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sym FROM trades GROUP BY sym ORDER BY max(qty) + ?",
        "SELECT sym FROM trades GROUP BY sym HAVING sum(qty + ?) > 3",
        "SELECT sum(qty) FILTER (WHERE rate > ?) FROM trades WHERE qty > ?",
    ],
)
def test_parameters_stand_in_where_and_having_alone(text: str) -> None:
    with pytest.raises(NotSupported, match="a parameter outside of WHERE, HAVING and QUALIFY is not supported"):
        prepare(text, lookup)


@pytest.mark.parametrize(
    ("condition", "types", "values", "constants"),
    [
        ("count(*) > ?", (BIGINT,), (3,), ("3",)),
        ("count(*) BETWEEN ? AND ?", (BIGINT, BIGINT), (3, None), ("3", "NULL")),
        ("sum(qty) > $least OR sum(qty) < -$least", (decimal(18, 0),), (2.5,), ("2.5", "2.5")),
        ("avg(rate) = ? AND sym <> ?", (DOUBLE, TEXT), (-1.5, "it's"), ("-1.5e0", "'it''s'")),
        ("n IN (?, 7)", (BIGINT,), ("5",), ("5",)),
        ("$yes AND max(qty) > 1", (BOOLEAN,), (True,), ("TRUE",)),
    ],
)
def test_a_query_with_parameters_in_having_is_that_of_its_text(
    condition: str, types: tuple[DataType, ...], values: tuple[Parameter, ...], constants: tuple[str, ...]
) -> None:
    text = f"SELECT sym, count(*) AS n FROM trades WHERE qty > 3 GROUP BY sym HAVING {condition}"
    template = prepare(text, lookup)
    assert template.types == types
    query = template.bind(values)
    places = iter(constants)
    assert query == bind(re.sub(r"\?|\$[a-z]+", lambda _: next(places), text))
    assert template.bind(values).plan is query.plan, "equal constants make one plan"
    assert template.block(tuple(pa.array([value] * 5_000) for value in values)) is None
    with pytest.raises(InvalidInput, match=r"parameter .* of query 3 is"):
        template.bind(tuple(b"x" for _ in values), 3)  # type: ignore[arg-type]


def test_parameters_in_having_are_bound_without_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those that cannot be bound: their errors point into the text with the values."""
    text = (
        "SELECT sym, max(qty) + 1 FROM trades WHERE qty > ? OR rate < ? GROUP BY sym HAVING sum(qty) IN (?, 7) LIMIT 3"
    )
    template = prepare(text, lookup)
    expected = bind(text.replace("?", "3", 1).replace("?", "-2.5e0", 1).replace("?", "4"))
    with monkeypatch.context() as patched:
        patched.setattr(template_module, "query_of", None)
        assert template.bind((3, -2.5, 4)) == expected
    wrong = prepare("SELECT sym FROM trades GROUP BY sym HAVING max(sym) ~ ?", lookup)
    with pytest.raises(InvalidInput, match=r"query 2: (?s:.)*~ '\[a'"):
        wrong.bind(("[a",), 2)


@pytest.mark.parametrize(
    ("text", "values", "constants"),
    [
        ("t.qty > ? AND q.bid < ? GROUP BY t.sym HAVING count(*) > ?", (3, 2.5, 4), ("3", "2.5e0", "4")),
        ("q.bid > 1 GROUP BY t.sym HAVING max(q.bid) > $x AND sum(t.qty) > $x", (2,), ("2", "2")),
        ("t.sym = ? GROUP BY q.sym HAVING min(t.sym) <> ? ORDER BY 2 LIMIT 5", ("it's", "b"), ("'it''s'", "'b'")),
    ],
)
def test_a_join_with_parameters_in_having_is_bound_without_parsing(
    text: str, values: tuple[Parameter, ...], constants: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sides are templates; a parameter of WHERE is not taken for one of HAVING, nor the other way round."""
    text = f"SELECT count(*) AS n, max(t.qty) AS m FROM trades t, quotes q WHERE t.sym = q.sym AND {text}"
    template, places = prepare(text, lookup), iter(constants)
    expected = bind(re.sub(r"\?|\$[a-z]+", lambda _: next(places), text))
    with monkeypatch.context() as patched:
        patched.setattr(template_module, "query_of", None)
        query = template.bind(values)
    assert query == expected
    assert [side.text for side in query.sides] == [side.text for side in expected.sides]
    assert template.bind(values).plan is query.plan, "equal constants make one plan"


def test_parameters_of_where_and_having_are_told_apart(tmp_path: Path) -> None:
    soup = RestartingPSoup(EngineConfig(), VirtualClock(), tmp_path)
    soup.execute("CREATE STREAM s (k BIGINT, x BIGINT)")
    soup.push("s", pa.table({"k": [1, 1, 2, 2, 2, 3], "x": [5, 6, 7, 8, 1, 9]}))
    text = "SELECT k, count(*) AS n FROM s WHERE x > $low GROUP BY k HAVING count(*) >= $least AND k <> $not"
    rows = pa.table({"not": [3, 3, 1], "least": [1, 2, 1], "low": [4, 4, 5]})
    ids = soup.register_many(text, rows)
    expected = [{(1, 2), (2, 2)}, {(1, 2), (2, 2)}, {(2, 2), (3, 1)}]
    for _ in range(2):
        answers = [soup.invoke(query).to_table().to_pylist() for query in ids]
        assert [{tuple(row.values()) for row in answer} for answer in answers] == expected
        soup.restart()
    table = soup.invoke_table(list(ids)).to_table().to_pylist()
    assert [{(r["k"], r["n"]) for r in table if r["_query"] == q} for q in range(3)] == expected
    soup.check()


def test_a_block_of_aggregates_is_columns_of_parameters_and_has_one_plan() -> None:
    text = "SELECT sym, count(*) AS n FROM trades WHERE qty = ? GROUP BY sym HAVING count(*) > 3"
    values = ParameterValues((pa.array(range(4_096)),))
    block, rows = gathered(bind_values(prepare(text, lookup), values))
    assert isinstance(block, BoundBlock) and rows == ()
    plain, _ = gathered(bind_values(prepare("SELECT sym FROM trades WHERE qty = ?", lookup), values))
    assert isinstance(plain, BoundBlock) and block.nbytes == plain.nbytes
    assert block[17].plan is block[4_095].plan is block.template.plan
    assert block[17] == bind(text.replace("?", "17"))
    ours, theirs = block.clauses(), plain.clauses()
    assert ours.count == theirs.count == 4_096 and (ours.terms[0].low.keys == theirs.terms[0].low.keys).all()
