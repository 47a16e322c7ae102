"""Twins of `psoup.kernels.join.small_join`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.arrays import BatchPlaces, PairLimits, PairQuestion, SideArrays
from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.code_columns import gather_coded, may_be_null
from psoup.kernels.plain.join.small_pairs import _keyed, _pairs_by
from psoup.kernels.plain.rows.batch_body import lay_out
from psoup.kernels.plain.search.result_rows import locate, write_rows

_NOTHING: Array = np.zeros(0, np.uint8)


def answer_located(
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
    batch, limits = BatchPlaces(*batch), PairLimits(*limits)
    size, other_size = (
        each.size if each.size >= 0 else locate(*each[:5], each.located) for each in (left_side, right_side)
    )
    if min(size, other_size) <= 0 or max(size, other_size) > limits.side_rows:
        return 0 if min(size, other_size) == 0 else -2, size, other_size, _NOTHING
    keys = (question.kind, question.column), (question.other_kind, question.other_column)
    sides, codes = list[tuple[Array, Array]](), list[Array]()
    for each, count, key in zip((left_side, right_side), (size, other_size), keys, strict=True):
        rows, stops = np.empty(count, np.int32), each.located[:, 4].cumsum()
        write_rows(each.located, each.chunks, each.slot, rows)
        sides.append(_keyed(*key, each.sources, each.stride, rows, stops))
        codes.append(rows + (np.repeat(np.arange(len(stops)), each.located[:, 4]) << CODE_SHIFT))
    pairs = _pairs_by(question, sides[0], sides[1], limits.places, left, right)
    if pairs <= 0:
        return pairs, size, other_size, _NOTHING
    left[:pairs], right[:pairs] = codes[0][left[:pairs]], codes[1][right[:pairs]]
    message = _message(left_side, right_side, shown, header, batch, limits, left, right, places, pairs)
    return pairs, size, other_size, message


def _message(
    left_side: SideArrays,
    right_side: SideArrays,
    shown: Array,
    header: Array,
    batch: BatchPlaces,
    limits: PairLimits,
    left: Array,
    right: Array,
    places: Array,
    pairs: int,
) -> Array:
    """The message of the tuples that codes name, or nothing if it would pass the limits."""
    tables, head = ((left_side.sources, right_side.sources), (left_side.stride, right_side.stride)), header.copy()
    nullable, nulls = np.zeros(len(shown), np.uint8), np.zeros(len(shown), np.int64)
    parts = tuple((np.flatnonzero(shown[:, 0] == side), *shown[shown[:, 0] == side, 1:].T) for side in (0, 1))
    may_be_null(parts, *tables, nullable)
    buffers = head[batch.buffers : batch.buffers + 2 * batch.buffer_count].reshape(-1, 2)
    body = lay_out(shown[:, 1], nullable, np.zeros(len(shown), np.int64), pairs, places, buffers)
    if pairs > limits.rows or body > limits.bytes:
        return _NOTHING
    out: Array = np.zeros(body, np.uint8)
    gather_coded(parts, *tables, left[:pairs], right[:pairs], places, out, nulls)
    head[batch.rows], head[batch.body] = pairs, body
    nodes = head[batch.nodes : batch.nodes + 2 * len(shown)]
    nodes[::2], nodes[1::2] = pairs, nulls
    return np.concatenate([head.view(np.uint8), out])
