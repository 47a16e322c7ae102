"""Texts as COPY writes them: with backslashes in its text format, and between quotes in CSV.

a<tab>b    ──text──>  a\\tb          say "no"    ──CSV──>  "say ""no\"""
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def escaped_texts(offsets, data, letters, ends, out):
    """Write texts with a backslash and a letter for each byte that has a letter.

    offsets: int32[n + 1], data: uint8[bytes], texts; letters: uint8[256], 0 for a byte that stays; read. ends:
    int64[n + 1], out: uint8[>= 2 * bytes], written. Returns the bytes that
    were written. O(bytes).
    """
    place = np.int64(0)
    ends[0] = 0
    for i in range(ends.shape[0] - 1):
        for j in range(np.int64(offsets[i]), np.int64(offsets[i + 1])):
            byte = data[j]
            letter = letters[byte]
            if letter:
                out[place] = 92
                place += 1
                byte = letter
            out[place] = byte
            place += 1
        ends[i + 1] = place
    return place


@njit(cache=True, nogil=True)
def quoted_texts(offsets, data, marks, escape, quote, null, dot, ends, out):
    """Write texts between quotes where CSV needs them. Within, the escape stands before each quote and escape.

    offsets: int32[n + 1], data: uint8[bytes], texts; marks: uint8[256], not 0 for bytes that need quotes; escape,
    quote: bytes; null: uint8[b], the text of NULL; dot: whether the text "\\." needs quotes; read. ends:
    int64[n + 1], out: uint8[>= 2 * bytes + 2 * n], written. Returns the bytes that were written. O(bytes).
    """
    place = np.int64(0)
    ends[0] = 0
    for i in range(ends.shape[0] - 1):
        first, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        needed = stop - first == null.shape[0]
        for j in range(first, stop):
            if needed and data[j] != null[j - first]:
                needed = False
        for j in range(first, stop):
            if marks[data[j]]:
                needed = True
        if dot and stop - first == 2 and data[first] == 92 and data[first + 1] == 46:
            needed = True
        if needed:
            out[place] = quote
            place += 1
        for j in range(first, stop):
            byte = data[j]
            if needed and byte in (quote, escape):
                out[place] = escape
                place += 1
            out[place] = byte
            place += 1
        if needed:
            out[place] = quote
            place += 1
        ends[i + 1] = place
    return place
