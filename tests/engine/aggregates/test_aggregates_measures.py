"""Aggregates as states against plain Python: folded part by part, or combined in any tree."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates.measures import FOLDINGS, combine, exact, finish, fold, folding_of, rows_for
from psoup.aggregates.state import State
from psoup.expressions.tree import AttributeRef
from psoup.local import LocalPSoup
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, Kind, decimal, wide
from psoup.plan.nodes import Measure
from psoup.values.columns import Column
from psoup_testing.oracles.aggregates import TYPES, close, exact_sum, expected, random_column, values_of
from psoup_testing.suite.sweeps import swept

_NUMBERS = tuple(kind for kind in TYPES if kind not in (TEXT, TIMESTAMP, DATE))
_GROUPS = 5


def _measure(
    function: str,
    kinds: tuple[DataType, ...],
    distinct: bool = False,
    fraction: float | None = None,
    order: tuple[tuple[bool, bool], ...] = (),
    separator: str = "",
) -> Measure:
    args = tuple(AttributeRef(kind, place, f"c{place}") for place, kind in enumerate(kinds))
    return Measure(function, args, _type(function, kinds), distinct, None, fraction, order, separator)


def _type(function: str, kinds: tuple[DataType, ...]) -> DataType:
    if function == "count" or function == "approx_count_distinct":
        return BIGINT
    first = kinds[0]
    if function in ("sum", "avg") and first.kind is not Kind.DOUBLE:
        if function == "sum":
            return wide(first.scale)
        return TIMESTAMP if first in (TIMESTAMP, DATE) else DOUBLE
    if function[:3] in ("var", "std"):
        return DOUBLE
    if function == "quantile_cont":
        return (
            first
            if first in (DOUBLE, TIMESTAMP) or first.kind is Kind.DECIMAL
            else TIMESTAMP
            if first is DATE
            else DOUBLE
        )
    return first


def _ordered(
    function: str, args: tuple[DataType, ...], keys: tuple[DataType, ...], rng: np.random.Generator, **options: Any
) -> Measure:
    """A measure with ORDER BY, whose keys have random directions."""
    order = tuple([(bool(rng.random() < 0.5), bool(rng.random() < 0.5)) for _ in keys])
    return _measure(function, (*args, *keys), order=order, **options)


def _cases(rng: np.random.Generator) -> list[Measure]:
    some = lambda kinds: kinds[int(rng.integers(0, len(kinds)))]  # noqa: E731
    one, two = some(TYPES), some(TYPES)
    number, fraction = some(_NUMBERS), float(rng.choice([0.0, 0.25, 0.5, 0.9, 1.0]))
    times = some((*_NUMBERS, TIMESTAMP, DATE))
    no_long = some((DOUBLE, decimal(9, 2), BOOLEAN))
    return [
        _measure("count", ()),
        *[_measure(name, (one,)) for name in ("count", "min", "max", "first", "last", "any_value")],
        *[_measure(name, (one, two)) for name in ("arg_min", "arg_max")],
        _measure("sum", (number,)),
        _measure("avg", (times,)),
        *[_measure(name, (no_long,)) for name in ("var_samp", "var_pop", "stddev_samp", "stddev_pop")],
        *[_measure(name, (BIGINT,)) for name in ("bit_and", "bit_or", "bit_xor")],
        _measure("bit_xor", (BIGINT,), distinct=True),
        _measure("string_agg", (TEXT,), distinct=bool(rng.random() < 0.5), separator=some((",", "", "é; "))),
        *[_ordered(name, (one,), (two,), rng) for name in ("first", "last", "any_value")],
        _ordered("arg_max", (two, one), (number, two), rng),
        _ordered("string_agg", (TEXT,), (times, one), rng, separator="|"),
        _measure("count", (one,), distinct=True),
        _measure("sum", (number,), distinct=True),
        _measure("avg", (number,), distinct=True),
        _measure("quantile_disc", (one,), fraction=fraction),
        _measure("quantile_cont", (some((DOUBLE, decimal(9, 2), TIMESTAMP, DATE)),), fraction=fraction),
    ]


def _parts(rng: np.random.Generator, rows: int) -> list[tuple[int, int]]:
    edges = [0, *sorted(rng.integers(0, rows + 1, int(rng.integers(0, 4))).tolist()), rows]
    return list(pairwise(edges))


def _folded(measure: Measure, args: list[Column], condition: Column | None, codes: Any, part: tuple[int, int]) -> State:
    start, stop = part
    some = [column.slice(start, stop) for column in args]
    test = None if condition is None else condition.slice(start, stop)
    return fold(measure, some, test, None if codes is None else codes[start:stop], _groups(codes), stop - start)


def _groups(codes: Any) -> int:
    return 1 if codes is None else _GROUPS


@pytest.mark.seeded("a carry is lost")
@pytest.mark.seeded("a sum's unit is a bit too coarse")
@pytest.mark.parametrize("seed", swept(range(12), fast=3))
def test_states_are_what_plain_python_makes_of_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for measure in [measure for _ in range(10) for measure in _cases(rng)]:
        rows = int(rng.choice([0, 1, 7, 30]))
        args = [random_column(rng, arg.type, rows) for arg in measure.args]
        condition = random_column(rng, BOOLEAN, rows) if rng.random() < 0.4 else None
        codes = rng.integers(0, _GROUPS, rows).astype(np.int32) if rng.random() < 0.6 else None
        states = [_folded(measure, args, condition, codes, part) for part in _parts(rng, rows)]
        everywhere = np.arange(_groups(codes))
        while len(states) > 1:  # any two neighbours
            k = int(rng.integers(0, len(states) - 1)) if exact(measure) else 0
            states[k : k + 2] = [combine(measure, states[k], states[k + 1], everywhere, _groups(codes))]
        found = values_of(finish(measure, states[0], _groups(codes)))
        lets, values = (
            values_of(condition) if condition else [True] * rows,
            list(zip(*map(values_of, args), strict=True)),
        )
        owners = [0] * rows if codes is None else codes.tolist()
        for group in range(_groups(codes)):
            members = [values[i] if args else () for i in range(rows) if owners[i] == group and lets[i]]
            wanted = expected(measure, members)
            assert close(measure, found[group], wanted), (measure.text(), members, found[group], wanted)


def test_first_and_any_value_of_a_column_are_states_of_their_own() -> None:
    """The first row has NULL: FIRST shows it, ANY_VALUE does not. Equal states would be made once for both."""
    first, some = _measure("first", (DOUBLE,)), _measure("any_value", (DOUBLE,))
    assert folding_of(first) != folding_of(some)
    soup = LocalPSoup()
    soup.execute("CREATE STREAM t (x DOUBLE)")
    query = soup.register("SELECT first(x) AS a, any_value(x) AS b FROM t WHERE x IS NULL OR x > 0")
    soup.push("t", pa.table({"x": pa.array([None, 2.0, 3.0])}))
    assert soup.invoke(query).to_table().to_pylist() == [{"a": None, "b": 2.0}]


def test_groups_of_a_state_may_have_other_places_in_another() -> None:
    measure = _measure("sum", (DOUBLE,))
    first = fold(measure, [_doubles(1e300, 1.0)], None, np.array([0, 1], np.int32), 2, 2)
    later = fold(measure, [_doubles(2.0, -1e300, 5e-324)], None, np.array([0, 1, 2], np.int32), 3, 3)
    state = combine(measure, first, later, np.array([3, 0, 1]), 4)
    assert values_of(finish(measure, state, 4)) == [0.0, 1.0, None, 2.0]


def _doubles(*values: float) -> Column:
    return Column(DOUBLE, np.array(values))


def test_a_sum_of_doubles_is_exact_in_any_order() -> None:
    """The classic traps: what is lost by adding one after the other, overflow on the way, and the least numbers."""
    measure = _measure("sum", (DOUBLE,))
    for values in ([1e16, 1.0, -1e16], [1e308, 1e308, -1e308], [5e-324] * 3, [0.1] * 10, [2.0**53, 1.0, 2.0**-1074]):
        state = fold(measure, [_doubles(*values)], None, None, 1, len(values))
        assert values_of(finish(measure, state, 1)) == [exact_sum(values)]


def test_estimates_lie_within_their_errors_and_do_not_depend_on_parts() -> None:
    rng = np.random.default_rng(7)
    values = rng.lognormal(3.0, 4.0, 40_000)
    many, quantile = _measure("approx_count_distinct", (DOUBLE,)), _measure("approx_quantile", (DOUBLE,), fraction=0.9)
    for measure, wanted, error in ((many, 40_000.0, 0.07), (quantile, float(np.quantile(values, 0.9)), 0.011)):
        whole = fold(measure, [_doubles(*values)], None, None, 1, len(values))
        parts = [fold(measure, [_doubles(*values[k::3])], None, None, 1, len(values[k::3])) for k in range(3)]
        joined = combine(
            measure, combine(measure, parts[2], parts[0], np.zeros(1, np.int64), 1), parts[1], np.zeros(1, np.int64), 1
        )
        results = values_of(finish(measure, whole, 1)), values_of(finish(measure, joined, 1))
        assert results[0] == results[1]
        assert abs(results[0][0] / wanted - 1) < error
    few = fold(many, [_doubles(*range(100))], None, None, 1, 100)
    assert abs(values_of(finish(many, few, 1))[0] - 100) <= 3


def test_estimates_of_many_groups_do_not_touch_all_entries_for_each_part_that_comes() -> None:
    """What is merged for a part is of its own size, or it would take the square of the parts."""
    rng, rows, groups = np.random.default_rng(8), 1_000, 30_000
    args, codes = [_doubles(*rng.lognormal(3.0, 4.0, 30 * rows))], rng.integers(0, groups, 30 * rows).astype(np.int32)
    for function in ("approx_count_distinct", "approx_quantile"):
        measure = _measure(function, (DOUBLE,), fraction=0.5)
        folding = folding_of(measure)
        state, kept = folding.empty(groups), 0
        for start in range(0, len(codes), rows):
            part, before = slice(start, start + rows), state[0]
            state = folding.add(state, rows_for(measure, [args[0].slice(start, start + rows)], None, codes[part], rows))
            kept += state[0] is before
        assert kept > 20, f"{function}: the longest run was made anew {30 - kept} times"
        whole = fold(measure, args, None, codes, groups, len(codes))
        assert values_of(folding.finish(state, measure, groups)) == values_of(finish(measure, whole, groups))


def test_every_function_has_a_case() -> None:
    tested = {measure.function for measure in _cases(np.random.default_rng(0))}
    assert FOLDINGS.keys() == (tested - {"string_agg"}) | {"approx_count_distinct", "approx_quantile"}
