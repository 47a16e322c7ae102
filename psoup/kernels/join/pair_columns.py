"""Joined rows into the body of one Arrow record batch: keys of the sides, pairs of their rows, columns of the pairs.

    side       rows 0 7 9 | 3 4     offsets in chunk 0, in chunk 1: positions 0 to 4, as in
    `psoup.kernels.rows.batch_body`
    keys       5 5 8 | 5 9          int64, by position
    pairs      (0, 2) (0, 4) …      positions of both sides, as the buckets of one of them say
    out        [values] [values] …  the columns of both sides at these positions, in any order, also repeated

Arrays of chunks are named by address, as there; the caller keeps them alive.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from psoup.kernels.compile.inner import inner
from psoup.kernels.join.range_pairs import _place
from psoup.kernels.rows.batch_body import (
    BITS,
    DECIMAL,
    NARROW,
    NUMBER,
    PARTS,
    WIDE,
    _bytes,
    _copy,
    _gather_fixed,
    _longs,
    _nth,
    _pointer,
)

FLOAT = 6
"""The form of a key that is a float64; other forms: see `psoup.kernels.rows.batch_body`."""

_U0, _U1, _U2, _U3, _U4, _U5, _U6, _U7, _U8 = map(np.uint64, range(9))
_NEGATIVE_ZERO, _NAN = np.int64(-(2**63)), np.int64(0x7FF8_0000_0000_0000)
_INFINITY, _SIGN = np.int64(0x7FF0_0000_0000_0000), np.int64(0x7FFF_FFFF_FFFF_FFFF)


@njit(cache=True, nogil=True)
def _order_floats(keys):
    """The bits of float64 as order keys, in place: -0.0 equals 0.0, every NaN is the same and greatest."""
    for i in range(keys.shape[0]):
        bits = keys[i]
        if bits & _SIGN > _INFINITY:
            bits = _NAN
        if bits < 0:
            bits = np.int64(0) if bits == _NEGATIVE_ZERO else bits ^ _SIGN
        keys[i] = bits


@njit(cache=True, nogil=True)
def gather_keys(kind, column, sources, stride, rows, stops, keys, valid_rows):
    """Write the order keys of a column; returns how many rows are not NULL, the least key and the greatest.

    kind: FLOAT, or as in `gather`; column, sources, stride, rows, stops: as there, read. keys: int64[k], written, those
    of NULLs arbitrary. valid_rows: int32[k]; the positions of the rows that are not NULL are written to its front, if
    any chunk has validity. The bounds may be wider where there are NULLs. k must be 1 or more. O(k).
    """
    total, nullable = rows.shape[0], False
    if kind == NARROW:
        days = np.empty(total, np.int32)
        _gather_fixed(NARROW, column, sources, stride, rows, stops, np.int64(days.ctypes.data))
        for i in range(total):
            keys[i] = days[i]
    else:
        raw = NUMBER if kind == NUMBER else WIDE
        _gather_fixed(raw, column, sources, stride, rows, stops, np.int64(keys.ctypes.data))
    if kind == FLOAT:
        _order_floats(keys)
    minimum = maximum = keys[0]
    for i in range(total):
        minimum, maximum = min(minimum, keys[i]), max(maximum, keys[i])
    for part in range(stops.shape[0]):
        nullable |= sources[part * stride + PARTS * _nth(column, stride) + 1] != 0
    if not nullable:
        return total, minimum, maximum
    count, start = np.int64(0), np.int64(0)
    for part in range(stops.shape[0]):
        stop, address = stops[part], sources[part * stride + PARTS * _nth(column, stride) + 1]
        if start < stop:
            flags = _bytes(address, rows[stop - 1] + 1)
            for i in range(start, stop):
                valid_rows[count] = i
                count += np.int64(address == 0 or flags[rows[i]] != 0)
        start = stop
    return count, minimum, maximum


@njit(cache=True, nogil=True, inline="always")
def _emit_eight(row, place_rows, p, left, right, q):
    """Write eight pairs: so many are one instruction, and how many of them count need not be asked."""
    a, b, c, d = place_rows[p], place_rows[p + _U1], place_rows[p + _U2], place_rows[p + _U3]
    e, f, g, h = place_rows[p + _U4], place_rows[p + _U5], place_rows[p + _U6], place_rows[p + _U7]
    left[q], left[q + _U1], left[q + _U2], left[q + _U3] = row, row, row, row
    left[q + _U4], left[q + _U5], left[q + _U6], left[q + _U7] = row, row, row, row
    right[q], right[q + _U1], right[q + _U2], right[q + _U3] = a, b, c, d
    right[q + _U4], right[q + _U5], right[q + _U6], right[q + _U7] = e, f, g, h


@inner
def _bucket(key, base, factor, shift, starts):
    """The first place of a key's bucket, and how many there are."""
    b, buckets = ((np.uint64(key) - base) * factor) >> shift, np.uint64(starts.shape[0] - 2)
    at = b if b < buckets else _U0
    first = np.uint64(starts[at])
    return first, np.uint64(starts[at + _U1]) - first if b < buckets else _U0


@inner
def _probe_all(keys, rows, base, factor, shift, starts, place_rows, at, cap, left, right, n):
    """As `probe_buckets`, up to the first row near the end of an array; all places of a bucket are partners."""
    room, places, looked = np.uint64(left.shape[0]), np.uint64(place_rows.shape[0]), _U0
    every, count = rows.shape[0] == 0, np.uint64(max(rows.shape[0], keys.shape[0] if rows.shape[0] == 0 else 0))
    few = places < _U3 * np.uint64(starts.shape[0])  # most buckets have two rows, or fewer
    while at < count and looked < cap:
        row = np.int32(at) if every else rows[at]
        first, size = _bucket(keys[np.uint64(row)], base, factor, shift, starts)
        if n + size + _U8 > room or first + size + _U8 > places:
            break
        if few:
            left[n], left[n + _U1] = row, row
            right[n], right[n + _U1] = place_rows[first], place_rows[first + _U1]
            p = _U2
            while p < size:
                left[n + p], right[n + p] = row, place_rows[first + p]
                p += _U1
        else:
            _emit_eight(row, place_rows, first, left, right, n)
            p = _U8
            while p < size:
                _emit_eight(row, place_rows, first + p, left, right, n + p)
                p += _U8
        n += size
        looked += size
        at += _U1
    return at, n, looked


@inner
def _probe_equal(keys, rows, base, factor, shift, starts, place_keys, place_rows, at, cap, left, right, n):
    """As `_probe_all`; places whose key is the row's are partners."""
    room, places, looked = np.uint64(left.shape[0]), np.uint64(place_rows.shape[0]), _U0
    every, count = rows.shape[0] == 0, np.uint64(max(rows.shape[0], keys.shape[0] if rows.shape[0] == 0 else 0))
    while at < count and looked < cap:
        row = np.int32(at) if every else rows[at]
        key = keys[np.uint64(row)]
        first, size = _bucket(key, base, factor, shift, starts)
        if n + size + _U2 > room or first + size + _U2 > places:
            break
        left[n], right[n] = row, place_rows[first]
        n += np.uint64((size > _U0) & (place_keys[first] == key))
        left[n], right[n] = row, place_rows[first + _U1]
        n += np.uint64((size > _U1) & (place_keys[first + _U1] == key))
        p = _U2
        while p < size:
            left[n], right[n] = row, place_rows[first + p]
            n += np.uint64(place_keys[first + p] == key)
            p += _U1
        looked += size
        at += _U1
    return at, n, looked


@njit(cache=True, nogil=True)
def probe_buckets(
    keys, rows, base, factor, shift, starts, place_keys, place_rows, at, inside, cap, left, right
):  # fmt: skip
    """Write pairs of rows with equal keys, from the driving row `at` on, of whose bucket `inside` places are done.

    Returns (at, inside, pairs, places looked at). keys: int64 by row; rows: int32[k], the driving rows, ascending, or
    of no length: all. base, factor, shift, starts: of `fill_buckets`, place_rows: int32[places] and place_keys:
    int64[places], or of no length, its result. All read. A row is written whole, unless it alone is more than there is
    room for. left, right: int32[room], room at least 1; written, with scratch behind the pairs. The call ends after the
    row with which `cap` places have been looked at. O(places looked at + rows). Most rows have no partner, or some, at
    random: asking how many takes more time than to write two, or eight.
    """
    n, looked, left_of = _U0, _U0, np.uint64(cap)
    every, checked = rows.shape[0] == 0, place_keys.shape[0] > 0
    count, at, inside = np.uint64(keys.shape[0] if every else rows.shape[0]), np.uint64(at), np.uint64(inside)
    while at < count and looked < left_of:
        row = np.int32(at) if every else rows[at]
        key = keys[np.uint64(row)]
        first, size = _bucket(key, base, factor, shift, starts)
        first, size = first + inside, size - inside
        taken = min(size, np.uint64(left.shape[0]) - n)
        if taken < size and n > _U0:
            break
        for p in range(first, first + taken):
            left[n], right[n] = row, place_rows[p]
            n += _U1 if not checked else np.uint64(place_keys[p] == key)
        looked += taken
        if taken < size:
            inside += taken
            break
        at, inside = at + _U1, _U0
        rest = left_of - looked if left_of > looked else _U0
        if checked:
            at, n, more = _probe_equal(
                keys, rows, base, factor, shift, starts, place_keys, place_rows, at, rest, left, right, n
            )
        else:
            at, n, more = _probe_all(keys, rows, base, factor, shift, starts, place_rows, at, rest, left, right, n)
        looked += more
    return np.int64(at), np.int64(inside), np.int64(n), np.int64(looked)


@inner
def _range(ordered, key, lower, low, upper, high, begin, end):
    """The places of the partners of a key; the places of the row before are a hint."""
    places = ordered.shape[0]
    begin = _place(ordered, key + low, False, 0, places, begin) if lower else 0
    end = _place(ordered, key + high, True, 0, places, end) if upper else places
    return begin, end


@inner
def _probe_near(keys, rows, ordered, place_rows, lower, low, upper, high, at, cap, left, right, n):
    """As `probe_ranges`, to the first row that is near the end of an array."""
    room, places, looked = np.uint64(left.shape[0]), np.uint64(place_rows.shape[0]), _U0
    every, count = rows.shape[0] == 0, np.uint64(max(rows.shape[0], keys.shape[0] if rows.shape[0] == 0 else 0))
    begin = end = np.int64(0)
    while at < count and looked < cap:
        row = np.int32(at) if every else rows[at]
        begin, end = _range(ordered, keys[np.uint64(row)], lower, low, upper, high, begin, end)
        first, size = np.uint64(begin), np.uint64(max(end - begin, 0))
        if n + size + _U8 > room or first + size + _U8 > places:
            break
        p = _U0
        while p < size:
            _emit_eight(row, place_rows, first + p, left, right, n + p)
            p += _U8
        n += size
        looked += size
        at += _U1
    return at, n, looked


@njit(cache=True, nogil=True)
def probe_ranges(
    keys, rows, ordered, place_rows, lower, low, upper, high, at, inside, cap, left, right
):  # fmt: skip
    """As `probe_buckets`, for rows whose keys are near: key + low <= the other (if `lower`) <= key + high (if `upper`).

    ordered: int64[places], the keys of place_rows, int32[places]; both ascend. No sum may overflow. O(places looked at
    + rows), times the logarithm of the distance between the ranges of a row and of the row before.
    """
    n, looked, left_of = _U0, _U0, np.uint64(cap)
    every = rows.shape[0] == 0
    count, at, inside = np.uint64(keys.shape[0] if every else rows.shape[0]), np.uint64(at), np.uint64(inside)
    while at < count and looked < left_of:
        row = np.int32(at) if every else rows[at]
        begin, end = _range(ordered, keys[np.uint64(row)], lower, low, upper, high, 0, 0)
        first = np.uint64(begin) + inside
        size = np.uint64(max(end - np.int64(first), 0))
        taken = min(size, np.uint64(left.shape[0]) - n)
        if taken < size and n > _U0:
            break
        for p in range(taken):
            left[n + p], right[n + p] = row, place_rows[first + p]
        n += taken
        looked += taken
        if taken < size:
            inside += taken
            break
        at, inside = at + _U1, _U0
        rest = left_of - looked if left_of > looked else _U0
        at, n, more = _probe_near(
            keys, rows, ordered, place_rows, lower, low, upper, high, at, rest, left, right, n
        )  # fmt: skip
        looked += more
    return np.int64(at), np.int64(inside), np.int64(n), np.int64(looked)


@njit(cache=True, nogil=True)
def gather_whole(kinds, columns, sources, stride, rows, stops, values, valid):
    """Write columns of all rows, by position, for `gather_at`, which then finds them faster.

    kinds, columns: int64[c]; sources, stride, rows, stops: as in `gather`; read. values: int64[c, k], written: for each
    column k values, of 4 bytes or of one where its kind has such. valid: uint8[c, k], written, or uint8[c, 0]: no chunk
    has validity. O(c * k).
    """
    for w in range(columns.shape[0]):
        kind, part = kinds[w], values[w]
        if kind == BITS:
            _flags(columns[w], 0, sources, stride, rows, stops, part.view(np.uint8))
        else:
            raw = WIDE if kind == DECIMAL else kind
            _gather_fixed(raw, columns[w], sources, stride, rows, stops, np.int64(part.ctypes.data))
        if valid.shape[1]:
            _flags(columns[w], 1, sources, stride, rows, stops, valid[w])


@njit(cache=True, nogil=True)
def _flags(column, field, sources, stride, rows, stops, out):
    """A byte for each row: BOOLEAN values (field 0) or validity (field 1; a chunk without it is all valid)."""
    start = np.int64(0)
    for part in range(stops.shape[0]):
        stop, address = stops[part], sources[part * stride + PARTS * _nth(column, stride) + field]
        if start < stop:
            flags = _bytes(address, rows[stop - 1] + 1)
            for i in range(start, stop):
                out[i] = np.uint8(1) if address == 0 else flags[rows[i]]
        start = stop


@njit(cache=True, nogil=True)
def _bits_at(place, sources, stride, offsets, parts, out):
    """A bit for each row; returns the number of ones. An address of 0: all are ones."""
    out[:] = 0
    ones = np.int64(0)
    for i in range(offsets.shape[0]):
        address = sources[place + (parts[i] * stride if parts.shape[0] else 0)]
        bit = np.uint8(1) if address == 0 else np.uint8(_bytes(address, offsets[i] + 1)[offsets[i]] != 0)
        out[i >> 3] |= np.uint8(bit << np.uint8(i & 7))
        ones += np.int64(bit)
    return ones


@njit(cache=True, nogil=True)
def _fixed_at(kind, place, sources, stride, offsets, parts, values):
    """Values of 4, 8 or 16 bytes; `values`: their address in the result. O(offsets)."""
    total, several = offsets.shape[0], parts.shape[0] > 0
    longs, ints = _longs(values, 2 * total), carray(_pointer(values), total, np.int32)
    if kind == WIDE and not several:
        _copy(_longs(sources[place], total), offsets, 0, total, longs)
        return
    for i in range(total):
        address = sources[place + (parts[i] * stride if several else 0)]
        offset = np.uint64(offsets[i])
        if kind == WIDE:
            longs[i] = _longs(address, total)[offset]
        elif kind == NUMBER:
            left = sources[place + 2 + (parts[i] * stride if several else 0)]
            longs[i] = address + np.int64(carray(_pointer(left), total, np.uint16)[offset] if left else offset)
        elif kind == DECIMAL:
            value = _longs(address, total)[offset]
            longs[2 * i], longs[2 * i + 1] = value, value >> 63
        else:
            ints[i] = carray(_pointer(address), total, np.int32)[offset]


@njit(cache=True, nogil=True)
def _locate(rows, stops, positions, offsets, parts):
    """The chunk of each position, if there are several, and the offset in it.

    Each position is compared with all stops, many at once: to search took a wrong guess or two for each.
    """
    for i in range(positions.shape[0]):
        offsets[i] = rows[np.uint64(positions[i])]
    parts[:] = 0
    for part in range(stops.shape[0] - 1):
        stop = stops[part]
        for i in range(parts.shape[0]):
            parts[i] += np.int32(positions[i] >= stop)


@njit(cache=True, nogil=True)
def gather_at(which, kinds, columns, sources, stride, rows, stops, positions, places, out, nulls):
    """Write the columns of a record batch that come from one side of a join.

    which: int64[c], their places in the batch; kinds, columns: int64[c], their kinds and places in the schema.
    sources, stride, rows, stops: the side, as in `gather`; rows of no length: it is one piece, with a row for each
    position. positions: int32 or int64[n], any order, also repeated. places: int64[all, 3], as in `gather`. All read.
    out: as in `gather`; nulls: int64[all], of the columns of this side written. No column is a text. O(n * c).
    """
    total, begin = positions.shape[0], np.int64(out.ctypes.data)
    whole, several = rows.shape[0] == 0, stops.shape[0] > 1
    parts = np.empty(total if several and not whole else 0, np.int32)
    offsets = positions
    if not whole:
        offsets = np.empty_like(positions)
        _locate(rows, stops, positions, offsets, parts)
    for w in range(which.shape[0]):
        i, place = which[w], PARTS * _nth(columns[w], stride)
        nulls[i] = 0
        if places[i, 0] >= 0:
            bits = out[places[i, 0] : places[i, 0] + ((total + 7) >> 3)]
            nulls[i] = total - _bits_at(place + 1, sources, stride, offsets, parts, bits)
        if kinds[w] == BITS:
            bits = out[places[i, 1] : places[i, 1] + ((total + 7) >> 3)]
            _bits_at(place, sources, stride, offsets, parts, bits)
        else:
            _fixed_at(kinds[w], place, sources, stride, offsets, parts, begin + places[i, 1])
