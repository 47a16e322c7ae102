"""The search for one clause in closed chunks that it does not cover, one chunk after the other.

    zones       no row of the chunk can match                                        nothing to do
    key index   of a column that was searched often: `psoup.matching.key_search`     the few rows that may match
    _id, _time  rows are in their order                                              a shorter range of rows
    ranges      a >= 3 AND b < 9: narrow codes, the most selective first             a mask, ANDed
    rest        text, IN, OR: the values themselves, of the rows that are left       `psoup.matching.scan`

An error counts if no factor is false, as on arrival. From a chunk in the archive, the search first reads the column of
the most selective range. The store may search this column without caching it. Then the search reads the other columns
of the clause, only for the remaining rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeGuard

import numpy as np

from psoup.config import TextLimits
from psoup.data.archived_chunk import ArchivedChunk, Chunk, LazyColumns
from psoup.data.chunk import ChunkView
from psoup.data.chunk_caches import Zone
from psoup.data.key_room import KeyRoom
from psoup.data.narrow import KeySpan, Narrow
from psoup.data.zones import Zones, narrowed
from psoup.expressions.error_guard import every_row
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Expr, attributes_of
from psoup.kernels.search.row_masks import codes_mask, codes_mask_and, mask_offsets
from psoup.matching.key_search import KeySearch, LookedUp, Part, are_few
from psoup.matching.scan import scan, zone_excludes
from psoup.model import BIGINT, Kind
from psoup.plan.factors import Factor, Interval
from psoup.values.columns import Array, Column, empty_column
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_NOTHING: Array = np.zeros(0, np.int64)
_WHOLE = 8
"""A search counts for the choice of key indexes if it covers at least 1 in `_WHOLE` rows of a chunk."""
_UNREAD = empty_column(BIGINT)
_LOW = -(2**63)
"""The least key."""
_LAST = 2**63 - 1
"""The greatest key."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search. `offsets`: the matching rows of the chunk, int64, ascending.

    `errors`: the number of tested rows for which only an error prevents a match.
    """

    offsets: Array
    errors: int = 0


@dataclass(frozen=True, slots=True)
class _Test:
    """A range of narrow codes. `share`: the approximate part of the rows that passes."""

    interval: Interval
    index: int
    codes: Narrow
    span: KeySpan
    share: float


class _Range(NamedTuple):
    """A factor that is one interval of an attribute."""

    factor: Factor
    column: int
    interval: Interval


class Search:
    """A clause, prepared for searches. Any number of threads may use it.

    `wary`: expressions that have raised on arrival. `keys`: the pool of key indexes; None to use no key indexes.
    """

    def __init__(
        self,
        factors: Sequence[Factor],
        texts: TextLimits = TextLimits(),
        wary: Collection[Expr] = (),
        keys: KeyRoom | None = None,
    ) -> None:
        self._factors = tuple(factors)
        self._keys = keys
        self._texts = texts
        self._wary = wary
        self._plain = all(isinstance(t.attribute, AttributeRef) for f in factors for t in f.terms)
        self._reads = frozenset[int]().union(*(attributes_of(t.attribute) for f in factors for t in f.terms))
        self._timed = TIME_INDEX in self._reads
        ranges = [_range_of(factor) for factor in factors]
        self._ranges = [
            factor_range for factor_range in ranges if factor_range is not None and factor_range.column >= 0
        ]
        self._ordered = [
            factor_range for factor_range in ranges if factor_range is not None and factor_range.column < 0
        ]
        self._ranged = tuple([factor_range.factor for factor_range in ranges if factor_range is not None])
        self._rest = tuple(
            [factor for factor, factor_range in zip(factors, ranges, strict=True) if factor_range is None]
        )

    @cached_property
    def _by_key(self) -> KeySearch:
        """The look-ups of the clause in key indexes. The search must have a pool of them."""
        assert self._keys is not None
        return KeySearch(self._factors, self._keys)

    @property
    def kind(self) -> str:
        """A label for statistics of speed: the number of columns read, and whether texts or expressions are read."""
        texts = any(t.attribute.type.kind is Kind.TEXT for f in self._factors for t in f.terms)
        return f"{len(self._reads)} columns{', texts' * texts}{', expressions' * (not self._plain)}"

    def reads(self, chunk: Chunk) -> TypeGuard[ArchivedChunk]:
        """Whether a search reads the tuples of a chunk that is on disk. O(factors)."""
        return isinstance(chunk, ArchivedChunk) and not zone_excludes(self._factors, chunk.zones)

    def expect(self, chunk: Chunk) -> None:
        """Announce that the chunk will be searched soon, so that a chunk on disk can be prefetched."""
        if self.reads(chunk):
            chunk.expect(self._reads)

    def may_look_up(self, chunks: Sequence[Chunk]) -> bool:
        """Whether some of the chunks may have a key index. O(chunks)."""
        return self._keys is not None and any(chunk.caches.keyed for chunk in chunks)

    def look_up(
        self, parts: Sequence[Part], budget: ReadBudget = UNBOUNDED
    ) -> tuple[list[tuple[int, SearchResult]], Sequence[int]]:
        """Look up matching rows by key indexes, in parts of chunks. Call it only if `may_look_up`.

        Returns results with at least one row, by part number, and the numbers of the parts that `find` must search.
        O(parts + rows that pass one factor).
        """
        rows_found, left = self._by_key.look_up(parts)
        if len(left) < len(parts):
            whole = sum([stop - start for _, start, stop in parts])
            budget.examine(whole - sum([parts[k][2] - parts[k][1] for k in left]))
        results = [(number, self._satisfied(parts[number][0], rows, budget)) for number, rows in rows_found]
        return [result for result in results if len(result[1].offsets) or result[1].errors], left

    def _satisfied(self, chunk: Chunk, looked_up: LookedUp, budget: ReadBudget) -> SearchResult:
        """The looked-up rows that satisfy all factors. Tests only factors that the look-up has not decided."""
        offsets, decided = looked_up.offsets, looked_up.decided
        if not isinstance(chunk, ChunkView):
            return self._tested(chunk, offsets, [factor for factor in self._factors if factor is not decided], budget)
        for _, index, interval in self._ordered:
            low, high = np.searchsorted(offsets, _cut(chunk, index, interval, 0, len(chunk)))
            offsets = offsets[low:high]
        for factor, index, interval in self._ranges:
            if factor is not decided and len(offsets):
                offsets = _within(chunk, index, interval, offsets)
        return self._tested(chunk, offsets, [factor for factor in self._rest if factor is not decided], budget)

    def find(self, chunk: Chunk, start: int, stop: int, budget: ReadBudget = UNBOUNDED) -> SearchResult:
        """Find the matching rows of a chunk in [start, stop). O(rows * ranges / 32) if ranges decide."""
        budget.examine(stop - start)
        if isinstance(chunk, ArchivedChunk):
            excluded = zone_excludes(self._factors, chunk.zones)
            return SearchResult(_NOTHING) if excluded else self._find_stored(chunk, start, stop, budget)
        assert isinstance(chunk, ChunkView)
        if (self._rest and zone_excludes(self._rest, Zones(chunk))) or self._excluded(chunk):
            return SearchResult(_NOTHING)
        for _, index, interval in self._ordered:
            start, stop = _cut(chunk, index, interval, start, stop)
        if start >= stop:
            return SearchResult(_NOTHING)
        tests = []
        for _, index, interval in self._ranges:
            codes = narrowed(chunk, index)
            span = codes.span(interval)
            if span.last < span.first:
                return SearchResult(_NOTHING)
            tests.append(_Test(interval, index, codes, span, codes.share(span)))
        tests.sort(key=lambda test: test.share)
        if self._keys is not None and _WHOLE * (stop - start) >= len(chunk):
            if tests and are_few(tests[0].share, len(chunk)):
                self._by_key.note(chunk, tests[0].index)
            elif self._rest:
                self._by_key.note_slow(chunk)
        if not tests:
            return self._scan(self._rest, chunk, start, stop, budget)
        offsets = _passing(tests, start, stop)
        for test in tests:
            if not test.span.exact and len(offsets):
                offsets = _confirmed(chunk, test, offsets)
        return self._tested(chunk, offsets, self._rest, budget)

    def _find_stored(self, chunk: ArchivedChunk, start: int, stop: int, budget: ReadBudget) -> SearchResult:
        """Find the rows of a chunk on disk: first by the range with the smallest estimate, then by the other factors.

        No codes are kept with the chunk: they would outlive the cached columns.
        """
        ranges = sorted(self._ranges, key=lambda factor_range: _share(factor_range, chunk.zones))
        for factor, index, interval in ranges[:1]:
            low = _LOW if interval.low is None else int(interval.low)
            last = _LAST if interval.high is None else int(interval.high) - 1
            offsets = chunk.source.within(chunk.attribute(index), low, last)
            if offsets is not None:
                if self._keys is not None and are_few(len(offsets) / len(chunk), len(chunk)):
                    self._by_key.note(chunk, index)
                first, end = np.searchsorted(offsets, (start, stop))
                others = [other for other in self._factors if other is not factor]
                return self._tested(chunk, offsets[first:end], others, budget)
        return self._scan(self._factors, chunk, start, stop, budget)

    def _excluded(self, chunk: ChunkView) -> bool:
        """Whether a range excludes all rows. Zones are consulted only if the column has no narrow codes yet."""
        coded = all(factor_range.column in chunk.caches.narrow for factor_range in self._ranges) and not self._ordered
        return not coded and zone_excludes(self._ranged, Zones(chunk))

    def _scan(self, factors: Sequence[Factor], chunk: Chunk, start: int, stop: int, budget: ReadBudget) -> SearchResult:
        """Test the factors on the values of all rows in [start, stop)."""
        columns: Sequence[Column]
        if isinstance(chunk, ArchivedChunk):
            columns = LazyColumns(chunk, start, stop)
        else:
            columns = [column.slice(start, stop) for column in chunk.columns]
        times = chunk.times[start:stop] if self._timed else _NOTHING
        compute = every_row(budget, self._wary)
        result = scan(factors, columns, chunk.ids_of(start, stop), times, self._texts, compute)
        return SearchResult(_offsets(_padded(result.mask), start), result.errors)

    def _tested(self, chunk: Chunk, offsets: Array, factors: Sequence[Factor], budget: ReadBudget) -> SearchResult:
        """The rows of `offsets` that satisfy `factors`, with the number of errors."""
        if not factors or not len(offsets):
            return SearchResult(offsets)
        used = frozenset[int]().union(*(attributes_of(t.attribute) for f in factors for t in f.terms))
        columns = [chunk.take(k, offsets) if k in used else _UNREAD for k in range(max(used, default=-1) + 1)]
        times = chunk.take(TIME_INDEX, offsets).values if self._timed else _NOTHING
        compute = every_row(budget, self._wary)
        result = scan(factors, columns, chunk.places.ids(offsets), times, self._texts, compute)
        return SearchResult(offsets[result.mask.view(np.bool_)], result.errors)


def _range_of(factor: Factor) -> _Range | None:
    """The factor as a single range of a column. None for any other factor."""
    if len(factor.terms) != 1:
        return None
    term = factor.terms[0]
    ref = term.attribute
    if not isinstance(ref, AttributeRef) or ref.type.kind is Kind.TEXT or term.nulls or len(term.intervals) != 1:
        return None
    return _Range(factor, ref.index, term.intervals[0])


def _share(factor_range: _Range, zones: Mapping[int, Zone]) -> float:
    """The estimated part of a chunk's rows in a range, assuming evenly spread values."""
    zone = zones.get(factor_range.column)
    if zone is None or not isinstance(zone.least, int) or not isinstance(zone.greatest, int):
        return 1.0
    low, high = factor_range.interval.low, factor_range.interval.high
    first = zone.least if low is None else max(int(low), zone.least)
    last = zone.greatest if high is None else min(int(high) - 1, zone.greatest)
    return (last - first + 1) / (zone.greatest - zone.least + 1)


def _cut(chunk: ChunkView, index: int, interval: Interval, start: int, stop: int) -> tuple[int, int]:
    """The rows of [start, stop) whose `_id` or `_time` is in an interval."""
    for bound, first in ((interval.low, True), (interval.high, False)):
        if bound is None:
            continue
        at = chunk.places.row_from(int(bound)) if index == ID_INDEX else int(np.searchsorted(chunk.times, int(bound)))
        start, stop = (max(start, at), stop) if first else (start, min(stop, at))
    return start, stop


def _passing(tests: list[_Test], start: int, stop: int) -> Array:
    """The rows in [start, stop) whose codes are in the spans of all tests. The most selective test must be first."""
    rows = stop - start
    mask: Array = np.empty((rows + 63) & ~63, np.uint8)
    mask[rows:] = 0
    for number, test in enumerate(tests):
        kernel = codes_mask_and if number else codes_mask
        kernel(test.codes.codes[start:stop], test.span.first, test.span.last, mask[:rows])
    return _offsets(mask, start)


def _padded(mask: Array) -> Array:
    rows = len(mask)
    if not rows & 63:
        return mask
    padded: Array = np.zeros((rows + 63) & ~63, np.uint8)
    padded[:rows] = mask
    return padded


def _offsets(mask: Array, first: int) -> Array:
    """The rows that a mask flags, int64. `first`: the row of its first flag. Its length must be a multiple of 64.

    Counting the flags first is cheaper than allocating too much memory.
    """
    offsets: Array = np.empty(np.count_nonzero(mask.view(np.bool_)), np.int64)
    mask_offsets(mask.view(np.uint64), first, offsets)
    return offsets


def _within(chunk: ChunkView, index: int, interval: Interval, offsets: Array) -> Array:
    """The offsets, which must be few, whose values are in an interval."""
    column = chunk.take(index, offsets)
    keys = column.order_keys()
    inside: Array = np.ones(len(keys), np.bool_) if column.valid is None else column.valid
    if interval.low is not None:
        inside &= keys >= interval.low
    if interval.high is not None:
        inside &= keys < interval.high
    return offsets[inside]


def _confirmed(chunk: Chunk, test: _Test, offsets: Array) -> Array:
    """The offsets without the rows whose values are outside the interval of a test with inexact codes.

    Only rows with the first or the last code of the interval are compared by their values.
    """
    codes = test.codes.codes[offsets]
    edge = np.flatnonzero((codes == test.span.first) | (codes == test.span.last))
    keys = chunk.take(test.index, offsets[edge]).order_keys()
    outside: Array = np.zeros(len(edge), np.bool_)
    if test.interval.low is not None:
        outside |= keys < test.interval.low
    if test.interval.high is not None:
        outside |= keys >= test.interval.high
    return np.delete(offsets, edge[outside]) if outside.any() else offsets
