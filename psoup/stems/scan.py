"""One clause over old tuples: what is evaluated when a clause and a chunk have not met yet.

    zone map of the chunk ──zone_excludes──> nothing to do
    columns ──scan──> mask of the matching rows, number of errors

Factors over columns come first, single intervals before unions; expressions last. Expressions are computed for every
row whatever the mask, so that errors are counted as on arrival. Many clauses at once: `QuerySteM.subset`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.archive import Zone
from psoup.columns import Array, Column
from psoup.expressions.tree import AttributeRef, Expr
from psoup.kernels.select import allowed_mask, range_mask
from psoup.query import Factor, Interval, Term
from psoup.stems.bounds import Bounds, int_bounds, text_bounds
from psoup.stems.values import Values, column_of, values_of

_LEAST, _GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class ScanResult:
    """`mask`: uint8[n], 1 = the row matches. `errors`: values of derived attributes that could not be computed."""

    mask: Array
    errors: int


def scan(factors: Sequence[Factor], columns: Sequence[Column], ids: Array, times: Array) -> ScanResult:
    """The rows that pass all factors. O(rows * terms)."""
    known: dict[Expr, Values] = {}
    for expr in {term.attribute for factor in factors for term in factor.terms}:
        if not isinstance(expr, AttributeRef):
            known[expr] = values_of(column_of(expr, columns, ids, times))
    errors = sum(values.errors for values in known.values())
    mask = np.ones(len(ids), np.uint8)
    for factor in sorted(factors, key=_cost):
        if not mask.any():
            break
        either: Array | None = None
        for term in factor.terms:
            values = known.get(term.attribute)
            if values is None:
                values = known[term.attribute] = values_of(column_of(term.attribute, columns, ids, times))
            own = _term_mask(term, values, len(ids))
            either = own if either is None else either | own
        if either is None:
            mask[:] = 0
        else:
            mask &= either
    return ScanResult(mask, errors)


def zone_excludes(factors: Sequence[Factor], zones: Mapping[int, Zone]) -> bool:
    """Whether no row of a chunk can match. `zones`: by schema position, -1 `_id`, -2 `_time`; others may match."""
    return any(all(_zone_excludes_term(term, zones) for term in factor.terms) for factor in factors)


def _zone_excludes_term(term: Term, zones: Mapping[int, Zone]) -> bool:
    zone = zones.get(term.attribute.index) if isinstance(term.attribute, AttributeRef) else None
    if zone is None or (term.nulls and zone.has_null):
        return False
    return not any(_meets(interval, zone) for interval in term.intervals)


def _meets(interval: Interval, zone: Zone) -> bool:
    if zone.least is None or zone.greatest is None:
        return False
    low, high = interval.low, interval.high
    return (low is None or low <= zone.greatest) and (high is None or zone.least < high)  # type: ignore[operator]


def _cost(factor: Factor) -> int:
    plain = all(isinstance(term.attribute, AttributeRef) for term in factor.terms)
    return sum(max(1, len(term.intervals)) for term in factor.terms) + (0 if plain else 1_000_000)


def _term_mask(term: Term, values: Values, rows: int) -> Array:
    mask = np.zeros(rows, np.uint8)
    if not term.intervals and not term.nulls:
        return mask
    if values.offsets is None and len(term.intervals) == 1:
        _single_interval(term, values, mask)
        return mask
    bounds = _bounds_of(term.intervals, values.offsets is not None)
    codes = np.empty(rows, np.int32)
    bounds.encode(values, 0, codes)
    allowed_mask(codes, _allowed(term, bounds), mask)
    return mask


def _single_interval(term: Term, values: Values, mask: Array) -> None:
    low, high = term.intervals[0].low, term.intervals[0].high
    last = _GREATEST if high is None else int(high) - 1
    range_mask(values.keys, _LEAST if low is None else int(low), last, mask)
    if values.valid is None:
        return
    mask &= values.valid
    if term.nulls:
        nulls = 1 - values.valid
        mask |= nulls if values.error is None else nulls & (1 - values.error)


def _bounds_of(intervals: Sequence[Interval], text: bool) -> Bounds:
    keys = {key for interval in intervals for key in (interval.low, interval.high) if key is not None}
    ordered = sorted(keys)
    return text_bounds(ordered) if text else int_bounds(np.array(ordered, np.int64))  # type: ignore[arg-type]


def _allowed(term: Term, bounds: Bounds) -> Array:
    """uint8[D + 3]: which codes are in the term."""
    code = {bounds.key(k): k + 1 for k in range(len(bounds))}
    allowed = np.zeros(len(bounds) + 3, np.uint8)
    for interval in term.intervals:
        low = 0 if interval.low is None else code[interval.low]
        high = len(bounds) + 1 if interval.high is None else code[interval.high]
        allowed[low:high] = 1
    allowed[len(bounds) + 1] = term.nulls
    return allowed
