"""The answer of a small join in one call: from where the matches of two sides lie to the bytes of a record batch.

    located ─> rows ─> keys ─> pairs, as positions ─> the bytes, if they are few
                         │                              ├ columns that are the keys: from these
                         └──────────────────────────────┴ the others: from the chunks, by row, or by code

The steps are those of `psoup.kernels.search.result_rows`, `paired` and `coded`. For some thousand rows the calls of one
after the other, each from Python with a dozen arrays, took as long as the work.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.join.code_columns import _column, _copy_keys, _nullable_at
from psoup.kernels.join.small_pairs import CODE_SHIFT, _pair_by
from psoup.kernels.rows.batch_body import NUMBER, WIDE, _gather_fixed, lay_out
from psoup.kernels.search.result_rows import locate, write_rows

ASKED = 13
"""Numbers of a factor: see `_pair_by`."""
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
def _laid_out(shown, sources, stride, other_sources, other_stride, rows, header, numbers, places):
    """The header of so many rows, and whether each column may be NULL; `places` is written."""
    columns = shown.shape[0]
    kinds, nullable, texts = np.empty(columns, np.int64), np.empty(columns, np.uint8), np.zeros(columns, np.int64)
    for w in range(columns):
        kinds[w] = shown[w, 1]
        own, width = (other_sources, other_stride) if shown[w, 0] else (sources, stride)
        nullable[w] = _nullable_at(shown[w, 2], own, width)
    head = header.copy()
    buffers = head[numbers[3] : numbers[3] + 2 * numbers[4]].reshape(-1, 2)
    head[numbers[1]] = lay_out(kinds, nullable, texts, rows, places, buffers)
    head[numbers[0]] = rows
    return head, nullable


@njit(cache=True, nogil=True)
def answer_located(
    chunks, low, high, sqc_id, slot, size, located, sources, stride,
    other_chunks, other_low, other_high, other_sqc_id, other_slot, other_size, other_located, other_sources,
    other_stride, asked, shown, header, numbers, small, looked, most, most_bytes, left, right, places,
):  # fmt: skip
    """Pair two sides by one factor; returns how many pairs, how many rows of both sides, and the message of their
    columns, uint8[its size].

    chunks to slot: as `locate` asks; size: what it returned, or -1 if this is not known, with `located` written, or to
    be written here; sources, stride: of `gather`; of both sides. asked: int64[13], of `_pair_by`. shown: int64[c, 3],
    the columns: their side, kind, and place in the schema, none a text. header: int64[h], of a batch; numbers:
    int64[6], the places in it of the rows, the body, the nodes and the buffers, how many buffers, and 1 if no value
    leaves padding. small: rows of a side at most. looked: as `most` of `_pair_by`. All are read. left, right:
    int32[room], written: the pairs as codes of tuples, and scratch behind them; places: int64[c, 3], written: as of
    `lay_out`. Returns -1 or -2 pairs as `_pair_by`, and -2 if a side is not small, or not located. The message is empty
    if there is no pair, or if more than `most` rows or `most_bytes` would be in it. O(rows + places looked at +
    pairs * c), and as `locate`.
    """
    nothing = np.empty(0, np.uint8)
    if size < 0:
        size = locate(chunks, low, high, sqc_id, slot, located)
    if other_size < 0:
        other_size = locate(other_chunks, other_low, other_high, other_sqc_id, other_slot, other_located)
    if min(size, other_size) == 0:
        return np.int64(0), size, other_size, nothing
    if min(size, other_size) < 0 or max(size, other_size) > small:
        return np.int64(-2), size, other_size, nothing
    rows, stops = np.empty(size, np.int32), located[:, 4].cumsum()
    others, other_stops = np.empty(other_size, np.int32), other_located[:, 4].cumsum()
    if write_rows(located, chunks, slot, rows) != size:
        return np.int64(-2), size, other_size, nothing
    if write_rows(other_located, other_chunks, other_slot, others) != other_size:
        return np.int64(-2), size, other_size, nothing
    keys, other_keys = np.empty(size, np.int64), np.empty(other_size, np.int64)
    pairs = _pair_by(
        asked, rows, stops, sources, stride, keys, others, other_stops, other_sources, other_stride, other_keys, looked,
        left, right,
    )  # fmt: skip
    if pairs <= 0:
        return pairs, size, other_size, nothing
    head, nullable = _laid_out(shown, sources, stride, other_sources, other_stride, pairs, header, numbers, places)
    ready = pairs <= most and head[numbers[1]] <= most_bytes
    out = np.empty(8 * head.shape[0] + head[numbers[1]], np.uint8) if ready else nothing
    body = out[8 * head.shape[0] :]
    if ready and (not numbers[5] or nullable.any()):
        body[:] = 0
    known = np.zeros(shown.shape[0], np.bool_)
    for w in range(shown.shape[0] if ready else 0):
        side = shown[w, 0]
        if shown[w, 1] == asked[side] and shown[w, 2] == asked[2 + side] and shown[w, 1] in (WIDE, NUMBER):
            at = np.int64(body.ctypes.data) + places[w, 1]
            _copy_keys(other_keys if side else keys, (right if side else left)[:pairs], at)
            known[w] = not nullable[w]
        elif shown[w, 1] == WIDE and not nullable[w] and (other_size if side else size) <= _OFTEN * pairs:
            at = np.int64(body.ctypes.data) + places[w, 1]
            if side:
                _put(shown[w, 2], other_sources, other_stride, others, other_stops, right[:pairs], at)
            else:
                _put(shown[w, 2], sources, stride, rows, stops, left[:pairs], at)
            known[w] = True
    _codes(rows, stops, left, pairs)
    _codes(others, other_stops, right, pairs)
    for w in range(shown.shape[0] if ready else 0):
        own, width = (other_sources, other_stride) if shown[w, 0] else (sources, stride)
        codes = right if shown[w, 0] else left
        nulls = np.int64(0)
        if not known[w]:
            nulls = _column(shown[w, 1], shown[w, 2], own, width, codes[:pairs], places[w], body)
        head[numbers[2] + 2 * w], head[numbers[2] + 2 * w + 1] = pairs, nulls
    if ready:
        out[: 8 * head.shape[0]] = head.view(np.uint8)
    return pairs, size, other_size, out
