"""The way that filters the kept pairs of a join by the matches of both sides. It joins only chunks without kept pairs.

                      chunks of the right side   4   5   6   open
    chunks of the left side   7                  k   k   k   ○        k   a block of kept pairs: filtered by both sides
                              8                  k   k   k   ○        ○   no kept pairs: another way joins these chunks
                              open               ○   ○   ○   ○

A block has the pairs of one chunk on the left and one on the right (`psoup.joins.pairs_store`). All pairs are sorted
into the order of FROM. The returned sides have only the rows of these pairs. The way gives up unless two conditions
hold. The kept pairs must not exceed the matches of both sides. At least half of the matches must be in chunks with kept
pairs. It also gives up if an operand cannot be computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psoup.execution.join.bloom_filter import bits_of, cut_by_marks
from psoup.execution.join.join_case import FoundPairs, JoinCase
from psoup.execution.join.lookup_filter import cut_down
from psoup.execution.join.sides import MatchedSide
from psoup.execution.select.match_forms import Matches, Packed
from psoup.joins.budget import JoinBudget
from psoup.joins.from_order import in_from_order
from psoup.joins.pairs_store import PairRow, PairTable
from psoup.kernels.join.stored_pairs import meet_kept, number_rows
from psoup.plan.way import TryNext
from psoup.values.columns import Array

_FEW = 16_384
"""The most kept pairs to filter if the caller reads only the first rows. It takes some 50 us."""
_HOLES = 4
"""The most joins of chunks without kept pairs."""
_SHIFT = 16
"""The code of a row is the place of its match << 16, plus its offset in the chunk."""
_BYTES = 64
"""Bytes that a pair takes until all pairs are sorted."""

Side = Sequence[Matches]


class _Hole(NamedTuple):
    """Chunks of both sides between which there are no kept pairs, by the places of their matches."""

    lefts: list[int]
    rights: list[int]


class _Use(NamedTuple):
    """The blocks of kept pairs that an answer uses.

    `rows`: for each match on the left its place, its row of the table, and its blocks. These are int64, one for each
    match on the right, -1 for none. `holes`: the chunks to be joined. `pairs`: the number of pairs in the blocks.
    """

    rows: list[tuple[int, PairRow, Array]]
    holes: list[_Hole]
    pairs: int


def accepts(case: JoinCase) -> bool:
    """Whether maintenance keeps pairs of this join."""
    return case.reading.pairs is not None


def kept_pairs(case: JoinCase) -> FoundPairs:
    """Find the rows of a join from its kept pairs. The sides of the result have only rows that are in a pair.

    Raises TryNext if joining would be quicker, ResourceExhausted, and the errors of the read's budget.
    """
    reading = case.reading
    assert reading.pairs is not None
    sides = [[match for match in matches if match.count] for matches in reading.matches]
    use = _use(reading.pairs, *sides, few=case.few)
    room = JoinBudget(reading.joins, reading.budget)
    try:
        codes = _codes_of(use, case, sides, room)
    except BaseException:
        room.close()
        raise
    limits = reading.texts, reading.budget, reading.joins.bytes
    numbered = [_numbered(side, own) for side, own in zip(sides, codes, strict=True)]
    opened = [MatchedSide(matches, *limits) for matches, _ in numbered]
    return FoundPairs(opened, _pieces([positions for _, positions in numbered], room.limits.rows), room)


def count_kept_pairs(case: JoinCase) -> int:
    """Count the rows. Raises as `kept_pairs`."""
    found = kept_pairs(case)
    try:
        return sum([len(piece[0]) for piece in found])
    finally:
        found.close()
        for side in found.sides:
            side.close()


def _pieces(positions: Sequence[Array], most: int) -> list[list[Array]]:
    return [[own[start : start + most] for own in positions] for start in range(0, len(positions[0]), most)]


def _codes_of(use: _Use, case: JoinCase, sides: Sequence[Side], room: JoinBudget) -> list[Array]:
    """All pairs as two arrays of codes, one for each side, in the order of FROM."""
    room.hold(_BYTES * use.pairs, "its kept pairs")
    parts = [_met(use, *sides)]
    for hole in use.holes:
        found = _found(hole, case, sides)
        room.hold(_BYTES * len(found[0]), "tuples to be sorted")
        parts.append(found)
    codes = [np.concatenate(own) for own in zip(*parts, strict=True)] if len(parts) > 1 else list(parts[0])
    codes = in_from_order(codes, [len(side) << _SHIFT for side in sides])
    room.look(use.pairs, "its kept pairs")
    return codes


def _use(table: PairTable, lefts: Side, rights: Side, *, few: bool) -> _Use:
    """Choose the blocks to use. Raises TryNext if joining would be quicker. O(chunks of both sides)."""
    numbers = np.array([match.data.number for match in rights], np.int64)
    counts = np.array([match.count for match in lefts], np.int64), np.array([match.count for match in rights], np.int64)
    rows, holes, pairs = list[tuple[int, PairRow, Array]](), dict[bytes, _Hole](), 0
    nowhere: Array = np.ones(len(numbers), np.bool_)
    left_out = 0
    for place, match in enumerate(lefts):
        row = table.row(match.data.number)
        blocks = None if row is None else _blocks(row, numbers, table.least)
        if row is None or blocks is None:
            missing: Array = np.ones(len(numbers), np.bool_)
        else:
            missing, has = blocks < 0, np.flatnonzero(blocks >= 0)
            pairs += int((row.starts[blocks[has] + 1] - row.starts[blocks[has]]).sum())
            nowhere &= missing
            rows.append((place, row, blocks))
        if missing.any():
            hole = holes.setdefault(missing.tobytes(), _Hole([], np.flatnonzero(missing).tolist()))
            hole.lefts.append(place)
            left_out += int(counts[0][place]) if missing.all() else 0
    met = int(counts[0].sum() + counts[1].sum())
    left_out += int(counts[1][nowhere].sum())
    if not rows or len(holes) > _HOLES or 2 * left_out > met or pairs > (min(met, _FEW) if few else met):
        raise TryNext
    return _Use(rows, list(holes.values()), pairs)


def _blocks(row: PairRow, numbers: Array, least: int) -> Array:
    """For each chunk number on the right, the place of its block in `row`, or -1 without kept pairs."""
    blocks = numbers - row.first
    inside = (numbers >= least) & (blocks >= 0) & (blocks < len(row.kept))
    inside[inside] = row.kept[blocks[inside]]
    return np.where(inside, blocks, -1)


def _met(use: _Use, lefts: Side, rights: Side) -> list[Array]:
    """The kept pairs whose two rows are among the matches, as two arrays of codes."""
    spans: Array = np.full((len(rights), 3), -1, np.int64)
    bits = list[Array]()
    for place, match in enumerate(rights):
        start, stop, own = bits_of(match)
        spans[place, :2] = start, stop
        if len(own):
            spans[place, 2] = len(bits)
            bits.append(own)
    words = max(map(len, bits), default=0)
    together: Array = np.zeros((len(bits), words), np.uint64)
    for place, own in enumerate(bits):
        together[place, : len(own)] = own
    out, at = np.empty((2, use.pairs + 1), np.int64), 0
    for place, row, blocks in use.rows:
        start, stop, own = bits_of(lefts[place])
        has = np.flatnonzero(blocks >= 0)
        span: Array = np.array([start, stop], np.int64)
        at = meet_kept(
            row.left, row.right, row.starts, blocks[has], place, span, own, has, spans, together, out[0], out[1], at
        )
    return [out[0, :at], out[1, :at]]


def _found(hole: _Hole, case: JoinCase, sides: Sequence[Side]) -> list[Array]:
    """Join the chunks of a hole by another way. Returns the pairs as two arrays of codes.

    Raises TryNext for too many pairs to sort, for a chunk on disk, or for a failed value.
    """
    node, reading = case.node, case.reading
    parts = [[side[place] for place in places] for side, places in zip(sides, hole, strict=True)]
    part = replace(reading, matches=parts, pairs=None)
    cut = cut_by_marks(node, cut_down(node, part), part)
    if not all(cut):
        return [np.zeros(0, np.int64)] * 2
    of = [_places(side, parts[k], hole[k]) for k, side in enumerate(cut)]
    limits = reading.texts, reading.budget, reading.joins.bytes
    own_case = JoinCase(node, part, case.ways, opened=[MatchedSide(side, *limits) for side in cut])
    if not own_case.in_memory:
        own_case.close()
        raise TryNext
    pieces, total = list[list[Array]](), 0
    found = own_case.pieces()
    try:
        for piece in found:
            pieces.append([_codes(side, places, own) for side, places, own in zip(found.sides, of, piece, strict=True)])
            total += len(piece[0])
            if total > reading.joins.kept:
                raise TryNext
        if found.errors:
            raise TryNext
    finally:
        found.close()
        own_case.close()
    return [np.concatenate(own) for own in zip(*pieces, strict=True)] if pieces else [np.zeros(0, np.int64)] * 2


def _places(cut: Side, part: Side, places: Sequence[int]) -> list[int]:
    """The place of each match of `cut` among all matches of the side. `places`: the same for each match of `part`."""
    known = {match.data.number: place for match, place in zip(part, places, strict=True)}
    return [known[match.data.number] for match in cut if match.count]


def _codes(side: MatchedSide, places: Sequence[int], positions: Array) -> Array:
    """The codes of the rows at `positions` of a part of a side. `places`: the place of each match in the whole side."""
    memory = side.memory
    parts = np.searchsorted(memory.stops, positions, "right")
    return (np.array(places, np.int64)[parts] << _SHIFT) + memory.rows[positions]


def _numbered(side: Side, codes: Array) -> tuple[list[Packed], Array]:
    """The rows of a side that the codes name, as matches, and the position of each code among these rows."""
    rows, positions = np.empty(len(codes), np.int64), np.empty(len(codes), np.int32)
    marks: Array = np.zeros(len(side) << (_SHIFT - 6), np.uint64)
    rows = rows[: number_rows(codes, marks, rows, positions)]
    edges = np.searchsorted(rows, np.arange(len(side) + 1) << _SHIFT).tolist()
    offsets = rows.astype(np.uint16)
    return [
        Packed(match.data, int(offsets[start]), stop - start, offsets[start:stop])
        for match, start, stop in zip(side, edges[:-1], edges[1:], strict=True)
        if start < stop
    ], positions
