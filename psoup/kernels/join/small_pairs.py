"""All pairs of two small sides by one factor, in one call: for a few rows the steps' calls took longer than the rows.

    by an equality   keys near one another    heads[key] ─> the first row with it ─> the next …
                     keys far apart           first the rows of each side whose key may be on the other side
    by a band        both keys ascend         ranges of the right side

A pair is two positions, or two codes of tuples: the chunk's place << 16 | the offset in it.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner
from psoup.kernels.join.pair_columns import _emit_eight, gather_keys, probe_ranges
from psoup.kernels.rows.batch_body import NUMBER, WIDE

SPREADING = np.uint64(0x9E37_79B9_7F4A_7C15)
"""An odd number near 2**64 divided by the golden ratio: the high bits of a product depend on all bits of a key."""

CODE_SHIFT = 16
"""Bits of an offset in the code of a tuple."""

_U0, _U1, _U2, _U8 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(8)
_WORD, _SIX = np.uint64(63), np.uint64(6)
_PLACES = 131_072
"""Places of keys, 4 bytes each, that are cleared for fewer rows than half of them: they fit in a core's own cache."""
_MARKS = 8
"""Bits that say which keys a side has, for each of its rows, at least."""
_ALIKE = 8
"""Rows of a side for each one of the other, up to which two orders are walked through: of fewer each is looked for."""


@inner
def _close(minimum, maximum, count):
    """Whether so many keys lie so near one another that each has a place of its own: 16 are cleared as fast as one is
    hashed."""
    apart = np.uint64(maximum) - np.uint64(minimum)
    return apart <= np.uint64(2 * count) or apart <= np.uint64(min(16 * count, _PLACES))


@njit(cache=True, nogil=True)
def choose_buckets(minimum, maximum, count):
    """Choose the buckets for the keys of a side, as `fill_buckets` asks; returns (base, factor, shift, buckets, exact).

    exact: a bucket has one key. count: how many keys, from `minimum` to `maximum`; at least one. O(1).
    """
    if _close(minimum, maximum, count):
        return np.uint64(minimum), np.uint64(1), np.uint64(0), maximum - minimum + 1, True
    bits = 4
    while count >> bits:
        bits += 1
    return np.uint64(0), SPREADING, np.uint64(64 - bits), np.int64(1) << bits, False


@inner
def _place_keys(other, partner_rows, minimum, heads, following):
    """Chain the rows of each key at the place of the key: heads: int32[keys], following: int32[others + 1]."""
    heads[:], following[0], base = 0, 0, np.uint64(minimum)
    for i in range(partner_rows.shape[0] - 1, -1, -1):  # the last row first: a chain ascends
        at = np.uint64(other[np.uint64(partner_rows[np.uint64(i)])]) - base
        following[np.uint64(i) + _U1], heads[at] = heads[at], i + 1


@inner
def _meet_keys(keys, driving, partner_rows, minimum, heads, following, left, right):
    """Write the pairs of rows with equal keys, by what `_place_keys` made; returns how many, -1 without room.

    Most rows have a partner or two, or none, at random: to ask took a wrong guess for each second row.
    """
    n, room, size, base = _U0, np.uint64(left.shape[0]), np.uint64(heads.shape[0]), np.uint64(minimum)
    for i in range(driving.shape[0]):
        row = driving[np.uint64(i)]
        at = np.uint64(keys[np.uint64(row)]) - base
        partner = np.uint64(heads[at]) if at < size else _U0
        if n + _U2 <= room:
            for _ in range(2):
                left[n], right[n] = row, partner
                n += np.uint64(partner != _U0)
                partner = np.uint64(following[partner])
        while partner != _U0:
            if n == room:
                return np.int64(-1)
            left[n], right[n] = row, partner
            n += _U1
            partner = np.uint64(following[partner])
    for i in range(n):
        right[i] = partner_rows[np.uint64(right[i]) - _U1]
    return np.int64(n)


@inner
def _marked(keys, rows, shift, marks, out):
    """Write the rows whose key may be among those that `marks` has, to the front; returns how many."""
    n = _U0
    for i in range(rows.shape[0]):
        row = rows[np.uint64(i)]
        bit = (np.uint64(keys[np.uint64(row)]) * SPREADING) >> shift
        out[n] = row
        n += (marks[bit >> _SIX] >> (bit & _WORD)) & _U1
    return np.int64(n)


@inner
def _mark(keys, rows, shift, marks):
    marks[:] = 0
    for i in range(rows.shape[0]):
        bit = (np.uint64(keys[np.uint64(rows[np.uint64(i)])]) * SPREADING) >> shift
        marks[bit >> _SIX] |= _U1 << (bit & _WORD)


@inner
def _place_hashes(other, partner_rows, heads, following, shift):
    """Chain the rows whose keys have one hash: heads: int32[2**(64 - shift)], following: int32[others]."""
    heads[:] = -1
    for i in range(partner_rows.shape[0] - 1, -1, -1):  # the last row first: a chain ascends
        bucket = (np.uint64(other[np.uint64(partner_rows[np.uint64(i)])]) * SPREADING) >> shift
        following[np.uint64(i)], heads[bucket] = heads[bucket], i


@inner
def _meet_hashes(keys, driving, other, partner_rows, heads, following, shift, cap, left, right):
    """As `_meet_keys`, by what `_place_hashes` made; -1 also if more than `cap` places were to be looked at."""
    n, room, looked = _U0, np.uint64(left.shape[0]), 0
    for i in range(driving.shape[0]):
        row = driving[np.uint64(i)]
        key = keys[np.uint64(row)]
        at = heads[(np.uint64(key) * SPREADING) >> shift]
        while at >= 0:
            looked += 1
            partner = partner_rows[np.uint64(at)]
            if other[np.uint64(partner)] == key:
                if n == room:
                    return np.int64(-1)
                left[n], right[n] = row, partner
                n += _U1
            at = following[np.uint64(at)]
        if looked > cap:
            return np.int64(-1)
    return np.int64(n)


@njit(cache=True, nogil=True)
def pair_keys(keys, driving, other, partner_rows, minimum, maximum, cap, left, right):
    """Write the pairs of rows with equal keys, ascending; returns how many.

    keys, other: int64, by row, of both sides; driving, partner_rows: int32, the rows that take part, ascending, written
    over. minimum, maximum: of the keys of `partner_rows`, or wider. left, right: int32[room], written, with scratch
    behind the pairs. Returns -1 if there are more pairs than room, or if more than `cap` places were to be looked at.
    O(rows + places looked at).
    """
    if driving.shape[0] == 0 or partner_rows.shape[0] == 0:
        return np.int64(0)
    following = np.empty(partner_rows.shape[0] + 1, np.int32)
    if _close(minimum, maximum, partner_rows.shape[0]):
        heads = np.empty(maximum - minimum + 1, np.int32)
        _place_keys(other, partner_rows, minimum, heads, following)
        return _meet_keys(keys, driving, partner_rows, minimum, heads, following, left, right)
    bits = 6
    while (_MARKS * max(partner_rows.shape[0], 1)) >> bits:
        bits += 1
    shift, marks = np.uint64(64 - bits), np.empty(1 << (bits - 6), np.uint64)
    _mark(other, partner_rows, shift, marks)
    before = driving.shape[0]
    driving = driving[: _marked(keys, driving, shift, marks, driving)]
    if 2 * driving.shape[0] <= before:
        _mark(keys, driving, shift, marks)
        partner_rows = partner_rows[: _marked(other, partner_rows, shift, marks, partner_rows)]
    bits = 4
    while partner_rows.shape[0] >> bits:
        bits += 1
    heads, shift = np.empty(1 << bits, np.int32), np.uint64(64 - bits)
    _place_hashes(other, partner_rows, heads, following, shift)
    return _meet_hashes(keys, driving, other, partner_rows, heads, following, shift, cap, left, right)


@inner
def _all(valid_rows):
    for i in range(valid_rows.shape[0]):
        valid_rows[i] = i


@njit(cache=True, nogil=True)
def _taking_part(kind, column, sources, stride, rows, stops, keys, valid_rows):
    """As `gather_keys`, and all rows are written to `valid_rows` if none is NULL."""
    count, minimum, maximum = gather_keys(kind, column, sources, stride, rows, stops, keys, valid_rows)
    if count == rows.shape[0]:
        _all(valid_rows)
    return count, minimum, maximum


@inner
def _chain_all(keys, minimum, heads, following):
    """Chain the rows of each key, ascending and counted from 1: heads: int32[keys], following: int32[rows + 1]."""
    heads[:], following[0], base = 0, 0, np.uint64(minimum)
    for i in range(keys.shape[0] - 1, -1, -1):  # the last row first: a chain ascends
        at = np.uint64(keys[np.uint64(i)]) - base
        following[np.uint64(i) + _U1], heads[at] = heads[at], i + 1


@njit(cache=True, nogil=True)
def meet_chained(keys, start, stop, minimum, heads, following, left, right):
    """Write the pairs of some rows, start to stop, with the rows of the other side that have their key, ascending.

    keys: int64 by row; minimum, heads, following: of `_chain_all` of the other side; read. left, right: int32[room],
    written, with scratch behind the pairs. Returns how many pairs; -1 without room. O(rows + pairs).
    """
    n, room, size, base = _U0, np.uint64(left.shape[0]), np.uint64(heads.shape[0]), np.uint64(minimum)
    for row in range(start, stop):
        at = np.uint64(keys[np.uint64(row)]) - base
        partner = np.uint64(heads[at]) if at < size else _U0
        if n + _U2 <= room:  # two without asking: most rows have as many, or fewer, at random
            for _ in range(2):
                left[n], right[n] = row, partner - _U1
                n += np.uint64(partner != _U0)
                partner = np.uint64(following[partner])
        while partner != _U0:
            if n == room:
                return np.int64(-1)
            left[n], right[n] = row, partner - _U1
            n += _U1
            partner = np.uint64(following[partner])
    return np.int64(n)


@njit(cache=True, nogil=True)
def _pair_close(keys, other, minimum, maximum, left, right):
    """As `pair_keys`, where all rows of both sides take part, and keys are close."""
    heads, following = np.empty(maximum - minimum + 1, np.int32), np.empty(other.shape[0] + 1, np.int32)
    _chain_all(other, minimum, heads, following)
    return meet_chained(keys, 0, keys.shape[0], minimum, heads, following, left, right)


@njit(cache=True, nogil=True)
def pair_small(
    kinds, columns, sources, stride, rows, stops, other_sources, other_stride, other_rows, other_stops, cap,
    left, right,
):  # fmt: skip
    """Write the pairs of rows with equal keys, ascending; returns how many.

    kinds, columns: (int, int), of the keys of both sides, and sources to stops, of one side and of the other: as
    `gather_keys` asks; each has a row. Read. most, left, right, and the result: as of `pair_keys`.
    """
    keys, valid_rows = np.empty(rows.shape[0], np.int64), np.empty(rows.shape[0], np.int32)
    count, _, _ = _taking_part(kinds[0], columns[0], sources, stride, rows, stops, keys, valid_rows)
    other, partner_rows = np.empty(other_rows.shape[0], np.int64), np.empty(other_rows.shape[0], np.int32)
    size, minimum, maximum = _taking_part(
        kinds[1], columns[1], other_sources, other_stride, other_rows, other_stops, other, partner_rows
    )
    return pair_keys(keys, valid_rows[:count], other, partner_rows[:size], minimum, maximum, cap, left, right)


@inner
def _meet_ends(keys, ordered, low, high, begins, ends):
    """Write for each key how many of `ordered` are < key + low, and how many are <= key + high; all ascend.

    Each step goes on by one in either, without a guess which: guesses are wrong for every second row, unless the same
    rows were met just before. Two such walks wait for each other's loads, one at a time.
    """
    count, places = np.uint64(keys.shape[0]), np.uint64(ordered.shape[0])
    i, at, j, to = _U0, _U0, _U0, _U0
    while i < count and at < places and j < count and to < places:
        begins[i], ends[j] = at, to
        below, within = np.uint64(ordered[at] < keys[i] + low), np.uint64(ordered[to] <= keys[j] + high)
        at, i = at + below, i + (_U1 - below)
        to, j = to + within, j + (_U1 - within)
    while i < count and at < places:
        begins[i], below = at, np.uint64(ordered[at] < keys[i] + low)
        at, i = at + below, i + (_U1 - below)
    while j < count and to < places:
        ends[j], within = to, np.uint64(ordered[to] <= keys[j] + high)
        to, j = to + within, j + (_U1 - within)
    begins[i:], ends[j:] = places, places


@inner
def _write_ranges(driving, partner_rows, begins, ends, left, right):
    """Write the pairs of rows with ranges of `partner_rows`; returns how many, -1 without room."""
    n, room, places = _U0, np.uint64(left.shape[0]), np.uint64(partner_rows.shape[0])
    for i in range(driving.shape[0]):
        row, first, end = driving[np.uint64(i)], np.uint64(begins[np.uint64(i)]), np.uint64(ends[np.uint64(i)])
        size = end - first if end > first else _U0
        if n + size + _U8 <= room and first + size + _U8 <= places:
            _emit_eight(row, partner_rows, first, left, right, n)
            for p in range(_U8, size, _U8):
                _emit_eight(row, partner_rows, first + p, left, right, n + p)
        elif n + size <= room:
            for p in range(size):
                left[n + p], right[n + p] = row, partner_rows[first + p]
        else:
            return np.int64(-1)
        n += size
    return np.int64(n)


@njit(cache=True, nogil=True)
def _in_order(keys, rows):
    """The keys of some rows, which ascend; and whether the keys do."""
    ordered, ascending = keys, True
    if rows.shape[0] < keys.shape[0]:
        ordered = np.empty(rows.shape[0], np.int64)
        for i in range(rows.shape[0]):
            ordered[i] = keys[np.uint64(rows[i])]
    for i in range(1, ordered.shape[0]):
        ascending &= ordered[np.uint64(i)] >= ordered[np.uint64(i - 1)]
    return ordered, ascending


@njit(cache=True, nogil=True)
def _near(keys, driving, other, partner_rows, band, cap, left, right):
    """As `pair_keys`, of keys that are near; -2 if the keys of the other side do not ascend."""
    ordered, ascending = _in_order(other, partner_rows)
    if not ascending:
        return np.int64(-2)
    count, places = driving.shape[0], partner_rows.shape[0]
    if count == 0 or places == 0:
        return np.int64(0)
    lower, low, upper, high = band
    driving_keys, ascending = _in_order(keys, driving)
    if ascending and places <= _ALIKE * count and count <= _ALIKE * places:
        begins, ends = np.empty(count, np.int32), np.empty(count, np.int32)
        _meet_ends(driving_keys, ordered, low, high, begins, ends)
        if not lower:
            begins[:] = 0
        if not upper:
            ends[:] = places
        return _write_ranges(driving, partner_rows, begins, ends, left, right)
    at, inside, pairs, _ = probe_ranges(
        keys, driving, ordered, partner_rows, lower, low, upper, high, 0, 0, cap, left, right
    )  # fmt: skip
    return pairs if at == driving.shape[0] and inside == 0 else np.int64(-1)


@inner
def _is_key(column, question):
    """Whether a column that is shown, (side, kind, place in the schema), is the key of its side, of 8 bytes."""
    key_kind, key_column = question.kind, question.column
    if column[0]:
        key_kind, key_column = question.other_kind, question.other_column
    return column[1] == key_kind and column[2] == key_column and (column[1] == WIDE or column[1] == NUMBER)


@njit(cache=True, nogil=True)
def _pair_by(
    question, rows, stops, sources, stride, keys, partner_rows, other_stops, other_sources, other_stride, other_keys,
    cap, left, right,
):  # fmt: skip
    """Write the pairs of two sides by one factor, as positions, ascending; returns how many.

    question: a `PairQuestion`. rows, stops, sources, stride; partner_rows and so on: as `gather_keys` asks, of both
    sides, which have a row each. Read. keys, other_keys: int64 by row, written: the keys. left, right: int32[room],
    written, with scratch behind the pairs. Returns -1 if there are more pairs than room, or `cap` places and more were
    looked at; -2 if they must be found in another way. O(rows + places looked at).
    """
    driving, partners = np.empty(rows.shape[0], np.int32), np.empty(partner_rows.shape[0], np.int32)
    count, low, high = gather_keys(question.kind, question.column, sources, stride, rows, stops, keys, driving)
    size, minimum, maximum = gather_keys(
        question.other_kind, question.other_column, other_sources, other_stride, partner_rows, other_stops, other_keys,
        partners,
    )  # fmt: skip
    if low < question.minimum or high > question.maximum:
        return np.int64(-2)
    if minimum < question.other_minimum or maximum > question.other_maximum:
        return np.int64(-2)
    every = count == rows.shape[0] and size == partner_rows.shape[0]
    if question.is_equality and every and _close(minimum, maximum, size):
        return _pair_close(keys, other_keys, minimum, maximum, left, right)
    if count == rows.shape[0]:
        _all(driving)
    if size == partner_rows.shape[0]:
        _all(partners)
    driving, partners = driving[:count], partners[:size]
    if question.is_equality:
        return pair_keys(keys, driving, other_keys, partners, minimum, maximum, cap, left, right)
    band = question.has_low != 0, question.low, question.has_high != 0, question.high
    return _near(keys, driving, other_keys, partners, band, cap, left, right)
