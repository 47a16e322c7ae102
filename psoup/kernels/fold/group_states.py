"""Values folded into the states of groups: counts, sums, least and greatest, moments.

    values   7 3 9 4 3        codes   0 1 0 0 1       the group of each value
    mask     1 1 1 0 1        rows that count; an array of no length: all of them
    sums     16 | 6           counts 2 | 2            least 7 | 3

A kernel adds to the states that it is given: one pass over each part of the rows is enough.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import math

import numpy as np
from numba import njit

from psoup.kernels.rows.bitmaps import _popcount, _word

_FRACTION, _IMPLICIT = np.uint64((1 << 52) - 1), np.uint64(1 << 52)
_FIELD, _UNIT = np.int64(0x7FF), np.int64(1075)
_ONE, _WORD, _SIX = np.uint64(1), np.uint64(63), np.uint64(6)
_LOW = np.int64(0xFFFF_FFFF)
_UP, _DOWN, _HUGE = 2.0**46, 2.0**-46, 2.0**93
_BIT, _FEW_BITS = np.uint64(1), np.uint64(6)
_HALF_WORD, _GREATEST = np.uint64(32), np.int64(0x7FFF_FFFF_FFFF_FFFF)


@njit(cache=True, nogil=True)
def count_rows(mask, codes, counts):
    """Add to each count the rows of its group.

    mask: uint8[n], or of no length; codes: int32[n]; read. counts: int64[groups], added to. O(n).
    """
    if mask.shape[0] == 0:
        for i in range(codes.shape[0]):
            counts[codes[i]] += 1
        return
    for i in range(codes.shape[0]):
        counts[codes[i]] += np.int64(mask[i])


@njit(cache=True, nogil=True)
def sum_integers(values, mask, codes, sums):
    """Add the values to the sums of their groups, of 128 bits: the low word, then the high one.

    values: int64[n]; mask: uint8[n], or of no length; codes: int32[n]; read. sums: int64[groups, 2], added to. O(n).
    """
    every = mask.shape[0] == 0
    for i in range(values.shape[0]):
        if every or mask[i]:
            group, value = codes[i], values[i]
            before = np.uint64(sums[group, 0])
            after = before + np.uint64(value)
            sums[group, 0] = np.int64(after)
            sums[group, 1] += (value >> 63) + np.int64(after < before)


@njit(cache=True, nogil=True)
def sum_whole(values, mask):
    """The sum of all values as two numbers: low + high * 2^32, with low not negative.

    values: int64[n], n below 2^31; mask: uint8[n], or of no length; read. O(n), several values at a time.
    """
    low, high = np.int64(0), np.int64(0)
    if mask.shape[0] == 0:
        for i in range(values.shape[0]):
            low += values[i] & _LOW
            high += values[i] >> 32
    else:
        for i in range(values.shape[0]):
            value = values[i] & -np.int64(mask[i])
            low += value & _LOW
            high += value >> 32
    return low, high


@njit(cache=True, nogil=True)
def sum_bits(words, start, stop, values, sums):
    """Add the values at the set bits in [start, stop) to a sum of 128 bits: the low word, then the high one.

    words: uint64[w]; values: int64[stop or more, at most 65,536]; read. sums: int64[1, 2], added to. O((stop - start) /
    64 + set bits); of a word with many set bits all values are read, several at a time.
    """
    low, high, last = np.int64(0), np.int64(0), (stop - 1) >> 6
    for index in range(start >> 6, last + 1 if start < stop else 0):
        word, first = _word(words, index, start, stop), np.int64(index) << 6
        if index == last or _popcount(word) <= _FEW_BITS:
            while word != 0:
                value = values[first + np.int64(_popcount((word & (~word + _BIT)) - _BIT))]
                low += value & _LOW
                high += value >> 32
                word &= word - _BIT
        else:
            some = values[first : first + 64]
            for bit in range(64):
                value = some[bit] & -np.int64((word >> np.uint64(bit)) & _BIT)
                low += value & _LOW
                high += value >> 32
    added = np.uint64(low) + (np.uint64(high) << _HALF_WORD)
    before = np.uint64(sums[0, 0])
    after = before + added
    sums[0, 0] = np.int64(after)
    sums[0, 1] += (high >> 32) + np.int64(added < np.uint64(low)) + np.int64(after < before)


@njit(cache=True, nogil=True)
def extreme_bits(words, start, stop, values, maximum, best, seen):
    """Keep the least of the values at the set bits in [start, stop), or the greatest.

    words, start, stop, values: as in `sum_bits`, read. maximum: bool. best: int64[1], seen: uint8[1], written. O(as
    `sum_bits`).
    """
    flip = np.int64(-1) if maximum else np.int64(0)  # the least flipped value is the greatest value, flipped
    minimum, count, last = _GREATEST, np.uint64(0), (stop - 1) >> 6
    for index in range(start >> 6, last + 1 if start < stop else 0):
        word, first = _word(words, index, start, stop), np.int64(index) << 6
        count |= word
        if index == last or _popcount(word) <= _FEW_BITS:
            while word != 0:
                minimum = min(minimum, values[first + np.int64(_popcount((word & (~word + _BIT)) - _BIT))] ^ flip)
                word &= word - _BIT
        else:
            some = values[first : first + 64]
            for bit in range(64):
                gone = np.int64((word >> np.uint64(bit)) & _BIT) - 1
                minimum = min(minimum, ((some[bit] ^ flip) & ~gone) | (gone & _GREATEST))
    if count != 0:
        value = minimum ^ flip
        if seen[0] == 0 or (value > best[0] if maximum else value < best[0]):
            best[0] = value
        seen[0] = 1


@njit(cache=True, nogil=True)
def sum_lists(lists, begins, counts, values, sums):
    """The sum of the values at the offsets of each list, of 128 bits: the low word, then the high one.

    lists: uint16[n], read: list i is the begins[i] up to begins[i] + counts[i]; begins, counts: int64[k]; values:
    int64[m]; read. sums: int64[k, 2], written. O(k + offsets).
    """
    for i in range(begins.shape[0]):
        low, high = np.int64(0), np.int64(0)
        for place in range(begins[i], begins[i] + counts[i]):
            value = values[lists[place]]
            low += value & _LOW
            high += value >> 32
        whole = np.uint64(low) + (np.uint64(high) << _HALF_WORD)
        sums[i, 0] = np.int64(whole)
        sums[i, 1] = (high >> 32) + np.int64(whole < np.uint64(low))


@njit(cache=True, nogil=True)
def extreme_lists(lists, begins, counts, values, greatest, best):
    """The least of the values at the offsets of each list, or the greatest.

    lists, begins, counts, values: as in `sum_lists`, counts at least 1. greatest: bool. best: int64[k], written. O(k +
    offsets).
    """
    for i in range(begins.shape[0]):
        best_row = values[lists[begins[i]]]
        for place in range(begins[i] + 1, begins[i] + counts[i]):
            value = values[lists[place]]
            best_row = max(best_row, value) if greatest else min(best_row, value)
        best[i] = best_row


@njit(cache=True, nogil=True)
def span_of_doubles(words, mask):
    """The least and the greatest exponent field of the numbers that are not 0, and how many are infinite or NaN.

    A field of 0 counts as 1, as its unit is the same; (2047, 0) if there is no number. words: int64[n], float64 values
    as they lie; mask: uint8[n], or of no length; read. O(n).
    """
    minimum, maximum, odd = _FIELD, np.int64(0), np.int64(0)
    every = mask.shape[0] == 0
    for i in range(words.shape[0]):
        word = words[i]
        counts = every or mask[i] != 0
        field = (word >> 52) & _FIELD
        number = counts and field != _FIELD and (word << 1) != 0
        field = max(field, np.int64(1))
        minimum = min(minimum, field if number else _FIELD)
        maximum = max(maximum, field if number else np.int64(0))
        odd += np.int64(counts and field == _FIELD)
    return minimum, maximum, odd


@njit(cache=True, nogil=True)
def sum_doubles(words, mask, codes, base, sums):
    """Add float64 values, as integers of units of 2^base, to the sums of their groups; infinities and NaN are left out.

    words: int64[n], the values as they lie; mask: uint8[n], or of no length; codes: int32[n]; read. base: not above the
    exponent of any value's last bit. sums: int64[groups, words], the lowest first, added to; they have room. O(n).
    """
    every, limbs = mask.shape[0] == 0, sums.shape[1]
    for i in range(words.shape[0]):
        word = words[i]
        field = (word >> 52) & _FIELD
        fraction = np.uint64(word) & _FRACTION
        if not (every or mask[i]) or field == _FIELD or (fraction == 0 and field == 0):
            continue
        if field != 0:
            fraction |= _IMPLICIT
        shift = np.uint64(max(field, np.int64(1)) - _UNIT - base)
        at, by = np.int64(shift >> _SIX), shift & _WORD
        sign = np.uint64(word >> 63)
        low, high = (fraction << by) ^ sign, ((fraction >> _ONE) >> (_WORD - by)) ^ sign
        group, carry = codes[i], sign & _ONE
        for k in range(at, limbs):
            part = low if k == at else high if k == at + 1 else sign
            before = np.uint64(sums[group, k])
            middle = before + carry
            after = middle + part
            carry = np.uint64(middle < before) | np.uint64(after < middle)
            sums[group, k] = np.int64(after)
            if k > at and carry == (sign & _ONE):
                break


@njit(cache=True, nogil=True)
def sum_near(values, mask, unit):
    """The sum of all finite values as two numbers, low + high * 2^46, in units; `unit` of them make 1.

    values: float64[n], n at most 65,536; mask: uint8[n], or of no length; read. unit: a power of two, of which every
    value is a multiple of the inverse, less than 2^93 times. O(n), several values at a time.
    """
    low, high, every = np.int64(0), np.int64(0), mask.shape[0] == 0
    if every:
        for i in range(values.shape[0]):
            scaled = values[i] * unit
            scaled = scaled if abs(scaled) < _HUGE else 0.0
            upper = math.trunc(scaled * _DOWN)
            low += np.int64(scaled - upper * _UP)
            high += np.int64(upper)
    else:
        for i in range(values.shape[0]):
            scaled = values[i] * unit
            scaled = scaled if abs(scaled) < _HUGE and mask[i] != 0 else 0.0
            upper = math.trunc(scaled * _DOWN)
            low += np.int64(scaled - upper * _UP)
            high += np.int64(upper)
    return low, high


@njit(cache=True, nogil=True)
def sum_groups_near(values, mask, codes, unit, sums):
    """Add finite values to the sums of their groups, as `sum_near`.

    values: float64[n], n at most 65,536; mask: uint8[n], or of no length; codes: int32[n]; read. unit: as there. sums:
    int64[groups, 2], low and high, added to. O(n).
    """
    every = mask.shape[0] == 0
    for i in range(values.shape[0]):
        scaled = values[i] * unit
        if (every or mask[i]) and abs(scaled) < _HUGE:
            upper = math.trunc(scaled * _DOWN)
            sums[codes[i], 0] += np.int64(scaled - upper * _UP)
            sums[codes[i], 1] += np.int64(upper)


@njit(cache=True, nogil=True)
def count_odd(values, mask, codes, counts):
    """Count the values of each group that are NaN, infinite, and minus infinite.

    values: float64[n]; mask: uint8[n], or of no length; codes: int32[n]; read. counts: int64[groups, 3], added to.
    O(n).
    """
    every = mask.shape[0] == 0
    for i in range(values.shape[0]):
        value = values[i]
        if (every or mask[i]) and not np.isfinite(value):
            counts[codes[i], 0 if np.isnan(value) else 1 if value > 0 else 2] += 1


@njit(cache=True, nogil=True, inline="always")
def _better(value, best, greatest):
    """Whether a value takes the place of another. Most do not, and one comparison says so, unless one is NaN."""
    if greatest:
        return not (value <= best) and best == best
    return not (value >= best) and value == value


@njit(cache=True, nogil=True)
def keep_extreme(values, mask, codes, greatest, best, seen, rows):
    """Keep the least value of each group, or the greatest; NaN is greater than all, and of equals the first stays.

    values: int64[n] or float64[n]; mask: uint8[n], or of no length; codes: int32[n]; read. greatest: bool. best: as
    values, [groups], seen: uint8[groups], written. rows: int64[groups], written where a value became the best: its row;
    or of no length. O(n).
    """
    every, noted = mask.shape[0] == 0, rows.shape[0] > 0
    for i in range(values.shape[0]):
        if every or mask[i]:
            group, value = codes[i], values[i]
            best_row = best[group]
            if seen[group] == 0 or _better(value, best_row, greatest):
                best[group] = value
                seen[group] = 1
                if noted:
                    rows[group] = i


@njit(cache=True, nogil=True)
def first_rows(mask, codes, rows):
    """Keep the first row of each group.

    mask: uint8[n], or of no length; codes: int32[n]; read. rows: int64[groups], -1 or a row, written where -1. O(n).
    """
    every = mask.shape[0] == 0
    for i in range(codes.shape[0]):
        if (every or mask[i]) and rows[codes[i]] < 0:
            rows[codes[i]] = i


@njit(cache=True, nogil=True)
def last_rows(mask, codes, rows):
    """Keep the last row of each group.

    mask: uint8[n], or of no length; codes: int32[n]; read. rows: int64[groups], written. O(n).
    """
    every = mask.shape[0] == 0
    for i in range(codes.shape[0]):
        if every or mask[i]:
            rows[codes[i]] = i


@njit(cache=True, nogil=True)
def extreme_texts(ends, data, mask, codes, greatest, rows):
    """Keep the row of the least text of each group by bytes, or the greatest; of equals the first stays.

    ends: int64[n + 1], data: uint8[bytes]; mask: uint8[n], or of no length; codes: int32[n]; read. greatest: bool.
    rows: int64[groups], -1 or a row, written. O(bytes).
    """
    every = mask.shape[0] == 0
    for i in range(codes.shape[0]):
        if not (every or mask[i]):
            continue
        best = rows[codes[i]]
        if best < 0:
            rows[codes[i]] = i
            continue
        first, other = ends[i], ends[best]
        size, length = ends[i + 1] - first, ends[best + 1] - other
        same, shorter = np.int64(0), min(size, length)
        while same < shorter and data[first + same] == data[other + same]:
            same += 1
        if same < shorter:
            less, more = data[first + same] < data[other + same], data[first + same] > data[other + same]
        else:
            less, more = size < length, size > length
        if (greatest and more) or (not greatest and less):
            rows[codes[i]] = i


@njit(cache=True, nogil=True)
def sum_deviations(values, mask, codes, origins, counts, sums):
    """Add to each group how many values it has, and the sum of what they are more than its origin.

    values: float64[n]; mask: uint8[n], or of no length; codes: int32[n]; origins: float64[groups]; read. counts:
    int64[groups], sums: float64[groups], added to. O(n).
    """
    every = mask.shape[0] == 0
    for i in range(values.shape[0]):
        if every or mask[i]:
            group = codes[i]
            counts[group] += 1
            sums[group] += values[i] - origins[group]


@njit(cache=True, nogil=True)
def sum_squares(values, mask, codes, origins, means, sums):
    """Add to each group the squares of what its values are more than its origin and its mean above the origin.

    values: float64[n]; mask: uint8[n], or of no length; codes: int32[n]; origins, means: float64[groups]; read. sums:
    float64[groups], added to. O(n).
    """
    every = mask.shape[0] == 0
    for i in range(values.shape[0]):
        if every or mask[i]:
            group = codes[i]
            apart = (values[i] - origins[group]) - means[group]
            sums[group] += apart * apart
