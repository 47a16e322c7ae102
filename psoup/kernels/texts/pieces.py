"""Texts taken apart and put together by their bytes, one row after the other: places of parts, first letters, the order
turned round, a part replaced, room filled.

ends     where the texts of a column begin and end in data: text r is bytes ends[r] to ends[r + 1], UTF-8
letter   a first byte, and those after it that are 0b10xxxxxx
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def reverse_texts(ends, data, out):
    """Write the letters of each text from the last to the first, at the place of the text.

    ends: int64[n + 1], read. data: uint8[bytes], read. out: uint8[ends[n] - ends[0]], written. O(bytes).
    """
    base = ends[0]
    for i in range(ends.shape[0] - 1):
        first, stop = ends[i], ends[i + 1]
        high = np.uint8(0)
        for j in range(first, stop):
            high |= data[j]
        if high < 0x80:
            last, place = np.uint64(stop - 1), np.uint64(first - base)
            for j in range(np.uint64(stop - first)):  # unsigned, or each would be asked whether it counts from the end
                out[place + j] = data[last - j]
        else:
            letter = first
            while letter < stop:
                after = letter + 1
                while after < stop and data[after] & 0xC0 == 0x80:
                    after += 1
                place = first + stop - after - base
                for j in range(letter, after):
                    out[place + j - letter] = data[j]
                letter = after


@njit(cache=True, nogil=True)
def first_letters(ends, data, nothing, out):
    """out[r] = the code point of the first letter of text r; `nothing` if it has none.

    ends: int64[n + 1], data: uint8[bytes], read. out: int64[n], written. O(n).
    """
    for i in range(out.shape[0]):
        at = ends[i]
        if at == ends[i + 1]:
            out[i] = nothing
            continue
        lead = np.int64(data[at])
        if lead < 0x80:
            out[i] = lead
            continue
        more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        point = lead & (0x3F >> more)
        for j in range(at + 1, at + 1 + more):
            point = point << 6 | np.int64(data[j]) & 0x3F
        out[i] = point


@njit(cache=True, nogil=True, inline="always")
def _next(data, at, stop, part, low, size):
    """The first byte of the next part, or `stop`."""
    last = stop - size
    while at <= last:
        if data[at] == part[low]:
            same = 1
            while same < size and data[at + same] == part[low + same]:
                same += 1
            if same == size:
                return at
        at += 1
    return stop


@njit(cache=True, nogil=True)
def find_pieces(ends, data, between, parts, numbers, begin, stop):
    """Find the pieces with some numbers, of the pieces that a part between them makes of a text.

    ends: int64[n + 1], data: uint8[bytes]; between: int64[n + 1], parts: uint8[b], where the parts are, in the same
    form; numbers: int64[n], from 1, or from the end: -1; read. begin, stop: int64[n], places in data, written: the same
    without such a piece, or if the part is empty. O(bytes * bytes of a part).
    """
    for i in range(numbers.shape[0]):
        first, end, low = ends[i], ends[i + 1], between[i]
        size, number = between[i + 1] - low, numbers[i]
        begin[i], stop[i] = first, first
        if size == 0 or number == 0:
            continue
        if number < 0:
            number += 2
            at = _next(data, first, end, parts, low, size)
            while at < end:
                number += 1
                at = _next(data, at + size, end, parts, low, size)
            if number < 1:
                continue
        at, piece = _next(data, first, end, parts, low, size), first
        while number > 1 and at < end:
            piece = at + size
            at = _next(data, piece, end, parts, low, size)
            number -= 1
        if number == 1:
            begin[i], stop[i] = piece, at


@njit(cache=True, nogil=True, inline="always")
def _copy(source, first, stop, out, place):
    """Write the bytes from first to stop to a place; returns the place behind them."""
    size = np.uint64(stop - first)
    to, at = np.uint64(place), np.uint64(first)
    for j in range(size):  # unsigned, or each would be asked whether it counts from the end
        out[to + j] = source[at + j]
    return place + stop - first


@njit(cache=True, nogil=True)
def splice_texts(ends, data, begins, stops, between, parts, out_ends, out):
    """Write each text with a piece of it replaced by constants and other pieces of it, in turns.

    ends: int64[n + 1], data: uint8[bytes]; begins, stops: int64[1 + g, n]: bytes of the text, counted from its own
    beginning: first what is replaced, -1 where nothing is, then the pieces; between: int64[g + 2], parts: uint8[b]: the
    constants before and behind each piece; out_ends: int64[n + 1], filled: a text without bytes is left out; read. out:
    uint8[out_ends[n]], written. O(bytes written).
    """
    for i in range(out_ends.shape[0] - 1):
        place, base = out_ends[i], ends[i]
        if place == out_ends[i + 1]:
            continue
        if begins[0, i] < 0:
            _copy(data, base, ends[i + 1], out, place)
            continue
        place = _copy(data, base, base + begins[0, i], out, place)
        place = _copy(parts, between[0], between[1], out, place)
        for g in range(1, begins.shape[0]):
            place = _copy(data, base + begins[g, i], base + stops[g, i], out, place)
            place = _copy(parts, between[g], between[g + 1], out, place)
        _copy(data, base + stops[0, i], ends[i + 1], out, place)


@njit(cache=True, nogil=True, inline="always")
def _letters(data, first, stop):
    """The number of letters."""
    count = 0
    for j in range(first, stop):
        count += data[j] & 0xC0 != 0x80
    return count


@njit(cache=True, nogil=True, inline="always")
def _behind(data, at, letters):
    """The end of the bytes of so many letters."""
    while True:
        at += 1
        letters -= data[at - 1] & 0xC0 != 0x80
        if letters < 0:
            return at - 1


@njit(cache=True, nogil=True)
def padded_sizes(ends, data, between, parts, wanted, text_bytes, sizes):
    """Count the bytes of texts that are cut or filled up to some letters; -1 if there is nothing to fill with.

    ends: int64[n + 1], data: uint8[bytes]; between: int64[n + 1], parts: uint8[b], what each is filled with, again and
    again; wanted: int64[n], letters, 0 to 2^31; read. text_bytes: int64[n], bytes of the text that stay, and sizes:
    int64[n], written. O(bytes).
    """
    for i in range(sizes.shape[0]):
        first, stop, low, high = ends[i], ends[i + 1], between[i], between[i + 1]
        missing = wanted[i] - _letters(data, first, stop)
        if missing < 0:
            stop = _behind(data, first, wanted[i])
            missing = 0
        text_bytes[i] = stop - first
        unit = _letters(parts, low, high) if missing else 1
        if unit == 0:
            sizes[i] = -1
            continue
        whole = missing // unit
        rest = missing - whole * unit
        sizes[i] = text_bytes[i] + whole * (high - low) + (_behind(parts, low, rest) - low if rest else 0)


@njit(cache=True, nogil=True)
def pad_texts(ends, data, between, parts, text_bytes, left, out_ends, out):
    """Write texts as `padded_sizes` has measured them; `left`: what they are filled with comes first.

    out_ends: int64[n + 1], filled: a text without bytes is left out; the other arrays as there, read. out:
    uint8[out_ends[n]], written. O(bytes written).
    """
    for i in range(text_bytes.shape[0]):
        place, end = out_ends[i], out_ends[i + 1]
        if place == end:
            continue
        low, high = between[i], between[i + 1]
        if not left:
            place = _copy(data, ends[i], ends[i] + text_bytes[i], out, place)
        filled, at = end - text_bytes[i] if left else end, low
        for j in range(np.uint64(place), np.uint64(filled)):
            out[j] = parts[at]
            at = at + 1 if at + 1 < high else low
        if left:
            _copy(data, ends[i], ends[i] + text_bytes[i], out, filled)
