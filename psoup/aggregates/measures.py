"""The list of aggregate functions: the state of each, and the rows that count for it.

    count            rows                       sum, avg          counts and exact sums
    min, max         the best value so far      first, last, …    the value of a row
    stddev, var      moments                    DISTINCT          different values, and any of these over them
    quantile         all values                 approx_…          sketches
    bit_and, …       bits                       ORDER BY          all rows, and any of these over them in order

Measures with the same state over the same rows share it, such as SUM(x) and AVG(x). Other modules need only `fold`,
`combine` and `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from psoup.aggregates.bits import Bits
from psoup.aggregates.list_states import DistinctValues, GroupValues
from psoup.aggregates.moments import Moments
from psoup.aggregates.ordered_rows import OrderedRows
from psoup.aggregates.picks import Extreme, Pick
from psoup.aggregates.sketches import LogBuckets, Registers
from psoup.aggregates.state import ALL, Folding, Rows, State
from psoup.aggregates.sums import Count, DoubleSum, IntegerSum, WideSum
from psoup.expressions.tree import Expr
from psoup.model import Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column


def _sum(measure: Measure) -> Folding:
    kind = measure.args[0].type.kind
    if kind is Kind.DOUBLE:
        return DoubleSum()
    return WideSum() if kind is Kind.WIDE else IntegerSum()


def _extreme(greatest: bool) -> Callable[[Measure], Folding]:
    def made(measure: Measure) -> Folding:
        kind = measure.args[0].type
        if kind.kind in (Kind.TEXT, Kind.WIDE):
            return Pick("greatest" if greatest else "least", kind)
        return Extreme(greatest, kind)

    return made


def _pick(place: str) -> Callable[[Measure], Folding]:
    def made(measure: Measure) -> Folding:
        value, *keys = [arg.type for arg in measure.args]
        return Pick(place, value, keys[0] if keys else None, nulls=measure.function in _NULLS_COUNT)

    return made


FOLDINGS: dict[str, Callable[[Measure], Folding]] = {
    "count": lambda measure: Count(),
    "sum": _sum,
    "avg": _sum,
    "min": _extreme(greatest=False),
    "max": _extreme(greatest=True),
    "first": _pick("first"),
    "last": _pick("last"),
    "any_value": _pick("first"),
    "arg_min": _pick("least"),
    "arg_max": _pick("greatest"),
    "stddev_samp": lambda measure: Moments(),
    "stddev_pop": lambda measure: Moments(),
    "var_samp": lambda measure: Moments(),
    "var_pop": lambda measure: Moments(),
    "quantile_cont": lambda measure: GroupValues(measure.args[0].type),
    "quantile_disc": lambda measure: GroupValues(measure.args[0].type),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), lambda measure: Bits(measure.function)),
    "approx_count_distinct": lambda measure: Registers(),
    "approx_quantile": lambda measure: LogBuckets(),
}
"""The folding of each aggregate function, which has the functions of its state."""

_NULLS_COUNT = frozenset({"first", "last"})
"""Functions for which rows with a NULL argument count."""
_SAME_TWICE = frozenset({"min", "max", "any_value", "arg_min", "arg_max", "approx_count_distinct", "bit_and", "bit_or"})
"""Functions whose result is the same with and without DISTINCT."""


@lru_cache(4_096)
def folding_of(measure: Measure) -> Folding:
    """The folding that makes the state of a measure."""
    if measure.function == "string_agg" or measure.order:
        return _ordered(measure)
    folding = FOLDINGS[measure.function](measure)
    if measure.distinct and measure.function not in _SAME_TWICE:
        return DistinctValues(measure.args[0].type, folding)
    return folding


def _ordered(measure: Measure) -> OrderedRows:
    """The folding of an aggregate with ORDER BY, or of STRING_AGG."""
    types = tuple([arg.type for arg in measure.args])
    if measure.function == "string_agg":
        return OrderedRows(types, measure.order, measure.distinct, separator=measure.separator)
    args = measure.args[: len(measure.args) - len(measure.order)]
    return OrderedRows(types, measure.order, inner=folding_of(replace(measure, args=args, order=())))


Name = tuple[Folding, tuple[object, ...], object]


def state_of(measure: Measure) -> Name:
    """The name of the state that a measure needs. Measures with equal names share the state."""
    return folding_of(measure), measure.args, measure.condition


def counts_rows(measure: Measure) -> bool:
    """Whether a measure is COUNT(*) without FILTER. Its state is the count of rows, which is kept anyway."""
    return measure.function == "count" and not measure.args and measure.condition is None


def states_for(measures: Sequence[Measure]) -> dict[Name, Measure]:
    """The states that measures need in addition to the count of rows. Each has the first measure that needs it."""
    names = dict[Name, Measure]()
    for measure in measures:
        if not counts_rows(measure):
            names.setdefault(state_of(measure), measure)
    return names


def read_by(measure: Measure) -> list[Expr]:
    """The expressions over tuples that a measure reads."""
    return [*measure.args, *([] if measure.condition is None else [measure.condition])]


def rows_for(
    measure: Measure, args: Sequence[Column], condition: Column | None, codes: Array | None, rows: int
) -> Rows:
    """The rows of a part, with a mask of those that count for a measure: its FILTER is true, no argument is NULL.

    NULL counts for FIRST and LAST. `rows`: the number of rows. `args`, `condition`: columns of this length. `codes`:
    the group of each row, int32, or None. O(rows).
    """
    flags = [] if condition is None else [condition.values, condition.valid]
    if measure.function not in _NULLS_COUNT:
        flags += [column.valid for column in args[: len(args) - len(measure.order)]]
    flagged = [flag for flag in flags if flag is not None]
    mask = ALL if not flagged else np.logical_and.reduce(flagged).view(np.uint8)
    return Rows(rows, args, mask, codes)


def fold(
    measure: Measure,
    args: Sequence[Column],
    condition: Column | None,
    codes: Array | None,
    groups: int,
    rows: int,
) -> State:
    """The state of a measure over `rows` rows. `codes`: the group of each row, int32; None if all are in group 0.

    `args`: the columns of the arguments. `condition`: the column of the FILTER, or None. O(rows + groups).
    """
    folding = folding_of(measure)
    return folding.add(folding.empty(groups), rows_for(measure, args, condition, codes, rows))


def combine(measure: Measure, into: State, other: State, places: Array, groups: int) -> State:
    """Add the state `other` of later rows to `into`, which the caller must not use any more. Returns the sum.

    Group k of `other` is added to the group places[k] (int64, distinct) of `groups` groups.
    """
    folding = folding_of(measure)
    return folding.combine(folding.grow(into, groups), other, places)


def finish(measure: Measure, state: State, groups: int) -> Column:
    """The value of a measure for each of `groups` groups."""
    return folding_of(measure).finish(state, measure, groups)


def exact(measure: Measure) -> bool:
    """Whether the result is the same, however the rows are divided into the states that are combined."""
    return folding_of(measure).exact
