"""The oracle itself: DuckDB's answers held against loops of Python, and the generator against DuckDB."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Attribute, Schema, decimal
from psoup_testing.histories.expressions import Expression, Maker, Scope, column, literal
from psoup_testing.histories.histories import BASE, MAX_AHEAD, Advance, Heartbeat, Push, draw_history
from psoup_testing.histories.predicates import FACTORS, Leaf, Negation, condition, leaf_of
from psoup_testing.histories.queries import Key, Query
from psoup_testing.histories.values import YEAR_1, YEAR_9999, arrow_array, plain_values
from psoup_testing.histories.windows import NOW, SECOND, START, Edge, Window
from psoup_testing.oracles.duckdb_answers import Oracle, difference
from psoup_testing.oracles.model import Declaration, ModelStream, Refusal, described
from psoup_testing.suite.budget import BUDGETS, SEED, Budget, run_cases, run_round
from psoup_testing.suite.sweeps import swept

SCHEMA = Schema((Attribute("n", BIGINT), Attribute("x", DOUBLE), Attribute("t", TEXT)))
N, X, T = (column(a.name, a.type) for a in SCHEMA.attributes)
ROWS = [(1, 0.5, "b"), (2, math.nan, "a"), (None, -0.0, None), (2, 0.0, "é"), (2**63 - 1, math.inf, "a")]


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    made = Oracle(SCHEMA)
    made.load(ROWS, [BASE + i for i in range(len(ROWS))])
    yield made
    made.close()


def ask(oracle: Oracle, **parts: object) -> list[object]:
    query = Query("s", (N, X, T), **{"outputs": (N,), **parts})  # type: ignore[arg-type]
    return [row[0] for row in oracle.answer(query, 0, len(ROWS))]


def test_rows_come_in_stream_order_and_limit_takes_the_first(oracle: Oracle) -> None:
    assert ask(oracle) == [1, 2, None, 2, 2**63 - 1]
    assert ask(oracle, limit=2) == [1, 2]


def test_nan_is_greatest_and_nulls_come_last(oracle: Oracle) -> None:
    ordered = ask(oracle, outputs=(X,), order=(Key(X, descending=True),))
    assert difference([(math.nan,), (math.inf,), (0.5,), (0.0,), (0.0,)], [(v,) for v in ordered]) is None  # type: ignore[misc]
    assert ask(oracle, order=(Key(N, descending=True),)) == [2**63 - 1, 2, 2, 1, None]


def test_equal_keys_keep_stream_order(oracle: Oracle) -> None:
    assert ask(oracle, outputs=(T,), order=(Key(N),)) == ["b", "a", "é", "a", None]


def test_distinct_keeps_the_first_of_equal_rows(oracle: Oracle) -> None:
    assert ask(oracle, distinct=True) == [1, 2, None, 2**63 - 1]
    assert ask(oracle, outputs=(T,), distinct=True, limit=3) == ["b", "a", None]


def test_an_error_in_a_leaf_is_unknown_also_under_not(oracle: Oracle) -> None:
    overflow = Leaf(
        "arithmetic", BIGINT.kind, condition("({0} + {1}) > {2}", N, literal(BIGINT, 1), literal(BIGINT, 2))
    )
    assert ask(oracle, where=overflow) == [2, 2]
    assert ask(oracle, where=Negation(overflow)) == [1]


def test_an_error_in_the_select_list_is_null(oracle: Oracle) -> None:
    assert ask(oracle, outputs=(Expression(BIGINT, "({0} + {1})", (N, literal(BIGINT, 1))),)) == [2, 3, None, 3, None]


def test_differences_are_seen() -> None:
    assert difference([(1,), (1,)], [(1,), (1,)]) is None
    assert "missing 1" in str(difference([(1,), (1,)], [(1,)]))
    assert "other order" in str(difference([(1,), (2,)], [(2,), (1,)]))
    assert difference([(1,)], [(1.0,)]) is not None
    assert difference([(math.nan, -0.0)], [(float("nan"), 0.0)]) is None
    assert difference([(Decimal("1.50"),)], [(Decimal("1.5"),)]) is None


@pytest.mark.parametrize("data_type", [BOOLEAN, BIGINT, DOUBLE, TEXT, TIMESTAMP, DATE, decimal(5, 2)], ids=str)
def test_values_survive_arrow(data_type: object) -> None:
    samples = {
        BOOLEAN: [True, False, None],
        BIGINT: [2**63 - 1, -(2**63), None],
        DOUBLE: [0.1, -math.inf, None],
        TEXT: ["", "é😀", None],
        TIMESTAMP: [YEAR_1, YEAR_9999, None],
        DATE: [-719_162, 2_932_896, None],
        decimal(5, 2): [Decimal("999.99"), Decimal("-0.01"), None],
    }
    column_values = samples[data_type]  # type: ignore[index]
    assert plain_values(arrow_array(data_type, column_values)) == column_values  # type: ignore[arg-type]


def test_the_model_releases_in_stream_order_and_counts_what_it_refuses() -> None:
    declaration = Declaration("s", Schema((Attribute("ts", TIMESTAMP),)), 0, lateness=5)
    stream = ModelStream(declaration, MAX_AHEAD)
    #           5 4         10            late: below 10 - 5
    assert stream.push([(BASE + 5 * SECOND,), (BASE + 4 * SECOND,), (BASE + 10 * SECOND,)], BASE) == (3, 0, 0)
    assert [e[0] - BASE for e in stream.released()] == [4 * SECOND, 5 * SECOND]
    assert stream.push([(BASE,), (BASE + 5 * SECOND,), (BASE + 2 * MAX_AHEAD,)], BASE) == (1, 1, 1)
    assert len(stream.released()) == 3, described(stream.released())
    stream.heartbeat(BASE + 10 * SECOND, BASE)
    assert len(stream.released()) == 4


def test_the_model_cuts_windows() -> None:
    #   times   0 10 20 30 40        NOW = 40, retention edge 15
    declaration = Declaration("s", Schema((Attribute("ts", TIMESTAMP),)), 0, keep_seconds=25)
    stream = ModelStream(declaration, MAX_AHEAD)
    stream.push([(BASE + s * SECOND,) for s in (0, 10, 20, 30, 40)], BASE)

    def cut(begin: Edge, end: Edge, accept: bool = False, as_of: int | None = None) -> tuple[int, int, bool]:
        found = stream.range(Window(begin, end), BASE, as_of, accept)
        return found.first, found.stop, found.truncated

    assert cut(START, NOW) == (2, 5, False)
    assert cut(Edge("now", 10 * SECOND), NOW) == (3, 5, False)
    assert cut(START, NOW, as_of=BASE + 25 * SECOND) == (2, 3, False)
    assert cut(Edge("rows", 3), Edge("rows", 1)) == (2, 4, False)
    assert cut(Edge("at", BASE), NOW, accept=True) == (2, 5, True)
    with pytest.raises(Refusal, match="OutOfRange"):
        cut(Edge("rows", 4), NOW)


@pytest.mark.parametrize("cases", swept([12, 30], fast=1))
def test_generated_types_are_what_duckdb_says(cases: int) -> None:
    """Each expression's declared type, which PSoup must share, is DuckDB's own; every query is one it can answer."""
    budget = Budget("generator against DuckDB", cases=cases)

    def case(draw: object) -> int:
        history = draw_history(draw, events=4)
        schema = history.declaration.schema
        oracle = Oracle(schema)
        stream = ModelStream(history.declaration, MAX_AHEAD)
        clock = BASE
        for action in history.actions:
            clock += action.seconds * SECOND if isinstance(action, Advance) else 0
            if isinstance(action, Push):
                stream.push(list(action.rows), clock)
            elif isinstance(action, Heartbeat) and history.declaration.time_column is not None:
                stream.heartbeat(action.time, clock)
        released = stream.released()
        oracle.load([entry[3] for entry in released], [entry[0] for entry in released])
        make = Maker(draw, Scope(schema, history.pools), 3)  # type: ignore[arg-type]
        for attribute in schema.attributes:
            drawn = make.of(attribute.type)
            assert oracle.type_of(drawn) in ("", _duck_name(drawn)), drawn.duck_sql()
            oracle.value_of(drawn)
            for factor, (kinds, _) in FACTORS.items():
                if attribute.type.kind in kinds:
                    leaf = leaf_of(make, factor, column(attribute.name, attribute.type))
                    oracle.matching(Query("s", (), where=leaf), 0, len(released))
        oracle.close()
        return 1

    run_cases(budget, case)


def _duck_name(expression: Expression) -> str:
    return "VARCHAR" if expression.type == TEXT else str(expression.type)


class Cases:
    """Cases that compare two things each, and the budget for them."""

    def __init__(self, cases: int) -> None:
        self.done = 0
        self.budget = Budget("test", cases)
        BUDGETS.remove(self.budget)
        self.budget.cases = cases  # whatever the scale

    def run(self, draw: Any) -> int:
        draw(st.integers())
        self.done += 1
        return 2


@pytest.mark.parametrize(("cases", "rounds"), [(0, 0), (3, 2), (4, 2)])
def test_a_budget_ends_when_its_cases_are_done(cases: int, rounds: int) -> None:
    found = Cases(cases)
    seeds = []
    for number in found.budget.rounds():
        found.budget.count(found.run(lambda _: None))
        seeds.append(number)
    assert seeds == list(range(SEED, SEED + rounds))


@pytest.mark.parametrize(("cases", "done"), [(0, 0), (3, 2), (50, 25)])
def test_what_compares_much_ends_inside_a_round(cases: int, done: int) -> None:
    found = Cases(cases)
    run_cases(found.budget, found.run, examples=10)
    assert found.done == done
    assert found.budget.done == 2 * done


def test_a_seed_has_the_same_cases_whatever_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> list[int]:
        found: list[int] = []
        run_round(7, lambda draw: found.append(draw(st.integers(0, 1 << 40))) or 1, examples=100)
        return found

    before = drawn()
    (tmp_path / "numbers_of_a_module.py").write_text(
        "\n".join(f"n{number} = {number << 20}" for number in range(1, 1_000))
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("numbers_of_a_module")
    assert drawn() == before


def test_a_failure_in_a_round_is_not_taken_for_its_end() -> None:
    cases = Cases(18)

    def case(draw: Any) -> int:
        assert cases.run(draw) + cases.done < 5, "the third"
        return 2

    with pytest.raises(AssertionError, match="the third"):
        run_cases(cases.budget, case, examples=10)
