"""Twins of `psoup.kernels.join.small_join`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.code_columns import gather_coded, may_be_null
from psoup.kernels.plain.join.small_pairs import _keyed, _pairs_by
from psoup.kernels.plain.rows.batch_body import lay_out
from psoup.kernels.plain.search.result_rows import locate, write_rows

_NOTHING: Array = np.zeros(0, np.uint8)


def answer_located(
    chunks: Array,
    low: int,
    high: int,
    sqc_id: int,
    slot: int,
    size: int,
    located: Array,
    sources: Array,
    stride: int,
    other_chunks: Array,
    other_low: int,
    other_high: int,
    other_sqc_id: int,
    other_slot: int,
    other_size: int,
    other_located: Array,
    other_sources: Array,
    other_stride: int,
    asked: Array,
    shown: Array,
    header: Array,
    numbers: Array,
    small: int,
    looked: int,
    most: int,
    most_bytes: int,
    left: Array,
    right: Array,
    places: Array,
) -> tuple[int, int, int, Array]:
    """See the kernel."""
    if size < 0:
        size = locate(chunks, low, high, sqc_id, slot, located)
    if other_size < 0:
        other_size = locate(other_chunks, other_low, other_high, other_sqc_id, other_slot, other_located)
    if min(size, other_size) <= 0 or max(size, other_size) > small:
        return 0 if min(size, other_size) == 0 else -2, size, other_size, _NOTHING
    one = located, chunks, slot, size, sources, stride
    other = other_located, other_chunks, other_slot, other_size, other_sources, other_stride
    sides, codes = list[tuple[Array, Array]](), list[Array]()
    for side, (found, run, own_slot, count, table, width) in enumerate((one, other)):
        rows, stops = np.empty(count, np.int32), found[:, 4].cumsum()
        write_rows(found, run, own_slot, rows)
        sides.append(_keyed(asked[side], asked[2 + side], table, width, rows, stops))
        codes.append(rows + (np.repeat(np.arange(len(stops)), found[:, 4]) << CODE_SHIFT))
    pairs = _pairs_by(asked, sides[0], sides[1], looked, left, right)
    if pairs <= 0:
        return pairs, size, other_size, _NOTHING
    left[:pairs], right[:pairs] = codes[0][left[:pairs]], codes[1][right[:pairs]]
    tables, head = ((sources, other_sources), (stride, other_stride)), header.copy()
    nullable, nulls = np.zeros(len(shown), np.uint8), np.zeros(len(shown), np.int64)
    parts = tuple((np.flatnonzero(shown[:, 0] == side), *shown[shown[:, 0] == side, 1:].T) for side in (0, 1))
    may_be_null(parts, *tables, nullable)
    buffers = head[numbers[3] : numbers[3] + 2 * numbers[4]].reshape(-1, 2)
    body = lay_out(shown[:, 1], nullable, np.zeros(len(shown), np.int64), pairs, places, buffers)
    if pairs > most or body > most_bytes:
        return pairs, size, other_size, _NOTHING
    out: Array = np.zeros(body, np.uint8)
    gather_coded(parts, *tables, left[:pairs], right[:pairs], places, out, nulls)
    head[numbers[0]], head[numbers[1]] = pairs, body
    nodes = head[numbers[2] : numbers[2] + 2 * len(shown)]
    nodes[::2], nodes[1::2] = pairs, nulls
    return pairs, size, other_size, np.concatenate([head.view(np.uint8), out])
