"""The answer of a small LEFT JOIN in one call: as `small_join`, with a row for each left tuple without a partner.

    pairs, as positions ─ rows without a partner merged in ─> the bytes, if they are few
    the null row        the last chunk of the right side: all its columns are NULL; its position is behind all rows

A column of the right without another NULL is copied by position. Its validity follows from the positions.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner
from psoup.kernels.join.arrays import BatchPlaces, PairLimits, PairQuestion, SideArrays
from psoup.kernels.join.code_columns import _column, _copy_keys, _nullable_at
from psoup.kernels.join.small_join import _OFTEN, _codes, _laid_out, _put, _size_of
from psoup.kernels.join.small_pairs import CODE_SHIFT, _is_key, _pair_by
from psoup.kernels.rows.batch_body import WIDE, _gather_fixed
from psoup.kernels.search.result_rows import write_rows

_U0, _U1 = np.uint64(0), np.uint64(1)


@inner
def _merge(size, missing, left, right, out_left, out_right):
    """Merge a pair (row, missing) for each of `size` rows without a pair into the pairs; returns how many there are."""
    at, n, pairs = _U0, _U0, np.uint64(left.shape[0])
    for row in range(size):
        out_left[n], out_right[n] = row, missing
        partnered = _U0
        while at < pairs and left[at] == row:
            out_left[n], out_right[n] = row, right[at]
            n, at, partnered = n + _U1, at + _U1, _U1
        n += _U1 - partnered
    return np.int64(n)


@njit(cache=True, nogil=True)
def _present(positions, missing, bits):
    """A bit for each row whose position is not `missing`; returns the number of ones."""
    ones = np.int64(0)
    bits[:] = 0
    for i in range(positions.shape[0]):
        bit = np.uint8(positions[i] != missing)
        bits[i >> 3] |= np.uint8(bit << np.uint8(i & 7))
        ones += np.int64(bit)
    return ones


@njit(cache=True, nogil=True)
def _put_right(column, side, rows, stops, positions, address):
    """Write a column of 8 bytes at some positions. Its value at the last position, of the null row, is 0."""
    values = np.empty(rows.shape[0], np.int64)
    _gather_fixed(WIDE, column, side.sources, side.stride, rows[:-1], stops, np.int64(values.ctypes.data))
    values[-1] = 0
    _copy_keys(values, positions, address)


@njit(cache=True, nogil=True)
def _left_joined(left_side, right_side, question, limits, size, other_size, left, right):
    """Find the pairs as positions, merged with rows without a partner; returns how many, rows and keys of both sides.

    The rows and keys of the right have the null row last. -1 and -2 pairs: as of `_pair_by`.
    """
    rows, partner_rows = np.empty(size, np.int32), np.empty(other_size + 1, np.int32)
    keys, other_keys = np.empty(size, np.int64), np.empty(other_size + 1, np.int64)
    chunks = right_side.located.shape[0]
    partner_rows[other_size], other_keys[other_size] = np.int32(chunks << CODE_SHIFT), 0
    pairs, partners = np.int64(0), partner_rows[:other_size]
    count = write_rows(left_side.located, left_side.chunks, left_side.slot, rows)
    other_count = write_rows(right_side.located, right_side.chunks, right_side.slot, partners)
    if count != size or other_count != other_size:
        pairs = np.int64(-2)
    elif other_size > 0:
        pairs = _pair_by(
            question, rows, left_side.located[:, 4].cumsum(), left_side.sources, left_side.stride, keys,
            partners, right_side.located[:, 4].cumsum(), right_side.sources, right_side.stride,
            other_keys[:other_size], limits.places, left, right,
        )  # fmt: skip
    if pairs >= 0 and pairs + size > left.shape[0]:
        pairs = np.int64(-1)
    if pairs >= 0:
        lefts, rights = left[:pairs].copy(), right[:pairs].copy()
        pairs = _merge(size, np.int32(other_size), lefts, rights, left, right)
    return pairs, rows, partner_rows, keys, other_keys, other_size > 0


@njit(cache=True, nogil=True)
def _whole_columns(shown, sides, question, arrays, pairs, positions, head, batch, places, body, written):
    """Write the columns that are read by position, not by code, and mark them in `written`."""
    left_side, right_side = sides
    rows, partner_rows, keys, other_keys, keyed = arrays
    left, right = positions
    begin, missing, width = np.int64(body.ctypes.data), np.int32(partner_rows.shape[0] - 1), (pairs + 7) >> 3
    for w in range(shown.shape[0]):
        column, at, of_right = shown[w, 2], begin + places[w, 1], shown[w, 0] != 0
        side = right_side if of_right else left_side
        sources = side.sources[: side.sources.shape[0] - side.stride] if of_right else side.sources
        often = (missing if of_right else rows.shape[0]) <= _OFTEN * pairs
        if shown[w, 1] != WIDE and not _is_key(shown[w], question):
            continue
        if _nullable_at(column, sources, side.stride) or not (often or _is_key(shown[w], question)):
            continue
        written[w], nulls = True, np.int64(0)
        if _is_key(shown[w], question) and (keyed or of_right):
            _copy_keys(other_keys if of_right else keys, right if of_right else left, at)
        elif shown[w, 1] != WIDE:
            written[w] = False
        elif of_right:
            _put_right(column, side, partner_rows, side.located[:, 4].cumsum(), right, at)
        else:
            _put(column, sources, side.stride, rows, side.located[:, 4].cumsum(), left, at)
        if of_right:
            nulls = pairs - _present(right, missing, body[places[w, 0] : places[w, 0] + width])
        head[batch.nodes + 2 * w], head[batch.nodes + 2 * w + 1] = pairs, nulls


@njit(cache=True, nogil=True)
def answer_outer(left_side, right_side, question, shown, header, batch, limits, left, right, places):
    """Left join two sides by one factor; returns how many rows, how many rows of both sides, and the message.

    Arguments and results: as of `answer_located`. The sources of the right side end with the null row's chunk, which
    its other arrays lack. A pair of a row without a partner has the code of the null row. O(as there).
    """
    left_side, right_side, question = SideArrays(*left_side), SideArrays(*right_side), PairQuestion(*question)
    batch, limits, nothing = BatchPlaces(*batch), PairLimits(*limits), np.empty(0, np.uint8)
    size, other_size = _size_of(left_side), _size_of(right_side)
    if size == 0 and other_size >= 0:
        return np.int64(0), size, other_size, nothing
    if min(size, other_size) < 0 or max(size, other_size) > limits.side_rows:
        return np.int64(-2), size, other_size, nothing
    pairs, rows, partner_rows, keys, other_keys, keyed = _left_joined(
        left_side, right_side, question, limits, size, other_size, left, right
    )
    if pairs < 0:
        return pairs, size, other_size, nothing
    head, _ = _laid_out(shown, left_side, right_side, pairs, header, batch, places)
    ready = pairs <= limits.rows and head[batch.body] <= limits.bytes
    out = np.empty(8 * head.shape[0] + head[batch.body], np.uint8) if ready else nothing
    body, written = out[8 * head.shape[0] :], np.zeros(shown.shape[0], np.bool_)
    lefts, rights = left[:pairs], right[:pairs]
    if ready:
        body[:] = 0
        arrays = rows, partner_rows, keys, other_keys, keyed
        sides = left_side, right_side
        _whole_columns(shown, sides, question, arrays, pairs, (lefts, rights), head, batch, places, body, written)
    _codes(rows, left_side.located[:, 4].cumsum(), left, pairs)
    _codes(partner_rows, right_side.located[:, 4].cumsum(), right, pairs)
    for w in range(shown.shape[0] if ready else 0):
        if not written[w]:
            side, codes = (right_side, rights) if shown[w, 0] else (left_side, lefts)
            nulls = _column(shown[w, 1], shown[w, 2], side.sources, side.stride, codes, places[w], body)
            head[batch.nodes + 2 * w], head[batch.nodes + 2 * w + 1] = pairs, nulls
    if ready:
        out[: 8 * head.shape[0]] = head.view(np.uint8)
    return pairs, size, other_size, out
