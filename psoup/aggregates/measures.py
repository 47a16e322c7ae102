"""The list of aggregates: what each keeps of the rows of a group, and which rows count for it.

    count            rows                       sum, avg          counts and exact sums
    min, max         the best value so far      first, last, …    the value of a row
    stddev, var      moments                    DISTINCT          different values, and any of these over them
    quantile         all values                 approx_…          sketches

Measures that keep the same of the same rows share a state: SUM(x) and AVG(x), say. `fold`, `combine` and `finish` are
all that others need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from psoup.aggregates.listed import Distinct, Gathered
from psoup.aggregates.moments import Moments
from psoup.aggregates.picks import Extreme, Pick
from psoup.aggregates.sketches import Buckets, Registers
from psoup.aggregates.state import ALL, Folding, Rows, State
from psoup.aggregates.sums import Count, DoubleSum, IntegerSum
from psoup.columns import Array, Column
from psoup.expressions.tree import Expr
from psoup.model import Kind
from psoup.plan.nodes import Measure


def _sum(measure: Measure) -> Folding:
    return DoubleSum() if measure.args[0].type.kind is Kind.DOUBLE else IntegerSum()


def _extreme(greatest: bool) -> Callable[[Measure], Folding]:
    def made(measure: Measure) -> Folding:
        kind = measure.args[0].type
        return Pick("greatest" if greatest else "least", kind) if kind.kind is Kind.TEXT else Extreme(greatest, kind)

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
    "quantile_cont": lambda measure: Gathered(measure.args[0].type),
    "quantile_disc": lambda measure: Gathered(measure.args[0].type),
    "approx_count_distinct": lambda measure: Registers(),
    "approx_quantile": lambda measure: Buckets(),
}
"""What each function keeps."""

_NULLS_COUNT = frozenset({"first", "last"})
_SAME_TWICE = frozenset({"min", "max", "any_value", "arg_min", "arg_max", "approx_count_distinct"})
"""Functions that do not care whether a value comes once or several times."""


@lru_cache(4_096)
def folding_of(measure: Measure) -> Folding:
    """How the state of a measure is made."""
    folding = FOLDINGS[measure.function](measure)
    if measure.distinct and measure.function not in _SAME_TWICE:
        return Distinct(measure.args[0].type, folding)
    return folding


Name = tuple[Folding, tuple[object, ...], object]


def state_of(measure: Measure) -> Name:
    """The name of the state that a measure is made of: those of an equal name are made of the same."""
    return folding_of(measure), measure.args, measure.condition


def counts_rows(measure: Measure) -> bool:
    """Whether a measure is COUNT(*) without FILTER, which needs no state where rows are counted anyway."""
    return measure.function == "count" and not measure.args and measure.condition is None


def states_for(measures: Sequence[Measure]) -> dict[Name, Measure]:
    """The states that measures are made of beside the number of rows, and the first measure of each."""
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
    """The rows that count for a measure: those of its FILTER, with values of the arguments.

    `rows`: how many; `args`, `condition`: columns of so many, `codes`: int32 groups, or None. O(rows).
    """
    flags = [] if condition is None else [condition.values, condition.valid]
    if measure.function not in _NULLS_COUNT:
        flags += [column.valid for column in args]
    known = [flag for flag in flags if flag is not None]
    mask = ALL if not known else np.logical_and.reduce(known).view(np.uint8)
    return Rows(rows, args, mask, codes)


def fold(
    measure: Measure,
    args: Sequence[Column],
    condition: Column | None,
    codes: Array | None,
    groups: int,
    rows: int,
) -> State:
    """The state of some rows: `rows` of them, whose groups are `codes` (int32[rows], None: all are of group 0).

    `args`: the values of the arguments; `condition`: of FILTER. O(rows + groups).
    """
    folding = folding_of(measure)
    return folding.add(folding.empty(groups), rows_for(measure, args, condition, codes, rows))


def combine(measure: Measure, into: State, other: State, places: Array, groups: int) -> State:
    """Add the state of later rows, whose group k is places[k] (int64, distinct) of `groups`; `into` is used up."""
    folding = folding_of(measure)
    return folding.combine(folding.grow(into, groups), other, places)


def finish(measure: Measure, state: State, groups: int) -> Column:
    """The value of a measure for each of `groups` groups."""
    return folding_of(measure).finish(state, measure, groups)


def exact(measure: Measure) -> bool:
    """Whether states may be combined in any tree: the result does not depend on it."""
    return folding_of(measure).exact
