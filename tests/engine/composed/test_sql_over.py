"""OVER, QUALIFY, WINDOW and DISTINCT ON: what a statement is bound to, and what is refused by name."""

from __future__ import annotations

import pytest

from psoup.plan.nodes import Distinct, Filter, Over, Project, Sort, plan_text, walk
from psoup.plan.patterns import Pattern
from psoup.plan.updates import updates_of
from psoup_testing.histories.trades import bind, refusal

FUNCTIONS = [
    ("row_number() OVER ()", "row_number() OVER ()", "BIGINT"),
    (
        "ROW_NUMBER() OVER (PARTITION BY Sym ORDER BY Price DESC)",
        "row_number() OVER (PARTITION BY sym ORDER BY price DESC)",
        "BIGINT",
    ),
    ("rank() OVER (ORDER BY qty NULLS FIRST)", "rank() OVER (ORDER BY qty NULLS FIRST)", "BIGINT"),
    ("percent_rank() OVER (ORDER BY 1)", "percent_rank() OVER ()", "DOUBLE"),
    ("ntile(4) OVER ()", "ntile(4) OVER ()", "BIGINT"),
    ("lag(sym) OVER (ORDER BY at)", "lag(sym) OVER (ORDER BY at)", "TEXT"),
    ("lead(qty, 2, 1.0) OVER (ORDER BY at)", "lead(qty, 2, 1) OVER (ORDER BY at)", "BIGINT"),
    (
        "first_value(day) OVER (ORDER BY at ROWS 3 PRECEDING)",
        "first_value(day) OVER (ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
        "DATE",
    ),
    ("last_value(qty IGNORE NULLS) OVER ()", "last_value(qty IGNORE NULLS) OVER ()", "BIGINT"),
    ("sum(qty) OVER (PARTITION BY sym)", "sum(qty) OVER (PARTITION BY sym)", "DECIMAL(38,0)"),
    ("sum(qty) FILTER (WHERE bought) OVER ()", "sum(qty) FILTER (WHERE bought) OVER ()", "DECIMAL(38,0)"),
    ("avg(rate) OVER (ORDER BY at RANGE UNBOUNDED PRECEDING)", "avg(rate) OVER (ORDER BY at)", "DOUBLE"),
    (
        "max(at) OVER (ROWS UNBOUNDED PRECEDING)",
        "max(at) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "TIMESTAMP",
    ),
    ("bool_and(bought) OVER (RANGE CURRENT ROW)", "min(bought) OVER ()", "BOOLEAN"),
    (
        "median(qty) OVER (PARTITION BY sym)",
        "quantile_cont(CAST(qty AS DOUBLE), 0.5) OVER (PARTITION BY sym)",
        "DOUBLE",
    ),
    ("count(DISTINCT sym) OVER ()", "count(DISTINCT sym) OVER ()", "BIGINT"),
]


@pytest.mark.parametrize(("call", "text", "kind"), FUNCTIONS)
def test_each_function_has_its_text_and_type(call: str, text: str, kind: str) -> None:
    plan = bind(f"SELECT {call} AS x FROM trades").plan
    assert isinstance(plan, Project) and isinstance(plan.input, Over)
    (function,) = plan.input.functions
    assert (function.text(), str(function.call.type), str(plan.outputs[0].type)) == (text, kind, kind)
    assert plan.outputs[0].expr == plan.input.columns[0]


def test_the_plan_has_the_functions_above_groups_and_below_distinct() -> None:
    query = bind(
        "SELECT DISTINCT sym, rank() OVER (ORDER BY sum(qty) DESC) AS r FROM trades GROUP BY sym HAVING count(*) > 1"
        " QUALIFY r <= 3 ORDER BY r"
    )
    kinds = [type(node).__name__ for _, node in walk(query.plan)]
    assert kinds == ["Sort", "Distinct", "Project", "Filter", "Over", "Having", "Aggregate", "Source"]
    assert "Over rank() OVER (ORDER BY sum(qty) DESC)" in plan_text(query.plan)
    assert updates_of(query.plan).pattern is Pattern.STRICT


def test_equal_functions_are_one_column_and_windows_have_names() -> None:
    query = bind(
        "SELECT sum(qty) OVER w AS a, sum(QTY) OVER (PARTITION BY sym ORDER BY at) + 1 AS b, lag(qty) OVER (u) AS c"
        " FROM trades WINDOW u AS (PARTITION BY sym), w AS (u ORDER BY at)"
    )
    (over,) = [node for _, node in walk(query.plan) if isinstance(node, Over)]
    assert [function.text() for function in over.functions] == [
        "sum(qty) OVER (PARTITION BY sym ORDER BY at)",
        "lag(qty) OVER (PARTITION BY sym)",
    ]


def test_distinct_on_numbers_the_rows_of_each_key() -> None:
    query = bind("SELECT DISTINCT ON (sym) sym, row_number() OVER () AS n FROM trades ORDER BY at DESC")
    sort = query.plan
    assert isinstance(sort, Sort) and isinstance(sort.input, Project) and isinstance(sort.input.input, Filter)
    first, below = sort.input.input.input, sort.input.input.input.inputs[0]
    assert isinstance(first, Over) and isinstance(below, Over)
    assert (first.first, first.functions[0].text()) == (1, "row_number() OVER (PARTITION BY sym ORDER BY at DESC)")
    assert not any(isinstance(node, Distinct) for _, node in walk(query.plan))


REFUSED = [
    (
        "SELECT sym FROM trades WHERE row_number() OVER () = 1",
        "a window function in WHERE or ON is not supported",
        "QUALIFY",
    ),
    ("SELECT sym FROM trades GROUP BY rank() OVER ()", "a window function in GROUP BY is not supported", "groups"),
    ("SELECT rank() OVER () AS r FROM trades GROUP BY r", "a window function in GROUP BY is not supported", "groups"),
    ("SELECT sym FROM trades GROUP BY sym HAVING rank() OVER () > 1", "a window function in HAVING is not", "QUALIFY"),
    ("SELECT sym, rank() OVER () AS r FROM trades GROUP BY sym HAVING r > 1", "in HAVING is not supported", "QUALIFY"),
    ("SELECT sum(rank() OVER ()) FROM trades", "a window function in an aggregate is not supported", "subselect"),
    ("SELECT count(*) FILTER (WHERE rank() OVER () = 1) FROM trades", "a window function in FILTER is not", "QUALIFY"),
    (
        "SELECT lag(rank() OVER ()) OVER () FROM trades",
        "a window function inside another is not supported",
        "subselect",
    ),
    ("SELECT qty FROM trades QUALIFY qty > 1", "QUALIFY needs a window function", "WHERE"),
    ("SELECT row_number() FROM trades", "row_number needs OVER", "OVER (PARTITION BY k ORDER BY t)"),
    ("SELECT upper(sym) OVER () FROM trades", "'upper' is neither a window function nor an aggregate", ""),
    ("SELECT rnk() OVER () FROM trades", "'rnk' is neither", "rank"),
    ("SELECT mode(qty) OVER () FROM trades", "the aggregate or window function mode is not supported", "GROUP BY"),
    ("SELECT sum(qty) OVER (ROWS BETWEEN 1 PRECEDING) FROM trades", "a frame with BETWEEN needs AND", ""),
    ("SELECT sum(qty) OVER (PARTITION BY sym ORDER at) FROM trades", ") is missing before 'ORDER'", ""),
    ("SELECT DISTINCT ON sym sym FROM trades", "DISTINCT ON needs its keys in parentheses", "DISTINCT ON (k)"),
    ("SELECT rank(qty) OVER () FROM trades", "rank takes no arguments, not 1", ""),
    ("SELECT lag() OVER () FROM trades", "lag takes 1 to 3 arguments, not 0", ""),
    ("SELECT nth_value(qty) OVER () FROM trades", "nth_value takes 2 arguments, not 1", ""),
    ("SELECT ntile(0) OVER () FROM trades", "the number of ntile is at least 1, not 0", ""),
    ("SELECT lag(qty, qty) OVER () FROM trades", "the offset of lag must be a constant whole number", "offset"),
    ("SELECT lag(qty, 1, 'x') OVER () FROM trades", "'x'", ""),
    ("SELECT rank() FILTER (WHERE bought) OVER () FROM trades", "FILTER belongs to an aggregate, not to rank", "WHERE"),
    ("SELECT sum(qty IGNORE NULLS) OVER () FROM trades", "IGNORE NULLS", ""),
    ("SELECT stddev(qty) OVER (ORDER BY at) FROM trades", "stddev over a part of a partition is not", "ORDER BY"),
    ("SELECT count(DISTINCT qty) OVER (ORDER BY at) FROM trades", "DISTINCT in count over a part", "ORDER BY"),
    (
        "SELECT sum(qty) OVER (ORDER BY at RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW) FROM trades",
        "a distance of months in RANGE is not supported",
        "days",
    ),
    ("SELECT sum(qty) OVER (ORDER BY at GROUPS 1 PRECEDING) FROM trades", "GROUPS in a frame is not supported", "ROWS"),
    ("SELECT sum(qty) OVER (ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM trades", "EXCLUDE in a frame", "ROWS"),
    ("SELECT sum(qty) OVER (ROWS qty PRECEDING) FROM trades", "the end of a frame is a constant whole number", "ROWS"),
    ("SELECT sum(qty) OVER (ROWS -1 PRECEDING) FROM trades", "the end of a frame is a constant whole number", "ROWS"),
    ("SELECT sum(qty) OVER (ROWS UNBOUNDED FOLLOWING) FROM trades", "cannot begin at UNBOUNDED FOLLOWING", ""),
    (
        "SELECT sum(qty) OVER (ROWS BETWEEN 1 PRECEDING AND UNBOUNDED PRECEDING) FROM trades",
        "cannot end at UNBOUNDED",
        "",
    ),
    ("SELECT rank() OVER w FROM trades", "there is no window 'w'", "WINDOW w AS"),
    ("SELECT rank() OVER w FROM trades WINDOW w AS (w)", "the window 'w' refers to itself", ""),
    ("SELECT rank() OVER w FROM trades WINDOW w AS (), W AS ()", "two windows are called 'W'", "rename"),
    ("SELECT rank() OVER (w PARTITION BY sym) FROM trades WINDOW w AS ()", "keeps its PARTITION BY", ""),
    ("SELECT rank() OVER (w ORDER BY at) FROM trades WINDOW w AS (ORDER BY qty)", "has its own ORDER BY", ""),
    ("SELECT sum(qty) OVER (PARTITION BY price) FROM trades GROUP BY sym", "'qty' is neither grouped nor", "GROUP BY"),
    ("SELECT rank() OVER (ORDER BY now()) FROM trades", "NOW in a window function is not supported", "BEGIN"),
    ("SELECT rank() OVER (PARTITION BY nosuch) FROM trades", "has no column 'nosuch'", ""),
    ("SELECT DISTINCT ON () sym FROM trades", "", ""),
    ("SELECT DISTINCT ON (nosuch) sym FROM trades", "has no column 'nosuch'", ""),
    (
        f"SELECT {', '.join(f'lag(qty, {n}) OVER () AS l{n}' for n in range(101))} FROM trades",
        "at most 100 window functions",
        "several",
    ),
]


@pytest.mark.parametrize(("sql", "message", "hint"), REFUSED)
def test_the_refusal_names_the_fault_and_the_way_out(sql: str, message: str, hint: str) -> None:
    problem = refusal(sql)
    assert message in str(problem) and hint in problem.hint
