"""Relations: set operations, subselects and constants as rows of the statement around them, beside DuckDB."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.execution.relations import table_rows
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.local import LocalPSoup
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TEXT
from psoup.plan.nodes import (
    Aggregate,
    Distinct,
    Limit,
    Measure,
    Node,
    OrderKey,
    Output,
    Project,
    SetOperator,
    Sort,
    Values,
)
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.hand_made_plans import HandMadePlans, all_of, relation, set_operation
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

DECLARED = "n BIGINT, x DOUBLE, t TEXT, d DECIMAL(9, 2), w TIMESTAMP, b BOOLEAN"
TYPES = (pa.int64(), pa.float64(), pa.string(), pa.decimal128(9, 2), pa.timestamp("us"), pa.bool_())
NAMES = ("n", "x", "t", "d", "w", "b")
POOLS: tuple[tuple[Any, ...], ...] = (
    (None, 0, 1, 2, -(2**63), 2**63 - 1),
    (None, 0.0, -0.0, 1.5, math.nan, math.inf),
    (None, "", "a", "b", "é" * 40),
    (None, Decimal("0.00"), Decimal("1.25"), Decimal("-9999999.99")),
    (None, datetime(2020, 1, 1), datetime(1970, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 1)),
    (None, True, False),
)
CONFIG = EngineConfig(chunk_rows=64)
Row = tuple[Any, ...]


def _drawn(draw: random.Random, rows: int) -> list[Row]:
    return [tuple([draw.choice(pool) for pool in POOLS]) for _ in range(rows)]


def _table(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(TYPES)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, TYPES, strict=True)]
    return pa.table(arrays, names=list(NAMES))


def _soup(streams: dict[str, Sequence[Row]]) -> LocalPSoup:
    soup = LocalPSoup(CONFIG, VirtualClock(100))
    for name, rows in streams.items():
        soup.execute(f"CREATE STREAM {name} ({DECLARED})")
        if rows:
            soup.push(name, _table(rows))
    return soup


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _rows(table: pa.Table) -> list[Row]:
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def _modelled(left: list[Row], right: list[Row], operator: SetOperator, *, all_rows: bool) -> list[Row]:
    """The rows of a set operation in the promised order: of equal rows the first remain."""
    if operator is SetOperator.UNION:
        rows = left + right
        return rows if all_rows else list(dict.fromkeys(rows))
    first, second = Counter(left), Counter(right)
    quota = first & second if operator is SetOperator.INTERSECT else first - second
    if not all_rows:
        quota = Counter(dict.fromkeys(quota if operator is SetOperator.INTERSECT else first.keys() - second, 1))
    rows = []
    for row in left:
        if quota[row]:
            quota[row] -= 1
            rows.append(row)
    return rows


@pytest.mark.parametrize("seed", swept(range(40), fast=3))
def test_set_operations_have_the_rows_of_duckdb_in_the_order_of_their_inputs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(table_rows, "CHUNK_ROWS", draw.choice((7, 64)))  # rows come in small pieces
    streams = {"r": _drawn(draw, draw.choice((0, 5, 90, 300))), "s": _drawn(draw, draw.choice((0, 7, 150)))}
    soup, database = _soup(streams), empty_database()
    plans = HandMadePlans(soup, ("r", "s"))
    for name, rows in streams.items():
        database.register(name, _table(rows))
    for operator in SetOperator:
        for all_rows in (False, True):
            names = draw.sample(NAMES, draw.choice((1, 1, 2, 3)))
            sides = [plans.select(place, *names) for place in (0, 1)]
            plan = all_of(relation(set_operation(sides[0], sides[1], operator, all_rows=all_rows)))
            answer_rows = _rows(again(plans.answer, plan).to_table())
            columns = ", ".join(names)
            sql = f"SELECT {columns} FROM r {operator.value}{' ALL' * all_rows} SELECT {columns} FROM s"
            expected = _rows(database.sql(sql).to_arrow_table())
            assert Counter(answer_rows) == Counter(expected), sql
            left, right = (_rows(_table(streams[name]).select(names)) for name in ("r", "s"))
            assert answer_rows == _modelled(left, right, operator, all_rows=all_rows), sql
    drop_database(database)


def _ref(kind: Any, at: int, name: str, place: int = 16) -> AttributeRef:
    return AttributeRef(kind, at, name, place)


ROWS = [(k % 5 if k % 7 else None, k / 4, f"t{k % 3}", None, None, k % 2 == 0) for k in range(200)]


@pytest.fixture(scope="module")
def plans() -> HandMadePlans:
    """Plans over r, with 200 rows, over the first 60 of them in s, and over the empty e."""
    return HandMadePlans(_soup({"r": ROWS, "s": ROWS[:60], "e": []}), ("r", "s", "e"))


def _told(plans: HandMadePlans, plan: Node) -> list[Row]:
    return _rows(again(plans.answer, plan).to_table())


def test_a_set_operation_may_be_sorted_cut_filtered_and_grouped(plans: HandMadePlans) -> None:
    both = set_operation(plans.select(0, "n", "t"), plans.select(1, "n", "t"), SetOperator.UNION, all_rows=True)
    leaf = relation(both, "u")
    n, t = _ref(BIGINT, 0, "n"), _ref(TEXT, 1, "t")
    rows = [row[:3:2] for row in ROWS] + [row[:3:2] for row in ROWS[:60]]
    ordered = Limit(Sort(all_of(leaf), (OrderKey(n, True), OrderKey(t))), 7, 2)
    by_key = sorted(rows, key=lambda row: (row[0] is None, -(row[0] or 0), row[1]))
    assert _told(plans, ordered) == by_key[2:9]
    assert _told(plans, Limit(all_of(leaf), 5, 198)) == rows[198:203]
    assert _told(plans, Limit(all_of(leaf), 0, 0)) == []
    assert _told(plans, Distinct(Project(leaf, (Output("t", t),)))) == [("t0",), ("t1",), ("t2",)]
    counted = Aggregate(leaf, (n,), (Measure("count", (), BIGINT), Measure("min", (t,), TEXT)))
    groups = Counter(row[0] for row in rows)
    expected = [(key, groups[key], "t0") for key in (0, 1, 2, 3, 4, None)]
    assert _told(plans, Project(counted, counted.schema)) == expected
    whole = Aggregate(leaf, (), (Measure("count", (), BIGINT),))
    assert _told(plans, Project(whole, whole.schema)) == [(260,)]


def test_set_operations_of_aggregates_and_of_set_operations_nest(plans: HandMadePlans) -> None:
    counted = Aggregate(plans.sources[0], (plans.column(0, "t"),), (Measure("count", (), BIGINT),))
    constants = Values(
        tuple([(Literal(TEXT, text), Literal(BIGINT, 1)) for text in ("t9", "t0", None)]), counted.schema
    )
    union = set_operation(Project(counted, counted.schema), constants, SetOperator.UNION)
    groups = [("t0", 67), ("t1", 67), ("t2", 66)]
    assert _told(plans, all_of(relation(union))) == [*groups, ("t9", 1), ("t0", 1), (None, 1)]
    less = set_operation(union, constants, SetOperator.EXCEPT)
    assert _told(plans, all_of(relation(less))) == groups
    assert _told(plans, less) == groups
    first = Limit(Sort(all_of(relation(union, "u")), (OrderKey(_ref(BIGINT, 1, "count(*)")),)), 2)
    assert _told(plans, all_of(relation(first, "v", 17))) == [("t9", 1), ("t0", 1)]
    none = set_operation(plans.select(2, "n"), plans.select(0, "n"), SetOperator.INTERSECT, all_rows=True)
    assert _told(plans, all_of(relation(none))) == []


def test_a_union_of_all_rows_holds_none_of_them_and_stops_at_a_limit(plans: HandMadePlans) -> None:
    nested: Node = plans.select(0, "n")
    for place in (1, 0, 1, 0, 1, 0, 1):
        nested = set_operation(nested, plans.select(place, "n"), SetOperator.UNION, all_rows=True)
    budget = ReadBudget(sort_bytes=0)
    answer = plans.answer(all_of(relation(nested)), budget, sort_rows=1)
    assert answer.to_table().num_rows == 4 * 260
    assert budget.wanted == 0
    failing = Project(plans.sources[1], (Output("n", _failing(plans.column(1, "n"))),))
    united = set_operation(plans.select(0, "n"), failing, SetOperator.UNION, all_rows=True)
    answer = plans.answer(Limit(all_of(relation(united)), 200))
    assert (answer.to_table().num_rows, answer.select_errors) == (200, 0), "the right is not read"


def _failing(column: Expr) -> Expr:
    """An expression that fails for 0."""
    return Call(BIGINT, "intdiv", (Literal(BIGINT, 1), column))


def test_failed_values_of_a_subselect_are_counted_once_and_are_null(plans: HandMadePlans) -> None:
    inner = Project(plans.sources[1], (Output("n", _failing(plans.column(1, "n"))),))
    zeros = sum(row[0] == 0 for row in ROWS[:60])
    leaf = relation(inner, "i")
    doubled = Call(BIGINT, "add", (_ref(BIGINT, 0, "n"), Literal(BIGINT, 1)))
    for plan in (
        all_of(leaf),
        Project(leaf, (Output("m", doubled),)),
        Sort(all_of(leaf), (OrderKey(_ref(BIGINT, 0, "n")),)),
        Distinct(all_of(leaf)),
        all_of(relation(set_operation(inner, plans.select(0, "n"), SetOperator.UNION))),
        all_of(relation(set_operation(plans.select(0, "n"), inner, SetOperator.EXCEPT, all_rows=True))),
    ):
        answer = plans.answer(plan)
        for _ in range(2):
            answer.to_table()
            assert answer.select_errors == zeros > 0, plan


@pytest.mark.parametrize(
    ("operator", "all_rows", "column", "name"),
    [
        (SetOperator.UNION, False, "x", "UNION"),
        (SetOperator.INTERSECT, True, "x", "INTERSECT ALL"),
        (SetOperator.EXCEPT, False, "x", "EXCEPT"),
        (SetOperator.EXCEPT, True, "t", "the left side of EXCEPT ALL"),
    ],
)
def test_rows_of_set_operations_are_bounded(
    plans: HandMadePlans, operator: SetOperator, all_rows: bool, column: str, name: str
) -> None:
    sides = plans.select(0, column), plans.select(1, column)
    plan = all_of(relation(set_operation(*sides, operator, all_rows=all_rows)))
    budget = ReadBudget()
    with pytest.raises(ResourceExhausted, match=rf"^{name} has .* one invocation may hold 100 \(sort_rows\)") as caught:
        plans.answer(plan, budget, sort_rows=100).to_table()
    assert (caught.value.reason, budget.held, budget.grouped, budget.joined) == ("SORT_BUDGET", 0, 0, 0)
    budget = ReadBudget(sort_bytes=5_000)
    with pytest.raises(ResourceExhausted, match=r"would hold .* 5,000 \(sort_mib\)") as caught:
        plans.answer(plan, budget).to_table()
    assert (caught.value.reason, budget.held) == ("SORT_BUDGET", 0)
    budget = ReadBudget()
    batches = plans.answer(plan, budget).batches(10)
    next(batches)
    assert budget.held > 0
    batches.close()
    assert budget.held == 0, "a reader that leaves gives back all bytes"


def test_kept_rows_of_a_subselect_are_bounded_and_named(plans: HandMadePlans) -> None:
    leaf = relation(plans.select(0, "x", "t"), "Old Trades")
    plan = Sort(all_of(leaf), (OrderKey(_ref(DOUBLE, 0, "x"), True),))
    budget = ReadBudget()
    with pytest.raises(ResourceExhausted, match=r"^ORDER BY or DISTINCT over .* the 100 .* \(sort_rows\)"):
        plans.answer(plan, budget, sort_rows=100).to_table()
    assert budget.held == 0
    budget = ReadBudget(sort_bytes=3_000)
    with pytest.raises(ResourceExhausted, match=r'^the subselect "Old Trades" would hold .* 3,000 \(sort_mib\)'):
        plans.answer(plan, budget).to_table()
    assert budget.held == 0
    assert plans.answer(plan, ReadBudget(sort_bytes=40_000)).to_table().num_rows == 200, "in small pieces"


@pytest.mark.parametrize("size", swept([7, 64], fast=(1,)))
def test_a_sort_with_a_limit_keeps_only_rows_that_it_may_show(
    plans: HandMadePlans, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "CHUNK_ROWS", size)
    both = set_operation(
        plans.select(0, "n", "t", "x"), plans.select(1, "n", "t", "x"), SetOperator.UNION, all_rows=True
    )
    leaf = relation(both, "u")
    n, t, x = _ref(BIGINT, 0, "n"), _ref(TEXT, 1, "t"), _ref(DOUBLE, 2, "x")
    distinct = Distinct(Project(leaf, (Output("t", t), Output("n", n))))
    for plan in (
        Limit(Sort(all_of(leaf), (OrderKey(x, True), OrderKey(t))), 5, 3),
        Limit(Sort(Project(leaf, (Output("t", t),)), (OrderKey(n), OrderKey(x))), 20),
        distinct,
        Sort(distinct, (OrderKey(n, True), OrderKey(t))),
        Limit(distinct, 4),
        Limit(Sort(all_of(leaf), (OrderKey(n),)), 0),
    ):
        expected = again(plans.answer, plan).to_table()
        for config in ({"sort_rows": 40}, {"sort_rows": 90}):
            assert plans.answer(plan, **config).to_table().equals(expected), plan
        budget = ReadBudget(sort_bytes=12_000)
        assert plans.answer(plan, budget).to_table().equals(expected), plan
        assert budget.held == 0


def test_constants_keep_their_types_and_nulls(plans: HandMadePlans) -> None:
    kinds = (BIGINT, DOUBLE, TEXT, BOOLEAN)
    rows: tuple[Row, ...] = ((1, 0.5, "é", True), (None, None, None, None), (-(2**63), math.nan, "", False))
    cells = tuple([tuple([Literal(kind, value) for kind, value in zip(kinds, row, strict=True)]) for row in rows])
    outputs = tuple([Output(f"c{at}", _ref(kind, at, f"c{at}", -3)) for at, kind in enumerate(kinds)])
    values = Values(cells, outputs)
    assert _told(plans, all_of(relation(values, "v"))) == [tuple(map(_plain, row)) for row in rows]
    assert _told(plans, all_of(relation(Values((), outputs), "v"))) == []
    assert _told(plans, Limit(all_of(relation(values, "v")), 1, 1)) == [(None,) * 4]
