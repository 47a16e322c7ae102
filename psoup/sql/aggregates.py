"""Aggregate functions: their names, the types of arguments and results, and their columns in expressions.

    sum(price) FILTER (WHERE qty > 5)   ->   Measure("sum", (price,), DECIMAL(38,2), condition=qty > 5)
    median(price)                       ->   Measure("quantile_cont", (price as DOUBLE,), DOUBLE, fraction=0.5)

A statement has each measure once, and its expressions read the measure by number. `group_by` replaces the numbers with
columns of the table of groups. Types are DuckDB's, except for quantiles and counts, which are BIGINT or DOUBLE
(docs/sql.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup.expressions.conversion import NUMBERS, TIMES, cast, is_null_literal, mismatch, need, truth
from psoup.expressions.functions import resolve
from psoup.expressions.tree import GROUPED, AttributeRef, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, wide
from psoup.plan.nodes import Measure
from psoup.sql.elsewhere.refused_functions import refuse_function
from psoup.sql.ordered_aggregates import ordered, string_agg, without_order
from psoup.sql.source import StatementText

MAX_MEASURES = 1_000

ARGUMENT = "an aggregate"
"""The value of `Binder.part` for the arguments of an aggregate. Like FILTER, GROUP BY and WHERE, they refuse
aggregates."""
FILTER = "FILTER"
"""The value of `Binder.part` for the condition of FILTER."""
GROUP_BY = "GROUP BY"
"""The value of `Binder.part` for the keys of GROUP BY."""
WHERE = "WHERE"
"""The value of `Binder.part` for the condition of WHERE."""
HAVING = "HAVING"
"""The value of `Binder.part` for the condition of HAVING, which reads groups."""

_INSTEAD = {
    WHERE: "HAVING has the conditions on groups, as in GROUP BY name HAVING count(*) > 3",
    GROUP_BY: "group by what each tuple has, and compare aggregates in HAVING",
    FILTER: "FILTER chooses tuples; HAVING chooses groups",
    ARGUMENT: "aggregate the answer once more where it arrives",
}


class Measures:
    """The distinct measures of a statement, in the order of their first use."""

    def __init__(self) -> None:
        self._columns: dict[Measure, AttributeRef] = {}

    def ref(self, measure: Measure) -> AttributeRef:
        """The reference to a measure in expressions. Its index is the measure's number."""
        column = AttributeRef(measure.type, len(self._columns), measure.text(), GROUPED)
        return self._columns.setdefault(measure, column)

    @property
    def listed(self) -> tuple[Measure, ...]:
        """All measures, by number."""
        return tuple(self._columns)


class AggregateBinder(Protocol):
    """The members of `psoup.sql.binder.Binder` that this module uses."""

    source: StatementText
    measures: Measures
    part: str

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression."""

    def within(self, part: str) -> AbstractContextManager[None]:
        """Bind a part of the statement, such as WHERE or HAVING, inside a `with` block."""

    def is_given(self, column: Expr) -> bool:
        """Whether an expression is a column that cannot be NULL."""


Rule = Callable[[str, Sequence[Expr]], Measure]


def _same(function: str, name: str, args: Sequence[Expr]) -> Measure:
    """The rule of aggregates whose result is a value of the first argument, such as min, first or arg_max."""
    return Measure(function, tuple(args), args[0].type)


def _count(name: str, args: Sequence[Expr]) -> Measure:
    return Measure("count", tuple(args), BIGINT)


def _count_if(name: str, args: Sequence[Expr]) -> Measure:
    return Measure("count", (), BIGINT, condition=need(args[0], BOOLEAN, name))


def _sum(name: str, args: Sequence[Expr]) -> Measure:
    (value,) = args
    if value.type == BOOLEAN or is_null_literal(value):
        value = cast(value, BIGINT)
    value = _number(name, value, "min, max and avg take times")
    return Measure("sum", (value,), DOUBLE if value.type == DOUBLE else wide(value.type.scale))


def _mean(name: str, args: Sequence[Expr]) -> Measure:
    (value,) = args
    if value.type.kind in TIMES:
        return Measure("avg", (cast(value, TIMESTAMP),), TIMESTAMP)
    return Measure("avg", (_number(name, value, ""),), DOUBLE)


def _spread(function: str, name: str, args: Sequence[Expr]) -> Measure:
    """The rule of standard deviations and variances, over DOUBLEs."""
    return Measure(function, (cast(_number(name, args[0], "epoch(t) is a number of seconds"), DOUBLE),), DOUBLE)


def _extreme_truth(function: str, name: str, args: Sequence[Expr]) -> Measure:
    """The rule of bool_and, the minimum of truth values, and of bool_or, the maximum."""
    return Measure(function, (need(args[0], BOOLEAN, name),), BOOLEAN)


def _quantile(function: str, name: str, args: Sequence[Expr]) -> Measure:
    value, fraction = args[0], 0.5 if len(args) == 1 else _fraction(name, args[1])
    if function == "quantile_disc":
        return Measure(function, (value,), value.type, fraction=fraction)
    if value.type.kind in TIMES and function == "quantile_cont":
        return Measure(function, (cast(value, TIMESTAMP),), TIMESTAMP, fraction=fraction)
    way = "quantile_disc takes values of any type" if function == "quantile_cont" else "epoch(t) is a number of seconds"
    return Measure(function, (cast(_number(name, value, way, always=True), DOUBLE),), DOUBLE, fraction=fraction)


def _bits(function: str, name: str, args: Sequence[Expr]) -> Measure:
    """The rule of bit_and, bit_or and bit_xor, over BIGINTs."""
    return Measure(function, (need(args[0], BIGINT, name),), BIGINT)


def _estimate(name: str, args: Sequence[Expr]) -> Measure:
    return Measure("approx_count_distinct", tuple(args), BIGINT)


def _number(name: str, value: Expr, times: str, *, always: bool = False) -> Expr:
    """The argument of an aggregate, checked to be a number.

    `times`: the advice for a time. With `always`, it is also the advice for other types.
    """
    if value.type.kind in NUMBERS:
        return value
    if is_null_literal(value):
        return cast(value, DOUBLE)
    way = times if times and (always or value.type.kind in TIMES) else "use CAST(... AS BIGINT) or another number type"
    raise mismatch(f"{name} needs a number, not {value.type}; {way}")


def _fraction(name: str, given: Expr) -> float:
    if not isinstance(given, Literal):
        raise mismatch(f"the fraction of {name} must be a constant from 0 to 1; write a query for each fraction")
    if given.type.kind not in NUMBERS or given.value is None:
        raise mismatch(f"the fraction of {name} must be a number from 0 to 1, such as 0.5")
    fraction = float(given.value) / 10**given.type.scale
    if not 0 <= fraction <= 1:
        raise InvalidInput(f"the fraction of {name} is from 0 to 1, not {fraction:g}", reason="INVALID_VALUE")
    return fraction


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate function of SQL. `rule`: checks the types of arguments, and makes the measure.

    `least`, `most`: the number of arguments. `distinct`: True if DISTINCT counts equal values once, False if DISTINCT
    changes nothing, None if DISTINCT is refused.
    """

    rule: Rule
    least: int = 1
    most: int = 1
    distinct: bool | None = None


def _values(function: str, arguments: int = 1, distinct: bool | None = False) -> Aggregation:
    return Aggregation(partial(_same, function), arguments, arguments, distinct)


_SPREADS = {
    **dict.fromkeys(("stddev", "stddev_samp"), "stddev_samp"),
    **dict.fromkeys(("variance", "var_samp"), "var_samp"),
    **{name: name for name in ("stddev_pop", "var_pop")},
}
_ENDS = {
    **dict.fromkeys(("arg_min", "argmin", "min_by"), "arg_min"),
    **dict.fromkeys(("arg_max", "argmax", "max_by"), "arg_max"),
}

AGGREGATES: dict[str, Aggregation] = {
    "count": Aggregation(_count, 0, 1, True),
    **dict.fromkeys(("count_if", "countif"), Aggregation(_count_if)),
    "sum": Aggregation(_sum, distinct=True),
    **dict.fromkeys(("avg", "mean"), Aggregation(_mean, distinct=True)),
    "min": _values("min"),
    "max": _values("max"),
    **dict.fromkeys(("first", "arbitrary"), _values("first")),
    "last": _values("last", distinct=None),
    "any_value": _values("any_value"),
    **{name: _values(function, 2, None) for name, function in _ENDS.items()},
    **{name: Aggregation(partial(_spread, function)) for name, function in _SPREADS.items()},
    "median": Aggregation(partial(_quantile, "quantile_cont")),
    "quantile_cont": Aggregation(partial(_quantile, "quantile_cont"), 2, 2),
    **dict.fromkeys(("quantile", "quantile_disc"), Aggregation(partial(_quantile, "quantile_disc"), 2, 2)),
    "approx_quantile": Aggregation(partial(_quantile, "approx_quantile"), 2, 2),
    "approx_count_distinct": Aggregation(_estimate, distinct=False),
    "bool_and": Aggregation(partial(_extreme_truth, "min"), distinct=False),
    "bool_or": Aggregation(partial(_extreme_truth, "max"), distinct=False),
    **{name: Aggregation(partial(_bits, name), distinct=True) for name in ("bit_and", "bit_or", "bit_xor")},
    **dict.fromkeys(("string_agg", "group_concat", "listagg"), Aggregation(string_agg, 1, 2, True)),
}
"""All aggregate functions, by their names in SQL."""


def measured(binder: AggregateBinder, name: str, node: exp.Expr, where: exp.Expr | None = None) -> AttributeRef:
    """Bind the aggregate at `node`, with the condition `where` of its FILTER. Returns its reference. Raises
    SqlError."""
    source, part = binder.source, binder.part
    if part in _INSTEAD:
        shown = "WHERE or ON" if part == WHERE else part
        raise source.unsupported(f"the aggregate {name} in {shown}", node, hint=_INSTEAD[part])
    column = binder.measures.ref(measure_of(binder, name, node, where))
    if column.index >= MAX_MEASURES:
        raise source.error(f"a query has at most {MAX_MEASURES:,} aggregates", node, hint="make several queries of it")
    return column


def measure_of(
    binder: AggregateBinder,
    name: str,
    node: exp.Expr,
    where: exp.Expr | None = None,
    argument: str = ARGUMENT,
    filtered: str = FILTER,
) -> Measure:
    """The measure of the aggregate at `node`. `argument`, `filtered`: the parts in which its arguments and the
    condition `where` of its FILTER are bound. Raises SqlError."""
    source, aggregation = binder.source, AGGREGATES[name]
    written, sorting = without_order(node.expressions)
    nodes, distinct = _arguments(source, name, aggregation, node, written)
    with binder.within(argument):
        args = [binder.bind(arg) for arg in nodes]
        keys = [(key, binder.bind(key.this)) for key in sorting]
    with source.placed(node):
        measure = ordered(source, replace(aggregation.rule(name, args), distinct=distinct), args, keys)
    if measure.function == "count" and not distinct and measure.args and _never_null(binder, measure.args[0]):
        measure = replace(measure, args=())
    if where is None:
        return measure
    with binder.within(filtered):
        bound = binder.bind(where)
    with source.placed(where):
        condition, inner = truth(bound, FILTER), measure.condition
        return replace(measure, condition=condition if inner is None else resolve("and", [condition, inner]))


def _arguments(
    source: StatementText, name: str, aggregation: Aggregation, node: exp.Expr, nodes: list[exp.Expr]
) -> tuple[list[exp.Expr], bool]:
    """The arguments of an aggregate, and whether equal values count once. `*` does not count as an argument.

    `nodes`: the arguments as written, without ORDER BY. Raises SqlError.
    """
    distinct = False
    if nodes and isinstance(nodes[0], exp.Distinct):
        nodes, distinct = list(nodes[0].expressions), True
        if aggregation.distinct is None:
            hint = "DISTINCT goes with count, sum and avg"
            raise source.unsupported(f"DISTINCT in {name}", node, hint=hint)
    if len(nodes) == 1 and isinstance(nodes[0], exp.Star):
        if name != "count" or distinct or any(nodes[0].args.values()):
            raise source.error(f"* is not an argument of {name}", nodes[0], hint="count(*) counts rows; name a column")
        nodes = []
    elif not aggregation.least <= len(nodes) <= aggregation.most or (distinct and not nodes):
        counts = sorted({max(aggregation.least, 1), aggregation.most})
        taken = f"{' or '.join(map(str, counts))} argument{'s' if counts[-1] > 1 else ''}"
        raise source.error(f"{name} takes {taken}, not {len(nodes)}", node, reason="WRONG_ARGUMENTS")
    return nodes, distinct and bool(aggregation.distinct)


def _never_null(binder: AggregateBinder, arg: Expr) -> bool:
    """Whether `count(arg)` equals the count of rows."""
    return arg.value is not None if isinstance(arg, Literal) else binder.is_given(arg)


def aggregate_of(source: StatementText, node: exp.Expr) -> str:
    """The name of the aggregate with this FILTER. Raises SqlError if `node` is not an aggregate."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if name not in AGGREGATES:
        refuse_function(source, name, node)
        raise source.error("FILTER belongs to an aggregate", node, hint="sum(x) FILTER (WHERE y > 3)")
    return name
