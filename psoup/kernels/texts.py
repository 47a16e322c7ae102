"""Texts taken apart by their bytes, one row after the other: places of parts, first letters, the order turned round.

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
    """Where the next part begins, or `stop`."""
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
    """Where the piece with a number begins and stops, of the pieces that a part between them makes of a text.

    ends: int64[n + 1], data: uint8[bytes]; between: int64[n + 1], parts: uint8[b], where the parts are, in the same
    form; numbers: int64[n], from 1, or from the end: -1; read. begin, stop: int64[n], places in data, written: the same
    where there is no such piece, or the part is empty. O(bytes * bytes of a part).
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
