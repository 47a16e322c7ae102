"""A semi-join by key indexes. A large side of a join keeps only rows that the indexes find for a small side's keys.

    r  50 rows    k: 7 9 …  ──look-ups──> 12 rows of chunk 3, none of chunk 4, 1 of chunk 5 …
    s  16 M rows  by the key index of s.k in each of its chunks, made when it is first needed: `psoup.data.key_room`

The join then pairs the rows that remain. The filter drops only rows without a partner by one equality, so the answer is
the same. It filters a side only if none of its operands can fail, and always leaves one row. So the errors of the sides
stay the same. Chunks without an index keep all their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.config import Shape
from psoup.data.key_index import key_numbers
from psoup.data.key_room import KeyRoom
from psoup.execution.join.located_side import count_of
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.match_forms import KeptBits, Matches, Packed
from psoup.expressions.conversion import comparable
from psoup.expressions.tree import AttributeRef, Expr, of_source
from psoup.joins.key_columns import whole_keys
from psoup.matching.key_search import SLOW, KeyFactor, KeyPlaces
from psoup.model import Kind
from psoup.plan.factors import Factor
from psoup.plan.nodes import Join
from psoup.values.columns import Array, float_keys

_SMALL = 4_096
"""The most rows of the small side."""
_DENSE = 8
"""The filter searches a chunk if at least one row in 8 matches. The join reads fewer rows more quickly than that."""
_NUMBERS = frozenset({Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE})
"""Types whose values the filter compares across types. DECIMAL with DOUBLE has a cast, so its operand is no column."""
_MOST = 2**63 - 1

Sides = Sequence[Sequence[Matches]]


@dataclass(frozen=True, slots=True)
class _LookUp:
    """An equality by which the side `large` can be filtered.

    The values of `operand`, on the side `source`, are searched in the key indexes of `column`.
    """

    source: int
    operand: Expr
    large: int
    column: AttributeRef


def cut_down(node: Join, reading: Reading) -> Sides:
    """Filter the large sides of a join, and return the matches of all sides.

    O(chunks + look-ups). The first time it makes key indexes, in O(rows of the sides). Raises as the read's budget.
    """
    sides = list(reading.matches)
    counts = [count_of(side) for side in sides]
    least, most = min(counts), max(counts)
    if reading.keys is None or not least:
        return sides
    shape = reading.keys.shape
    if most < max(shape.cut_rows, shape.cut_ratio * least):
        return sides
    left = _look_ups(node)
    while True:
        worth = [own for own in left if _is_worth(counts[own.source], counts[own.large], shape)]
        if not worth:
            return sides
        look_up = min(worth, key=lambda own: counts[own.source] / counts[own.large])
        left.remove(look_up)
        numbers = _numbers(look_up, MatchedSide(sides[look_up.source], reading.texts, reading.budget))
        cut = _cut(sides[look_up.large], look_up.column.index, numbers, reading.keys, reading)
        sides[look_up.large] = cut
        counts[look_up.large] = count_of(cut)


def _is_worth(small: int, large: int, shape: Shape) -> bool:
    return small <= _SMALL and large >= max(shape.cut_rows, shape.cut_ratio * small)


def _look_ups(node: Join) -> list[_LookUp]:
    """The equalities by which sides can be filtered, in both directions."""
    operands = list[tuple[tuple[int, Expr], tuple[int, Expr]]]()
    for factor in (*node.keys, *node.bands):
        own, other = comparable(factor.left, factor.right)
        operands.append(((factor.sources[0], own), (factor.sources[1], other)))
    computed = {source for both in operands for source, expr in both if not isinstance(expr, AttributeRef)}
    found = list[_LookUp]()
    for both in operands[: len(node.keys)]:
        for (source, operand), (large, column) in (both, both[::-1]):
            compares = operand.type.kind is column.type.kind or {operand.type.kind, column.type.kind} <= _NUMBERS
            if compares and large not in computed and isinstance(column, AttributeRef) and _has_index(column):
                found.append(_LookUp(source, of_source(operand, 0), large, column))
    return found


def _has_index(column: AttributeRef) -> bool:
    return column.index >= 0 and column.type.kind is not Kind.BOOLEAN


def _numbers(look_up: _LookUp, side: MatchedSide) -> Array:
    """The distinct values of an operand, as int64 in the form of the column's key indexes.

    Values that the type of the column cannot have are left out.
    """
    (own,) = side.columns([look_up.operand])
    wanted, kinds = look_up.column.type, (own.type.kind, look_up.column.type.kind)
    if own.valid is not None:
        own = own.take(np.flatnonzero(own.valid))
    if kinds == (Kind.DOUBLE, Kind.BIGINT):
        whole, can = whole_keys(own.values, "eq")
        return np.unique(whole[can])
    if kinds == (Kind.BIGINT, Kind.DOUBLE):
        floats = own.values.astype(np.float64)
        back, can = whole_keys(floats, "eq")
        return np.unique(float_keys(floats[can & (back == own.values)]))
    if wanted.scale == own.type.scale:
        return np.unique(key_numbers(own))
    factor = 10 ** abs(wanted.scale - own.type.scale)
    if wanted.scale < own.type.scale:
        return np.unique(own.values[own.values % factor == 0] // factor)
    most = _MOST // factor
    return np.unique(own.values[(own.values <= most) & (own.values >= -most)] * factor)


def _cut(matches: Sequence[Matches], column: int, numbers: Array, room: KeyRoom, reading: Reading) -> Sequence[Matches]:
    """Keep only the matches whose value in `column` is among `numbers`, in chunks with a key index.

    At least one match remains. Returns `matches` unchanged if the filter would drop too few of them.
    """
    kept: list[Matches | None] = list(matches)
    dense = [(k, match.data, match.count) for k, match in enumerate(matches) if match.count * _DENSE >= len(match.data)]
    for k, chunk, _ in dense:
        soon = k < len(matches) - 1 and chunk.in_memory  # the last chunk may be open and still get tuples
        weight = room.shape.key_probes if soon else SLOW
        if room.probed(chunk, column, weight):
            reading.budget.check()
            room.make(chunk, column)
    key = KeyFactor(Factor(()), column, numbers, numbers)
    parts = [(chunk, 0, len(chunk)) for _, chunk, _ in dense]
    places = KeyPlaces(key, parts)
    if int(places.counts.sum()) * room.shape.cut_worth > sum([dense[number][2] for number in places.numbers]):
        return matches
    fewest: Array = np.zeros(len(parts), np.int64)
    fewest[places.numbers] = places.counts
    for number in places.numbers:
        kept[dense[number][0]] = None
    for number, found in places.taken(fewest, parts):
        k, chunk, _ = dense[number]
        match = matches[k]
        rows = match.among(found.offsets) if isinstance(match, KeptBits) else _common(match.offsets, found.offsets)
        if len(rows):
            kept[k] = Packed(chunk, int(rows[0]), len(rows), rows.astype(np.uint16))
    some = [match for match in kept if match is not None]
    return some or [_one_row(matches)]


def _common(offsets: Array, rows: Array) -> Array:
    """The intersection of `rows` and `offsets`. Both are ascending."""
    first, last = int(offsets[0]), int(offsets[-1])
    low, high = np.searchsorted(rows, (first, last + 1))
    rows = rows[low:high]
    if last - first + 1 == len(offsets):
        return rows
    return rows[offsets[np.searchsorted(offsets, rows)] == rows]


def _one_row(matches: Sequence[Matches]) -> Packed:
    match = next(match for match in matches if match.count)
    return Packed(match.data, int(match.offsets[0]), 1, None)
