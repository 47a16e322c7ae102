"""Values in PostgreSQL's formats, one behind the other: integers, floats, decimals and times.

    values     7 -12 300            out    7-12300       ends    0 1 4 7
    "1e+20"    as Arrow writes it   out    1e+20         digits are kept, and their form is PostgreSQL's

`ends`: int64[n + 1], written: the bytes of value i are out[ends[i]] to out[ends[i + 1]].
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

MOST_INTEGER, MOST_FLOAT, MOST_DECIMAL, MOST_NUMERIC, MOST_TIME = 20, 32, 44, 40, 48
"""The most bytes of a value: a BIGINT, a float, a DECIMAL, a DECIMAL in binary format, a timestamp."""
DATES, LOCAL, ZONED = 0, 1, 2
"""The forms of times: a date in days; a timestamp in microseconds; a timestamp with the offset of its zone."""

_ZERO, _MINUS, _PLUS, _POINT, _E = 48, 45, 43, 46, 101
_DAY = 86_400_000_000
_NAN, _INFINITY = np.frombuffer(b"NaN", np.uint8), np.frombuffer(b"Infinity", np.uint8)


@njit(cache=True, nogil=True, inline="always")
def _digits(out, place, value, minimum):
    """Write a number of at least `minimum` digits; returns the place behind it."""
    size, rest = minimum, value
    limit = np.uint64(1)
    for _ in range(minimum):
        limit *= np.uint64(10)
    while rest >= limit:
        size += 1
        limit *= np.uint64(10)
    for j in range(size):
        after = rest // np.uint64(10)
        out[place + size - 1 - j] = np.uint8(np.uint64(_ZERO) + rest - after * np.uint64(10))
        rest = after
    return place + size


@njit(cache=True, nogil=True)
def integer_texts(values, ends, out):
    """Write integers.

    values: int64[n], read. ends: int64[n + 1], out: uint8[>= MOST_INTEGER * n], written. Returns the bytes that were
    written. O(n).
    """
    place = np.int64(0)
    ends[0] = 0
    for i in range(values.shape[0]):
        value = values[i]
        size = np.uint64(value)
        if value < 0:
            out[place] = _MINUS
            place += 1
            size = np.uint64(0) - size
        place = _digits(out, place, size, 1)
        ends[i + 1] = place
    return place


@njit(cache=True, nogil=True, inline="always")
def _word(out, place, word):
    for j in range(word.shape[0]):
        out[place + j] = word[j]
    return place + word.shape[0]


@njit(cache=True, nogil=True, inline="always")
def _figures(data, first, stop, figures):
    """The digits of a number without zeros at both ends: their count, and the place of the point before them."""
    count, point, power, at, seen = 0, 0, 0, first, False
    while at < stop and data[at] != _E:
        letter = data[at]
        if letter == _POINT:
            seen = True
        elif count or letter != _ZERO:
            figures[count] = letter
            count += 1
            point += 0 if seen else 1
        elif seen:
            point -= 1
        at += 1
    if at < stop:
        sign = 1
        at += 1
        if data[at] == _MINUS:
            sign = -1
        if data[at] == _MINUS or data[at] == _PLUS:
            at += 1
        while at < stop:
            power = 10 * power + np.int64(data[at]) - _ZERO
            at += 1
        power *= sign
    while count and figures[count - 1] == _ZERO:
        count -= 1
    return count, point + power


@njit(cache=True, nogil=True)
def float_texts(offsets, data, limit, ends, out):
    """Write floats in PostgreSQL's form. Digits, a sign and an exponent come as Arrow writes them.

    offsets: int32[n + 1], data: uint8[bytes], texts of Arrow; limit: the digits of a whole number from which on it
    has an exponent; read. ends: int64[n + 1], out: uint8[>= MOST_FLOAT * n], written. Returns the bytes that
    were written. O(bytes).
    """
    place = np.int64(0)
    ends[0] = 0
    figures = np.empty(MOST_FLOAT, np.uint8)
    for i in range(ends.shape[0] - 1):
        first, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if first < stop and data[first] == 110:  # nan
            place = _word(out, place, _NAN)
            first = stop
        if first < stop and data[first] == _MINUS:
            out[place] = _MINUS
            place += 1
            first += 1
        if first < stop and data[first] == 105:  # inf
            place = _word(out, place, _INFINITY)
        elif first < stop:
            count, point = _figures(data, first, stop, figures)
            place = _float(out, place, figures, count, point, limit)
        ends[i + 1] = place
    return place


@njit(cache=True, nogil=True, inline="always")
def _float(out, place, figures, count, point, limit):
    if count == 0:
        out[place] = _ZERO
        return place + 1
    if point - 1 < -4 or point - 1 >= limit:
        out[place] = figures[0]
        place += 1
        if count > 1:
            out[place] = _POINT
            place = _word(out, place + 1, figures[1:count])
        out[place] = _E
        out[place + 1] = _MINUS if point < 1 else _PLUS
        return _digits(out, place + 2, np.uint64(abs(point - 1)), 2)
    if point <= 0:
        out[place] = _ZERO
        out[place + 1] = _POINT
        place += 2
        for _ in range(-point):
            out[place] = _ZERO
            place += 1
        return _word(out, place, figures[:count])
    for j in range(point):
        out[place] = figures[j] if j < count else _ZERO
        place += 1
    if count > point:
        out[place] = _POINT
        place = _word(out, place + 1, figures[point:count])
    return place


@njit(cache=True, nogil=True)
def decimal_texts(offsets, data, scale, ends, out):
    """Write decimals. offsets: int32[n + 1], data: uint8[bytes], texts of their scaled integers; scale: digits behind
    the point; read. ends: int64[n + 1], out: uint8[>= MOST_DECIMAL * n], written. Returns the bytes that
    were written. O(bytes).
    """
    place = np.int64(0)
    ends[0] = 0
    for i in range(ends.shape[0] - 1):
        first, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if first < stop and data[first] == _MINUS:
            out[place] = _MINUS
            place += 1
            first += 1
        if first < stop:
            whole = stop - first - scale
            if whole <= 0:
                out[place] = _ZERO
                place += 1
            for j in range(first, max(first, stop - scale)):
                out[place] = data[j]
                place += 1
            if scale:
                out[place] = _POINT
                place += 1
            for _ in range(-whole):
                out[place] = _ZERO
                place += 1
            for j in range(max(first, stop - scale), stop):
                out[place] = data[j]
                place += 1
        ends[i + 1] = place
    return place


@njit(cache=True, nogil=True, inline="always")
def _short(out, place, value):
    out[place] = np.uint8((value >> 8) & 0xFF)
    out[place + 1] = np.uint8(value & 0xFF)


@njit(cache=True, nogil=True)
def numeric_values(offsets, data, scale, ends, out):
    """Write decimals in binary format: count, weight, sign, scale, and groups of four digits, each of two bytes.

    offsets: int32[n + 1], data: uint8[bytes], texts of their scaled integers; scale: digits behind the point; read.
    ends: int64[n + 1], out: uint8[>= MOST_NUMERIC * n], written. Returns the bytes that
    were written. O(bytes).
    """
    place = np.int64(0)
    ends[0] = 0
    behind = (scale + 3) // 4  # groups behind the point
    for i in range(ends.shape[0] - 1):
        first, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if first == stop:
            ends[i + 1] = place
            continue
        sign = 0
        if data[first] == _MINUS:
            sign = 0x4000
            first += 1
        point = stop - scale
        before = max(np.int64(0), (point - first + 3) // 4)
        count, weight = np.int64(0), before - 1
        last = np.int64(0)
        for g in range(-before, behind):
            group = 0
            for j in range(point + 4 * g, point + 4 * g + 4):
                group = 10 * group + (np.int64(data[j]) - _ZERO if first <= j < stop else 0)
            if count == 0 and group == 0:
                weight -= 1
                continue
            _short(out, place + 8 + 2 * count, group)
            count += 1
            if group:
                last = count
        if last == 0:
            weight = 0
        _short(out, place, last)
        _short(out, place + 2, weight)
        _short(out, place + 4, sign if last else 0)
        _short(out, place + 6, scale)
        place += 8 + 2 * last
        ends[i + 1] = place
    return place


@njit(cache=True, nogil=True, inline="always")
def _civil(days):
    """Year, month and day of a number of days since 1970."""
    days += 719_468
    era = days // 146_097
    of_era = days - era * 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (1 if month <= 2 else 0), month, of_year - (153 * shifted + 2) // 5 + 1


@njit(cache=True, nogil=True, inline="always")
def _two(out, place, mark, value):
    """Write a mark and two digits."""
    out[place] = mark
    out[place + 1] = _ZERO + value // 10
    out[place + 2] = _ZERO + value % 10
    return place + 3


@njit(cache=True, nogil=True, inline="always")
def _clock(out, place, time):
    """Write a time of day in microseconds, with a space before it."""
    seconds = time // 1_000_000
    fraction = time - seconds * 1_000_000
    place = _two(out, place, 32, seconds // 3600)
    place = _two(out, place, 58, seconds // 60 % 60)
    place = _two(out, place, 58, seconds % 60)
    if fraction:
        out[place] = _POINT
        place = _digits(out, place + 1, np.uint64(fraction), 6)
        while out[place - 1] == _ZERO:
            place -= 1
    return place


@njit(cache=True, nogil=True, inline="always")
def _zone(out, place, offset):
    """Write an offset in seconds: hours, and minutes and seconds if there are some."""
    seconds = abs(offset)
    place = _two(out, place, _MINUS if offset < 0 else _PLUS, seconds // 3600)
    if seconds % 3600:
        place = _two(out, place, 58, seconds // 60 % 60)
    if seconds % 60:
        place = _two(out, place, 58, seconds % 60)
    return place


@njit(cache=True, nogil=True)
def time_texts(values, offsets, form, ends, out):
    """Write times. Years before the first one have " BC" behind them.

    values: int64[n], days since 1970 for DATES, else microseconds; offsets: int64[n], seconds east of UTC, 0 but for
    ZONED; form: DATES, LOCAL or ZONED; read. ends: int64[n + 1], out: uint8[>= MOST_TIME * n], written. Returns the
    bytes that were written. O(n).
    """
    place = np.int64(0)
    ends[0] = 0
    for i in range(values.shape[0]):
        days, time = values[i], np.int64(0)
        if form != DATES:
            time = values[i] % _DAY
            days = values[i] // _DAY
            time += offsets[i] * 1_000_000
            if time < 0:
                time += _DAY
                days -= 1
            elif time >= _DAY:
                time -= _DAY
                days += 1
        year, month, day = _civil(days)
        place = _digits(out, place, np.uint64(year if year > 0 else 1 - year), 4)
        place = _two(out, place, _MINUS, month)
        place = _two(out, place, _MINUS, day)
        if form != DATES:
            place = _clock(out, place, time)
        if form == ZONED:
            place = _zone(out, place, offsets[i])
        if year <= 0:
            out[place], out[place + 1], out[place + 2] = 32, 66, 67
            place += 3
        ends[i + 1] = place
    return place
