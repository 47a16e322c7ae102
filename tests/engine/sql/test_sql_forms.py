"""A statement of a known form is the same query, and is refused with the same words, as one that is parsed."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import pytest

from psoup.errors import PSoupError
from psoup.model import Schema, StreamSpec
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, standing_query
from psoup.sql.templates.forms import Forms, form_of, in_order
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import BASE, draw_declaration, draw_pools
from psoup_testing.histories.queries import draw_query, with_other_constants
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import in_parts, swept

SPEC = create_stream(
    "CREATE STREAM s (sym TEXT, qty BIGINT, price DOUBLE, amount DECIMAL(10,2), at TIMESTAMP, ok BOOLEAN)"
)
SPECS = {"s": SPEC}


def lookup(name: str) -> StreamSpec | None:
    return SPECS.get(name.lower())


def outcome(read: Any, text: str, find: Any = lookup) -> StandingQuery | tuple[object, ...]:
    """The query, or all that is said of the refusal."""
    try:
        return read(text, find, ("s",))  # type: ignore[no-any-return]
    except PSoupError as problem:
        return type(problem), str(problem), problem.reason, problem.facts


def test_forms_change_no_query_and_no_message() -> None:
    budget = Budget("forms", cases=48)
    bound = 0

    def case(draw: Any) -> int:
        nonlocal bound
        make = Maker(draw, Scope(Schema(()), ()), 2)
        declaration = draw_declaration(make)
        pools = draw_pools(make, declaration)
        make = Maker(draw, Scope(declaration.schema, pools), 2)
        spec = create_stream(declaration.sql())
        text = draw_query(make, declaration.name, BASE, 400).sql()
        source, forms = random.Random(make.number(0, 10**6)), Forms()
        for round_ in range(6):
            own = text if round_ < 3 else with_other_constants(source, text)
            assert outcome(forms.query, own, lambda _: spec) == outcome(standing_query, own, lambda _: spec), own
        bound += any(template is not None for template in forms._templates.values())
        return 1

    run_cases(budget, case)
    assert bound >= max(1, budget.cases // 20), f"{bound} statements had a template"


@pytest.mark.parametrize(
    ("text", "form", "values"),
    [
        ("SELECT * FROM s WHERE sym = 'it''s' AND qty > -7", "sym = ? AND qty > ?", ("it's", -7)),
        ("SELECT * FROM s WHERE qty BETWEEN 1 AND 2 OR 3 < qty", "qty BETWEEN ? AND ? OR ? < qty", (1, 2, 3)),
        ("SELECT * FROM s WHERE qty IN (1, 2) LIMIT 3", "qty IN (?, ?) LIMIT 3", (1, 2)),
        ("SELECT * FROM s WHERE qty IN (1, 2, 3)", "qty IN (?, ?, ?)", (1, 2, 3)),
        ("SELECT * FROM s WHERE qty > 1 BEGIN (NOW - 60)", "qty > ? BEGIN (NOW - 60)", (1,)),
        (
            "SELECT * FROM s WHERE at > TIMESTAMP '2020-01-01' AND qty = 1",
            "at > TIMESTAMP '2020-01-01' AND qty = ?",
            (1,),
        ),
        ("SELECT * FROM s WHERE sym LIKE 'a%' AND \"qty\" = 2", 'sym LIKE ? AND "qty" = ?', ("a%", 2)),
        ("SELECT * FROM s WHERE sym LIKE '%a' ESCAPE '!'", "sym LIKE ? ESCAPE '!'", ("%a",)),
        ("SELECT * FROM s WHERE qty - 5 > 1e3 AND qty = 5x", None, ()),
        ("SELECT * FROM s WHERE qty = 1 -- so", None, ()),
        ("SELECT * FROM s WHERE qty = ? AND qty = 1", None, ()),
        ("SELECT 1 FROM s", None, ()),
    ],
)
def test_constants_of_where_are_what_a_form_leaves_open(
    text: str, form: str | None, values: tuple[object, ...]
) -> None:
    found = form_of(text)
    assert found == (None if form is None else (f"SELECT * FROM s WHERE {form}", values))


def test_a_form_has_a_template_from_the_second_time_on(monkeypatch: pytest.MonkeyPatch) -> None:
    forms, parsed = Forms(), list[str]()

    def read(text: str, *more: Any) -> StandingQuery:
        parsed.append(text)
        return standing_query(text, *more)

    monkeypatch.setattr("psoup.sql.templates.forms.standing_query", read)
    texts = [f"SELECT qty FROM s WHERE sym = 'S{k}' AND qty > {k} AND amount < {k}.5 LIMIT 3" for k in range(20)]
    assert [forms.query(text, lookup) for text in texts] == [standing_query(text, lookup) for text in texts]
    assert parsed == texts[:1]
    forms.query("SELECT qty FROM s WHERE sym = 'S1' AND qty > 01 AND amount < 1.5 LIMIT 3", lookup)
    assert len(parsed) == 2, "what a value is not written as is read by the parser"


def test_patterns_of_like_are_constants_of_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 queries `n LIKE '%word%'` with a word each took 25 s to register: each of them was parsed."""
    forms, parsed = Forms(), list[str]()

    def read(text: str, *more: Any) -> StandingQuery:
        parsed.append(text)
        return standing_query(text, *more)

    monkeypatch.setattr("psoup.sql.templates.forms.standing_query", read)
    patterns = ["%foo%", "%foo", "foo%", "foo", "%", "", "%f_o%", "_", "it''s %", "%é%o", "%" + "ab%" * 30]
    wheres = ["sym LIKE '{0}'", "sym LIKE '{0}' AND qty = 5", "sym NOT LIKE '{0}'", "sym > 'f' AND sym LIKE '{0}'"]
    wheres += [
        "sym LIKE '{0}' AND sym LIKE '{1}'",
        "qty > 3 OR sym LIKE '{0}'",
        "lower(sym) LIKE '{0}' AND sym LIKE '%x%'",
    ]
    for where in wheres:
        for filled in dict.fromkeys(where.format(*both) for both in itertools.product(patterns, patterns)):
            text = f"SELECT qty FROM s WHERE {filled}"
            assert forms.query(text, lookup) == standing_query(text, lookup), text
    assert len(parsed) == len(wheres)
    for wrong in ("qty LIKE '{0}'", "sym LIKE '{0}' ESCAPE 'o'", "sym LIKE '{0}'"):
        for pattern in [*patterns, "%_" + "x" * 1_000]:
            text = f"SELECT qty FROM s WHERE {wrong.format(pattern)}"
            assert outcome(forms.query, text) == outcome(standing_query, text)


def test_a_form_is_made_anew_for_another_stream_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = Forms()
    for kind, value in (("BIGINT", "1"), ("TEXT", "'1'")):
        monkeypatch.setitem(SPECS, "passing", create_stream(f"CREATE STREAM passing (x {kind})"))
        for _ in range(3):
            text = f"SELECT * FROM passing WHERE x = {value}"
            assert forms.query(text, lookup) == standing_query(text, lookup)
    monkeypatch.delitem(SPECS, "passing")
    assert outcome(forms.query, text) == outcome(standing_query, text)


def test_forms_are_few_and_long_statements_have_none() -> None:
    forms = Forms()
    for k in range(600):
        forms.query(f"SELECT qty AS a{k} FROM s WHERE qty > 1", lookup)
    assert len(forms._templates) <= 256
    assert form_of("SELECT * FROM s WHERE sym = '" + "x" * 5_000 + "'") is None
    hostile = "SELECT * FROM s WHERE " + "sym = '" * 500 + "(" * 300 + "= " * 300
    started = time.process_time()
    assert form_of(hostile) is None or outcome(forms.query, hostile) == outcome(standing_query, hostile)
    assert time.process_time() - started < 10


def test_forms_have_few_characters_together() -> None:
    forms = Forms()
    for number in range(32):
        terms = " OR ".join(f"qty + {number} = 1" for _ in range(180))
        forms.query(f"SELECT qty FROM s WHERE {terms}", lookup)
    assert len(forms._templates) < 30
    assert forms._characters == sum(map(len, forms._templates)) <= 65_536


@in_parts(4)
def test_one_template_serves_comparisons_in_any_order(part: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    forms, parsed = Forms(), list[str]()

    def read(text: str, *more: Any) -> StandingQuery:
        parsed.append(text)
        return standing_query(text, *more)

    monkeypatch.setattr("psoup.sql.templates.forms.standing_query", read)
    parts = ["sym = 'it''s AND'", "qty BETWEEN -3 AND 7", "amount < 1.5", '"qty" <> 4', "sym >= 'a'"]
    for order in list(itertools.permutations(parts))[part]:
        text = f"SELECT qty FROM s WHERE {' AND '.join(order)} ORDER BY qty LIMIT 3 BEGIN (NOW - 60)"
        assert forms.query(text, lookup) == standing_query(text, lookup)
    assert len(parsed) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s WHERE sym = 'b' AND qty = 1 OR qty = 2",
        "SELECT * FROM s WHERE sym = 'b' AND qty = 1 + 2",
        "SELECT * FROM s WHERE NOT sym = 'b' AND qty = 1",
        "SELECT * FROM s WHERE sym = 'b' AND (qty = 1 AND amount = 2)",
        "SELECT * FROM s WHERE sym = 'b' AND amount = 1e3",
        "SELECT ' WHERE sym = 1 AND qty = 2 LIMIT 3' AS x FROM s",
        r"SELECT * FROM s WHERE sym = E'b\' AND a = ' AND qty = 1",
        "SELECT * FROM s WHERE sym = $$b$$ AND qty = 1",
        "SELECT * FROM s WHERE sym = 'b' AND qty = 1 AND",
        "SELECT * FROM s WHERE",
    ],
)
def test_other_conditions_stay_in_their_order(text: str) -> None:
    assert in_order(text) == text


JOINS = [
    "SELECT x.sym FROM s x, s y WHERE x.qty = y.qty AND x.price > {} AND y.sym = {} AND x.qty BETWEEN {} AND 9",
    "SELECT x.sym FROM s x [ROWS 5], s y WHERE x.ok = y.ok AND x.qty < {} AND x.amount = {} AND y.qty IN ({}, 3)",
    "SELECT count(*) FROM s x JOIN s y USING (sym) WHERE y.qty > {} AND (x.ok OR x.qty = {}) AND x.price <> {}",
]


@pytest.mark.parametrize("join", swept(JOINS, fast=1))
def test_sides_of_joins_are_told_by_their_forms(join: str) -> None:
    forms, source, values = Forms(), random.Random(len(join)), ("1", "-7", "2.5", "'it''s'", str(2**70), "NULL", "1e3")
    bound = 0
    for _ in range(60):
        text = join.format(*source.choices(values, k=3))
        query = outcome(forms.query, text)
        assert query == outcome(standing_query, text), text
        bound += isinstance(query, StandingQuery)
    assert bound > 1
    assert any(entry is not None and " x" in form for form, entry in forms._templates.items())
