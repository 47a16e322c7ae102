"""The answer of a small join in one call: from where the matches of two sides lie to the bytes of a record batch.

    located ─> rows ─> keys ─> pairs, as positions ─> the bytes, if they are few
                         │                              ├ columns that are the keys: from these
                         └──────────────────────────────┴ the rest: from the chunks, by row, or by code

The steps: see `result_rows`, `small_pairs` and `code_columns`. For some thousand rows their calls from Python,
each with a dozen arrays, took as long as the work.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.join.arrays import BatchPlaces, PairLimits, PairQuestion, SideArrays
from psoup.kernels.join.code_columns import _column, _copy_keys, _nullable_at
from psoup.kernels.join.small_pairs import CODE_SHIFT, _is_key, _pair_by
from psoup.kernels.rows.batch_body import WIDE, _gather_fixed, lay_out
from psoup.kernels.search.result_rows import locate, write_rows

_OFTEN = 2
"""Rows of a side for each pair up to which a column is read in the order of the rows: at random takes twice the time
where nothing is in the cache."""


@njit(cache=True, nogil=True)
def _codes(rows, stops, positions, count):
    """Turn positions into codes of tuples, in place; `rows`, offsets chunk after chunk, become codes, too."""
    start = np.int64(0)
    for part in range(stops.shape[0]):
        code = np.int32(part << CODE_SHIFT)
        for i in range(start, stops[part]):
            rows[i] += code
        start = stops[part]
    for i in range(count):
        positions[i] = rows[np.uint64(positions[i])]


@njit(cache=True, nogil=True)
def _put(column, sources, stride, rows, stops, positions, address):
    """Write a column of 8 bytes at some positions, by way of all rows, which are read in their order."""
    values = np.empty(rows.shape[0], np.int64)
    _gather_fixed(WIDE, column, sources, stride, rows, stops, np.int64(values.ctypes.data))
    _copy_keys(values, positions, address)


@njit(cache=True, nogil=True)
def _size_of(side):
    """The number of matches of a side, located now if they were not; -1 as of `locate`."""
    if side.size >= 0:
        return np.int64(side.size)
    return np.int64(locate(side.chunks, side.low, side.high, side.sqc_id, side.slot, side.located))


@njit(cache=True, nogil=True)
def _laid_out(shown, left_side, right_side, rows, header, batch, places):
    """The header of so many rows, and whether each column may be NULL; `places` is written."""
    columns = shown.shape[0]
    kinds, nullable, texts = np.empty(columns, np.int64), np.empty(columns, np.uint8), np.zeros(columns, np.int64)
    for w in range(columns):
        kinds[w] = shown[w, 1]
        side_sources, width = (
            (right_side.sources, right_side.stride) if shown[w, 0] else (left_side.sources, left_side.stride)
        )
        nullable[w] = _nullable_at(shown[w, 2], side_sources, width)
    head = header.copy()
    buffers = head[batch.buffers : batch.buffers + 2 * batch.buffer_count].reshape(-1, 2)
    head[batch.body] = lay_out(kinds, nullable, texts, rows, places, buffers)
    head[batch.rows] = rows
    return head, nullable


@njit(cache=True, nogil=True)
def answer_located(left_side, right_side, question, shown, header, batch, limits, left, right, places):
    """Pair two sides by one factor; returns how many pairs, how many rows of both sides, and the message of their
    columns, uint8[its size].

    left_side, right_side: `SideArrays`, whose `located` is written here if it was not before. question: `PairQuestion`.
    shown: int64[c, 3], the columns: their side, kind, and place in the schema, none a text. header: int64[h], of a
    batch; batch: `BatchPlaces` in it; limits: `PairLimits`. All are read. left, right: int32[room], written: the pairs
    as codes of tuples, and scratch behind them; places: int64[c, 3], written: as of `lay_out`. Returns -1 or -2 pairs
    as `_pair_by`, and -2 if a side is not small, or not located. The message is empty without a pair, or if it would
    pass the limits. O(rows + places looked at + pairs * c), and as `locate`.
    """
    left_side, right_side, question = SideArrays(*left_side), SideArrays(*right_side), PairQuestion(*question)
    batch, limits, nothing = BatchPlaces(*batch), PairLimits(*limits), np.empty(0, np.uint8)
    size, other_size = _size_of(left_side), _size_of(right_side)
    if min(size, other_size) == 0:
        return np.int64(0), size, other_size, nothing
    if min(size, other_size) < 0 or max(size, other_size) > limits.side_rows:
        return np.int64(-2), size, other_size, nothing
    rows, stops = np.empty(size, np.int32), left_side.located[:, 4].cumsum()
    partner_rows, other_stops = np.empty(other_size, np.int32), right_side.located[:, 4].cumsum()
    if write_rows(left_side.located, left_side.chunks, left_side.slot, rows) != size:
        return np.int64(-2), size, other_size, nothing
    if write_rows(right_side.located, right_side.chunks, right_side.slot, partner_rows) != other_size:
        return np.int64(-2), size, other_size, nothing
    keys, other_keys = np.empty(size, np.int64), np.empty(other_size, np.int64)
    pairs = _pair_by(
        question, rows, stops, left_side.sources, left_side.stride, keys, partner_rows, other_stops,
        right_side.sources, right_side.stride, other_keys, limits.places, left, right,
    )  # fmt: skip
    if pairs <= 0:
        return pairs, size, other_size, nothing
    head, nullable = _laid_out(shown, left_side, right_side, pairs, header, batch, places)
    ready = pairs <= limits.rows and head[batch.body] <= limits.bytes
    out = np.empty(8 * head.shape[0] + head[batch.body], np.uint8) if ready else nothing
    body = out[8 * head.shape[0] :]
    if ready and (not batch.exact or nullable.any()):
        body[:] = 0
    written = np.zeros(shown.shape[0], np.bool_)
    for w in range(shown.shape[0] if ready else 0):
        side = shown[w, 0]
        if _is_key(shown[w], question):
            at = np.int64(body.ctypes.data) + places[w, 1]
            _copy_keys(other_keys if side else keys, (right if side else left)[:pairs], at)
            written[w] = not nullable[w]
        elif shown[w, 1] == WIDE and not nullable[w] and (other_size if side else size) <= _OFTEN * pairs:
            at = np.int64(body.ctypes.data) + places[w, 1]
            if side:
                _put(shown[w, 2], right_side.sources, right_side.stride, partner_rows, other_stops, right[:pairs], at)
            else:
                _put(shown[w, 2], left_side.sources, left_side.stride, rows, stops, left[:pairs], at)
            written[w] = True
    _codes(rows, stops, left, pairs)
    _codes(partner_rows, other_stops, right, pairs)
    for w in range(shown.shape[0] if ready else 0):
        side_sources, width = (
            (right_side.sources, right_side.stride) if shown[w, 0] else (left_side.sources, left_side.stride)
        )
        codes = right if shown[w, 0] else left
        nulls = np.int64(0)
        if not written[w]:
            nulls = _column(shown[w, 1], shown[w, 2], side_sources, width, codes[:pairs], places[w], body)
        head[batch.nodes + 2 * w], head[batch.nodes + 2 * w + 1] = pairs, nulls
    if ready:
        out[: 8 * head.shape[0]] = head.view(np.uint8)
    return pairs, size, other_size, out
