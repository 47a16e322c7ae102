"""Key search: the rows of a selective factor, looked up by indexes in many closed chunks at once.

    factors    a = 7       b IN (3, 9)   c < 5        factors on one column, with few intervals
    chunk 4    index       index                      the factor with the fewest rows is used
    chunk 5    -           index: 9,000 rows          too many: it is searched
    chunk 6    -           -                          it is searched, which is counted: `psoup.data.key_room`

A look-up gives a superset of the matching rows. The caller tests the other factors on these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.chunk import ChunkView
from psoup.data.key_index import KeyIndex, text_numbers
from psoup.data.key_room import KeyRoom
from psoup.expressions.tree import AttributeRef
from psoup.invariants import ensure
from psoup.kernels.search.key_index import find_keys, take_found
from psoup.model import Kind
from psoup.plan.factors import Factor, Interval
from psoup.values.columns import Array

Part = tuple[Chunk, int, int]
"""A chunk, and the first and the end row of a part of it."""

_MAX_INTERVALS = 1_024
"""The most intervals of a factor that is looked up."""
_MAX_FACTORS = 4
"""The most factors of a clause that are looked up."""
_LEAST = 16
"""The rows of a chunk that may always be looked up, whatever their share: see `psoup.config.Shape.key_share`."""
_FEW = 1_024
"""A key index pays if a search finds at most 1 in this many rows. Narrow codes find 256 of 65,536 rows as fast."""
_HOPELESS = 4
"""The factor by which the estimated rows of a range may exceed the limit. Above it, the range is not looked up."""
_COMPARED = 64
"""The most texts that are compared one by one, which takes less than a scan of few rows."""
SLOW = 4
"""A search for texts or for several intervals counts as this many searches, because it reads the values themselves."""
_TOO_MANY = 2**62
_LOW = -(2**63)
"""The least key."""
_LAST = 2**63 - 1
"""The greatest key."""


@dataclass(frozen=True, slots=True)
class KeyFactor:
    """A factor whose rows may be looked up. `lows`, `lasts`: the ends of its intervals of index keys, int64[k].

    The intervals ascend and include both ends. For texts, the index keys are hashes.
    """

    factor: Factor
    column: int
    lows: Array
    lasts: Array
    texts: frozenset[bytes] = frozenset()
    """The texts whose hashes are `lows`, for a column of texts."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Rows of a part (int64, ascending) that may match. `decided`: a factor that all of them satisfy, if any."""

    offsets: Array
    decided: Factor | None


def _key_factor(factor: Factor) -> KeyFactor | None:
    """The factor as intervals of index keys. None if it accepts NULL, has too many intervals, or ranges of texts."""
    (term,) = factor.terms
    ref, intervals = term.attribute, term.intervals
    assert isinstance(ref, AttributeRef)
    if term.nulls or not 0 < len(intervals) <= _MAX_INTERVALS:
        return None
    if ref.type.kind is not Kind.TEXT:
        lows = [_LOW if i.low is None else int(i.low) for i in intervals]
        lasts = [_LAST if i.high is None else int(i.high) - 1 for i in intervals]
        return KeyFactor(factor, ref.index, np.array(lows, np.int64), np.array(lasts, np.int64))
    if not all(map(_is_text, intervals)):
        return None
    texts = frozenset(i.low for i in intervals if isinstance(i.low, bytes))
    numbers = np.unique(_numbers(list(texts)))
    return KeyFactor(factor, ref.index, numbers, numbers, texts)


def _is_text(interval: Interval) -> bool:
    """Whether an interval of texts contains a single text."""
    low, high = interval.low, interval.high
    return isinstance(low, bytes) and isinstance(high, bytes) and high == low + b"\0"


def _numbers(texts: Sequence[bytes]) -> Array:
    offsets: Array = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return text_numbers(offsets, np.frombuffer(b"".join(texts), np.uint8).copy())


class KeySearch:
    """Look-ups for one clause. Any number of threads."""

    def __init__(self, factors: Sequence[Factor], room: KeyRoom) -> None:
        self._room = room
        self._left = room.shape.keys_at_once
        self._share = room.shape.key_share
        self._factors = [(column, factor) for factor in factors if (column := _column_of(factor)) >= 0]
        self._slow: int | None = None

    def look_up(self, parts: Sequence[Part]) -> tuple[list[tuple[int, LookedUp]], Sequence[int]]:
        """Look up rows in parts of chunks. O(parts + rows found).

        Returns the results with at least one row, by part number. Also returns the numbers of parts that need a search.
        """
        indexed = [keyed for chunk, _, _ in parts if (keyed := chunk.caches.keyed)]
        results, looked = list[tuple[int, LookedUp]](), list[KeyPlaces]()
        for column, factor in self._factors:
            index = next(
                (index for part_counts in indexed if isinstance(index := part_counts.get(column), KeyIndex)), None
            )
            if index is None or len(looked) == _MAX_FACTORS or self._is_hopeless(factor, index):
                continue
            if (by_key := _key_factor(factor)) is not None:
                looked.append(KeyPlaces(by_key, parts))
        if not looked:
            return results, range(len(parts))
        fewest: Array = np.full(len(parts), _TOO_MANY, np.int64)
        for places in looked:
            part_counts = places.counts if len(looked) == 1 else np.minimum(fewest[places.numbers], places.counts)
            fewest[places.numbers] = part_counts
        if fewest.max() > _LEAST:
            for number in np.flatnonzero(fewest > _LEAST).tolist():
                if fewest[number] > len(parts[number][0]) // self._share:
                    fewest[number] = _TOO_MANY
        for places in looked:
            results += places.taken(fewest, parts)
        return results, np.flatnonzero(fewest == _TOO_MANY).tolist()

    def note(self, chunk: Chunk, column: int, weight: int = 1) -> None:
        """Record that a column of a closed chunk was searched for few rows. Makes its index after enough searches."""
        if column >= 0 and self._room.probed(chunk, column, weight) and self._left > 0:
            self._left -= 1
            self._room.make(chunk, column)

    def note_slow(self, chunk: ChunkView) -> None:
        """Record that a closed chunk was searched for factors that narrow codes do not serve."""
        self.note(chunk, self._slow_column(), SLOW)

    def _slow_column(self) -> int:
        """The column of a factor that narrow codes cannot serve, or -1."""
        if self._slow is None:
            by_key = (_key_factor(factor) for _, factor in self._factors if not _is_range(factor))
            self._slow = next((key_factor.column for key_factor in by_key if key_factor is not None), -1)
        return self._slow

    def _is_hopeless(self, factor: Factor, index: KeyIndex) -> bool:
        """Whether a range would select too many rows of a chunk, assuming evenly spread values."""
        if not _is_range(factor):
            return False
        count, lowest, greatest = index.facts[2:5].tolist()
        low, high = factor.terms[0].intervals[0].low, factor.terms[0].intervals[0].high
        first = lowest if low is None else max(int(low), lowest)
        last = greatest if high is None else min(int(high) - 1, greatest)
        share = (last - first + 1) / (greatest - lowest + 1)
        return share * self._share > _HOPELESS and share * count > _HOPELESS * _LEAST


def are_few(share: float, rows: int) -> bool:
    """Whether a share of a chunk's rows is so small that an index finds them much faster than narrow codes."""
    return share * _FEW <= 1 or share * rows <= _LEAST


def _column_of(factor: Factor) -> int:
    """The column of a factor that may have an index, or -1."""
    ref = factor.terms[0].attribute if len(factor.terms) == 1 else None
    return ref.index if isinstance(ref, AttributeRef) and ref.type.kind is not Kind.BOOLEAN else -1


def _is_range(factor: Factor) -> bool:
    """Whether narrow codes serve a factor on one column."""
    return factor.terms[0].attribute.type.kind is not Kind.TEXT and len(factor.terms[0].intervals) == 1


class KeyPlaces:
    """The rows that a factor selects in the parts whose chunks have an index of its column.

    `numbers`: the numbers of these parts. `counts`: the number of rows in each, int64.
    """

    def __init__(self, by_key: KeyFactor, parts: Sequence[Part]) -> None:
        self._by_key = by_key
        self.numbers = list[int]()
        self._indexes = list[KeyIndex]()
        for number, (chunk, _, _) in enumerate(parts):
            index = chunk.caches.keyed.get(by_key.column)
            if isinstance(index, KeyIndex):
                index.used = True
                self.numbers.append(number)
                self._indexes.append(index)
        size = (len(self.numbers), len(by_key.lows))
        self._at: Array = np.array([index.place for index in self._indexes], np.int64)
        self._begin = np.empty(size, np.int32)
        self._end = np.empty(size, np.int32)
        self.counts: Array = np.empty(size[0], np.int64)
        if size[0]:
            find_keys(self._at, by_key.lows, by_key.lasts, self._begin, self._end, self.counts)

    def taken(self, fewest: Array, parts: Sequence[Part]) -> Iterator[tuple[int, LookedUp]]:
        """Yield the rows of parts in which no other factor selects fewer rows, and set their entries of `fewest` to
        0."""
        left = fewest[self.numbers]
        which = np.flatnonzero((self.counts == left) & (left > 0))
        if not len(which):
            return
        rows: Array = np.empty(int(self.counts[which].sum()), np.int64)
        ascending = take_found(self._at, which, self._begin, self._end, rows)
        ensure(ascending, "a look-up by keys", "a row was found twice", chunks=which, rows=rows)
        stop = 0
        for at in which.tolist():
            number, index = self.numbers[at], self._indexes[at]
            chunk, low, high = parts[number]
            start, stop = stop, stop + int(self.counts[at])
            part_rows = rows[start:stop]
            if high - low < len(chunk):
                first, last = np.searchsorted(part_rows, (low, high))
                part_rows = part_rows[first:last]
            fewest[number] = 0
            exact, texts = index.exact, self._by_key.texts
            if texts and len(part_rows) <= _COMPARED:
                exact, part_rows = True, _holding(chunk, self._by_key.column, texts, part_rows)
            if len(part_rows):
                yield number, LookedUp(part_rows, self._by_key.factor if exact else None)


def _holding(chunk: Chunk, column: int, texts: frozenset[bytes], rows: Array) -> Array:
    """The rows, which are few, that hold one of some texts."""
    if not chunk.in_memory:
        taken = chunk.take(column, rows)
        ends, data, rows_of = taken.values, taken.data, np.arange(len(rows))
    else:
        ends, data, rows_of = chunk.columns[column].values, chunk.columns[column].data, rows
    assert data is not None
    spans = zip(ends[rows_of].tolist(), ends[rows_of + 1].tolist(), strict=True)
    holding: Array = np.array([data[start:stop].tobytes() in texts for start, stop in spans], np.bool_)
    return rows if holding.all() else rows[holding]
