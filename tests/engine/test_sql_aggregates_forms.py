"""Templates and forms of statements with aggregates: constants of WHERE alone are parameters, and plans are shared."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from psoup.errors import NotSupported
from psoup.plan.nodes import plan_text
from psoup.sql import prepare
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.forms import Forms, form_of, in_order
from psoup.sql.templates.ladder import Values, bind_values, gathered
from psoup_testing.trading import bind, lookup


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


@pytest.mark.parametrize("part", ["HAVING count(*) > ?", "HAVING sum(qty) > $n", "ORDER BY max(qty) + ?"])
def test_parameters_stand_in_where_alone(part: str) -> None:
    with pytest.raises(NotSupported, match="a parameter outside WHERE is not supported"):
        prepare(f"SELECT sym FROM trades GROUP BY sym {part}", lookup)
    with pytest.raises(NotSupported, match="a parameter outside WHERE is not supported"):
        prepare("SELECT sum(qty) FILTER (WHERE rate > ?) FROM trades WHERE qty > ?", lookup)


def test_a_block_of_aggregates_is_columns_of_parameters_and_has_one_plan() -> None:
    text = "SELECT sym, count(*) AS n FROM trades WHERE qty = ? GROUP BY sym HAVING count(*) > 3"
    values = Values((pa.array(range(4_096)),))
    block, rows = gathered(bind_values(prepare(text, lookup), values))
    assert isinstance(block, BoundBlock) and rows == ()
    plain, _ = gathered(bind_values(prepare("SELECT sym FROM trades WHERE qty = ?", lookup), values))
    assert isinstance(plain, BoundBlock) and block.nbytes == plain.nbytes
    assert block[17].plan is block[4_095].plan is block.template.plan
    assert block[17] == bind(text.replace("?", "17"))
    ours, theirs = block.clauses(), plain.clauses()
    assert ours.count == theirs.count == 4_096 and (ours.terms[0].low.keys == theirs.terms[0].low.keys).all()
