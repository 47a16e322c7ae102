"""Twins of `psoup.kernels.join.small_outer`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.arrays import BatchPlaces, PairLimits, PairQuestion, SideArrays
from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.outer_pairs import merge_missing
from psoup.kernels.plain.join.small_join import _NOTHING, _message
from psoup.kernels.plain.join.small_pairs import _keyed, _pairs_by
from psoup.kernels.plain.search.result_rows import locate, write_rows


def answer_outer(
    left_side: SideArrays,
    right_side: SideArrays,
    question: PairQuestion,
    shown: Array,
    header: Array,
    batch: BatchPlaces,
    limits: PairLimits,
    left: Array,
    right: Array,
    places: Array,
) -> tuple[int, int, int, Array]:
    """See the kernel."""
    left_side, right_side, question = SideArrays(*left_side), SideArrays(*right_side), PairQuestion(*question)
    limits = PairLimits(*limits)
    size, other_size = (
        each.size if each.size >= 0 else locate(*each[:5], each.located) for each in (left_side, right_side)
    )
    if size == 0 <= other_size:
        return 0, size, other_size, _NOTHING
    if min(size, other_size) < 0 or max(size, other_size) > limits.side_rows:
        return -2, size, other_size, _NOTHING
    keys = (question.kind, question.column), (question.other_kind, question.other_column)
    sides, codes = list[tuple[Array, Array]](), list[Array]()
    for each, count, key in zip((left_side, right_side), (size, other_size), keys, strict=True):
        rows, stops = np.empty(count, np.int32), each.located[:, 4].cumsum()
        write_rows(each.located, each.chunks, each.slot, rows)
        if other_size:
            sources = each.sources[: len(stops) * each.stride]
            sides.append(_keyed(*key, sources, each.stride, rows, stops))
        codes.append(rows + (np.repeat(np.arange(len(stops)), each.located[:, 4]) << CODE_SHIFT))
    pairs = _pairs_by(question, sides[0], sides[1], limits.places, left, right) if other_size else 0
    if pairs < 0 or pairs + size > len(left):
        return min(pairs, -1), size, other_size, _NOTHING
    rows, lefts, rights = np.arange(size, dtype=np.int32), left[:pairs].copy(), right[:pairs].copy()
    pairs = merge_missing(rows, lefts, rights, other_size, left, right)
    codes[1] = np.append(codes[1], len(right_side.located) << CODE_SHIFT)
    left[:pairs], right[:pairs] = codes[0][left[:pairs]], codes[1][right[:pairs]]
    message = _message(left_side, right_side, shown, header, BatchPlaces(*batch), limits, left, right, places, pairs)
    return pairs, size, other_size, message
