"""The scan: one clause evaluated over tuples of a chunk, without an index of clauses.

    zone map of the chunk ──zone_excludes──> nothing to do
    columns ──scan──> mask of the matching rows, number of errors

The scan tests factors over columns first, single intervals before unions. It evaluates expressions last, and only for
rows without a false factor. An error is neither true nor false, so the order does not change the result. If texts take
too much memory, the scan takes the rows in parts. `QuerySteM.subset` serves many clauses at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from psoup.clauses.index.bounds import Bounds, int_bounds, text_bounds
from psoup.config import TextLimits
from psoup.data.chunk_caches import Zone
from psoup.data.values import Values, spread, taken, values_of
from psoup.expressions import deferral
from psoup.expressions.error_guard import EVERY_ROW, Compute
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.frame import RowsOf
from psoup.expressions.tree import AttributeRef, Expr
from psoup.kernels.search.row_masks import allowed_mask, range_mask
from psoup.plan.factors import Factor, Interval, Term
from psoup.values.columns import Array, Column

_LEAST = -(2**63)
"""The least key."""
_GREATEST = 2**63 - 1
"""The greatest key."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of a scan. `mask`: uint8[n], 1 = the row matches.

    `errors`: the number of rows for which only an error prevents a match.
    """

    mask: Array
    errors: int


def scan(
    factors: Sequence[Factor],
    columns: Sequence[Column],
    ids: Array,
    times: Array,
    texts: TextLimits = TextLimits(),
    compute: Compute = EVERY_ROW,
) -> ScanResult:
    """Find the rows that pass all factors. Raises the errors of `compute`. O(rows * terms)."""
    try:
        return _Scan(factors, columns, ids, times, texts, compute).result()
    except TooMuchText as problem:
        parts, rows = min(problem.parts, len(ids)), len(ids)
    results = [
        scan(factors, RowsOf(columns, start, stop), ids[start:stop], times[start:stop], texts, compute)
        for start, stop in pairwise(rows * part // parts for part in range(parts + 1))
    ]
    return ScanResult(np.concatenate([part.mask for part in results]), sum(part.errors for part in results))


class _Scan:
    """A clause over some rows. The values of an attribute are dropped after the last term that reads them."""

    def __init__(
        self,
        factors: Sequence[Factor],
        columns: Sequence[Column],
        ids: Array,
        times: Array,
        texts: TextLimits,
        compute: Compute,
    ) -> None:
        self._compute = compute
        self._factors = sorted(factors, key=_cost)
        self._rows = (columns, ids, times, texts)
        self._values_so_far: dict[Expr, Values] = {}
        self._left = Counter(term.attribute for factor in factors for term in factor.terms)

    def result(self) -> ScanResult:
        rows = len(self._rows[1])
        mask: Array = np.ones(rows, np.uint8)  # 1: no factor was false
        failed: Array = np.zeros(rows, np.uint8)
        for factor in self._factors:
            left = np.flatnonzero(mask)
            if not len(left):
                break
            holds, unknown = self._either(factor, left)
            mask &= holds | unknown
            failed |= unknown
        failed &= mask
        return ScanResult(mask & (1 - failed), int(np.count_nonzero(failed)))

    def _either(self, factor: Factor, left: Array) -> tuple[Array, Array]:
        """Flags of rows for which the factor is true, and of rows for which an error leaves it open: uint8[n] each.

        Only the rows `left` (int64[k]) are tested.
        """
        rows = len(self._rows[1])
        either: Array = np.zeros(rows, np.uint8)
        errors: Array = np.zeros(rows, np.uint8)
        for term in factor.terms:
            expr = term.attribute
            if len(left) * deferral.WORTH <= rows and expr not in self._values_so_far and self._waits(expr):
                columns, ids, times, texts = self._rows
                values = spread(
                    values_of(self._compute(expr, *taken(expr, columns, ids, times, left), texts)), left, rows
                )
            else:
                values = self._values(expr)
            either |= _term_mask(term, values, rows)
            if values.error is not None and (term.intervals or term.nulls):
                errors |= values.error
        return either, errors & (1 - either)

    def _waits(self, expr: Expr) -> bool:
        """Whether evaluating an expression for the remaining rows only is worth the effort."""
        return len(self._rows[1]) >= deferral.LEAST_ROWS and not isinstance(expr, AttributeRef)

    def _values(self, expr: Expr) -> Values:
        values = self._values_so_far.pop(expr, None)
        if values is None:
            values = values_of(self._compute(expr, *self._rows))
        self._left[expr] -= 1
        if self._left[expr]:
            self._values_so_far[expr] = values
            self._check_room()
        return values

    def _check_room(self) -> None:
        """Raise TooMuchText if the texts of expressions that are kept for later terms exceed the limit.

        Texts of columns do not count, as they are in memory anyway.
        """
        derived = (values.data for expr, values in self._values_so_far.items() if not isinstance(expr, AttributeRef))
        if len(self._rows[1]) > 1 and sum(len(data) for data in derived if data is not None) > self._rows[3].together:
            raise TooMuchText(2)


def zone_excludes(factors: Sequence[Factor], zones: Mapping[int, Zone]) -> bool:
    """Whether no row of a chunk can match, by its zones.

    `zones`: by schema position, -1 for `_id`, -2 for `_time`. An attribute without a zone excludes nothing.
    """
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
    """Flags of the codes that are in the term: uint8[D + 3], for D bounds."""
    code = {bounds.key(k): k + 1 for k in range(len(bounds))}
    allowed = np.zeros(len(bounds) + 3, np.uint8)
    for interval in term.intervals:
        low = 0 if interval.low is None else code[interval.low]
        high = len(bounds) + 1 if interval.high is None else code[interval.high]
        allowed[low:high] = 1
    allowed[len(bounds) + 1] = term.nulls
    return allowed
