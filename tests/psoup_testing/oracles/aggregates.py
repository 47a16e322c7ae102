"""Aggregates of lists of values in plain Python, exact, against which states are held; and random columns for them.

values of a group, in the order of the rows ─> what the aggregate shows: Python's value, None for NULL
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, decimal
from psoup.plan.nodes import Measure
from psoup.values.columns import Column

Rng = np.random.Generator
Row = tuple[Any, ...]
"""The values of the arguments in a row, None for NULL."""

TYPES = (BIGINT, DOUBLE, decimal(9, 2), BOOLEAN, TEXT, TIMESTAMP, DATE)
_ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, 1e308, -1e308, 1e-300]
_LONG = [2**63 - 1, -(2**63), 2**62, -1, 0]


def random_column(rng: Rng, data_type: DataType, rows: int, nulls: float = 0.1) -> Column:
    """Values of a type, with ties, ends and NULL."""
    valid = None if rng.random() < 0.4 else rng.random(rows) >= nulls
    if data_type is TEXT:
        texts = [str(rng.choice(["", "a", "ab", "b", "é", "a\0"])).encode() for _ in range(rows)]
        texts = [text if valid is None or valid[i] else b"" for i, text in enumerate(texts)]
        ends = np.cumsum([0, *map(len, texts)]).astype(np.int64)
        return Column(TEXT, ends, valid, np.frombuffer(b"".join(texts), np.uint8))
    if data_type is DOUBLE:
        values = _doubles(rng, rows)
    elif data_type is BOOLEAN:
        values = rng.integers(0, 2, rows).astype(np.bool_)
    elif data_type is DATE:
        values = rng.integers(-9_000, 30_000, rows).astype(np.int32)
    else:
        values = rng.integers(-9, 9, rows) if rng.random() < 0.5 else rng.integers(-(2**40), 2**40, rows)
        if data_type is BIGINT and rng.random() < 0.5:
            values = np.where(rng.random(rows) < 0.3, rng.choice(_LONG, rows), values)
    if valid is not None:
        values = np.where(valid, values, np.zeros(1, values.dtype))
    return Column(data_type, values, valid)


def _doubles(rng: Rng, rows: int) -> Any:
    kind = rng.integers(0, 5)
    if kind == 0:
        return np.round(rng.standard_normal(rows) * 1_000, 2)
    if kind == 1:
        return rng.integers(-3, 3, rows).astype(np.float64)
    if kind == 2:
        return np.array([1e16, 1.0, 2.0**-52, -1e16, 3.0])[rng.integers(0, 5, rows)]
    values = rng.standard_normal(rows) * 2.0 ** rng.integers(-40, 40, rows)
    return values if kind <= 3 else np.where(rng.random(rows) < 0.1, rng.choice(_ODD, rows), values)


def values_of(column: Column) -> list[Any]:
    """The values in engine form, None for NULL."""
    if column.type is TEXT:
        assert column.data is not None
        values: list[Any] = [
            bytes(column.data[column.values[i] : column.values[i + 1]]).decode() for i in range(len(column))
        ]
    elif column.values.dtype.names:
        values = [int(low) + (int(high) << 64) for low, high in column.values]
    else:
        values = column.values.tolist()
    return [v if column.valid is None or column.valid[i] else None for i, v in enumerate(values)]


def _key(value: Any) -> Any:
    return (math.isnan(value), 0 if math.isnan(value) else value) if isinstance(value, float) else value


def exact_sum(values: Sequence[float]) -> float:
    """The sum of DOUBLEs, rounded once; NaN and infinities as in their arithmetic."""
    odd = [value for value in values if not math.isfinite(value)]
    if odd:
        return sum(odd)
    whole = sum((Fraction(value) for value in values), Fraction(0))
    try:
        return float(whole)
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def _sum(measure: Measure, values: list[Any]) -> Any:
    return None if not values else exact_sum(values) if measure.args[0].type is DOUBLE else sum(map(int, values))


def _avg(measure: Measure, values: list[Any]) -> Any:
    if not values:
        return None
    kind = measure.args[0].type
    if kind is DOUBLE:
        finite = all(map(math.isfinite, values))
        return float(sum(map(Fraction, values)) / len(values)) if finite else exact_sum(values)
    if kind is TIMESTAMP:
        return sum(values) // len(values)
    if kind is DATE:
        return sum(values) * 86_400_000_000 // len(values)
    return float(Fraction(sum(map(int, values)), len(values) * 10**kind.scale))


def _variance(measure: Measure, values: list[Any]) -> Any:
    less = 1 if measure.function.endswith("_samp") else 0
    if len(values) <= less:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(float(value) / 10.0 ** measure.args[0].type.scale) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - less)
    try:
        return math.sqrt(variance) if measure.function.startswith("stddev") else float(variance)
    except OverflowError:
        return math.inf


def _quantile(measure: Measure, values: list[Any]) -> Any:
    if not values:
        return None
    ordered, fraction = sorted(values, key=_key), measure.fraction or 0.0
    if measure.function == "quantile_disc":
        return ordered[max(1, len(ordered) - math.floor(len(ordered) - fraction * len(ordered))) - 1]
    place = fraction * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if measure.type is DOUBLE:
        low, high = (float(value) / 10.0 ** measure.args[0].type.scale for value in (low, high))
        return low if low == high else low + (high - low) * (place - math.floor(place))
    scale = 86_400_000_000 if measure.args[0].type is DATE else 1
    return low * scale + round((high - low) * scale * (place - math.floor(place)))


def _best(rows: list[Row], greatest: bool) -> Any:
    best: Row | None = None
    for row in rows:
        if best is None or (_key(row[-1]) > _key(best[-1]) if greatest else _key(row[-1]) < _key(best[-1])):
            best = row
    return None if best is None else best[0]


_OVER_VALUES: dict[str, Callable[[Measure, list[Any]], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "var_samp": _variance,
    "var_pop": _variance,
    "stddev_samp": _variance,
    "stddev_pop": _variance,
    "quantile_cont": _quantile,
    "quantile_disc": _quantile,
    "bit_and": lambda _, values: reduce(operator.and_, values) if values else None,
    "bit_or": lambda _, values: reduce(operator.or_, values) if values else None,
    "bit_xor": lambda _, values: reduce(operator.xor, values) if values else None,
}


def _in_order(measure: Measure, rows: list[Row]) -> list[Row]:
    """The rows in the order of ORDER BY inside an aggregate, whose keys are the last arguments; without the keys."""
    count = len(measure.args) - len(measure.order)
    for place, (descending, nulls_first) in reversed(list(enumerate(measure.order, count))):
        some = [row for row in rows if row[place] is not None]
        some.sort(key=lambda row: _key(row[place]), reverse=descending)
        none = [row for row in rows if row[place] is None]
        rows = [*none, *some] if nulls_first else [*some, *none]
    return [row[:count] for row in rows]


def expected(measure: Measure, rows: list[Row]) -> Any:
    """The value of an aggregate over the rows of a group that pass its FILTER, in order."""
    if measure.order:
        plain = replace(measure, args=measure.args[: len(measure.args) - len(measure.order)], order=())
        return expected(plain, _in_order(measure, rows))
    if measure.function in ("first", "last"):
        return None if not rows else rows[0 if measure.function == "first" else -1][0]
    some = [row for row in rows if None not in row]
    if measure.distinct:
        different: dict[Any, Row] = {}
        for row in some:
            different.setdefault(_key(row[0]), row)
        some = list(different.values())
    if measure.function == "count":
        return len(some)
    if measure.function == "string_agg":
        return measure.separator.join(row[0] for row in some) if some else None
    if measure.function == "any_value":
        return some[0][0] if some else None
    if measure.function in ("min", "max", "arg_min", "arg_max"):
        return _best(some, measure.function.endswith("max"))
    return _OVER_VALUES[measure.function](measure, [row[0] for row in some])


def close(measure: Measure, value: Any, wanted: Any) -> bool:
    """Whether a value is right: equal, but for the last bits of means, variances and what lies between two values."""
    if not isinstance(wanted, float) or not isinstance(value, float):
        return bool(value == wanted)
    if math.isnan(wanted) or math.isnan(value) or math.isinf(wanted):
        return value == wanted or (math.isnan(wanted) and math.isnan(value))
    if measure.function in ("sum", "min", "max", "first", "last", "any_value", "arg_min", "arg_max", "quantile_disc"):
        return value == wanted and math.copysign(1, value) == math.copysign(1, wanted)
    return math.isclose(value, wanted, rel_tol=1e-12, abs_tol=1e-300)
