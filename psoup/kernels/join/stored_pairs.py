"""Stored pairs of chunks, cut down to the rows of both sides of a join; the rows that are left, numbered.

block of chunks 7 and 4     left 8 9 9    right 1 1 5       rows in their chunks
sides                       rows 9 … of 7, row 1 of 4       a range of rows, or bits
out                         (0 << 16 | 9, 2 << 16 | 1)      codes: which match of the side, and the row in its chunk

codes      2 << 16 | 1, 0 << 16 | 9, 2 << 16 | 1     ──number_rows──>     rows, ascending     positions 1 0 1
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.rows.bitmaps import _popcount

_ONE, _S16, _WORD = np.uint64(1), np.uint64(16), np.uint64(63)


@njit(cache=True, nogil=True)
def meet_kept(left, right, starts, blocks, number, span, left_bits, numbers, spans, right_bits, lefts, rights, at):
    """Write the pairs of one chunk on the left whose rows both sides have, from place `at` on; returns the next place.

    left, right: uint16, the pairs, and starts: int64[n + 1], where the pairs of each block start. blocks: int64[k],
    those to look at, and numbers: int64[k], the match of each on the right; number: that on the left. span: int64[2],
    the rows from where to where that match; left_bits: uint64[w], the matches among them, or of no length: all. spans:
    int64[matches, 3], of the matches on the right, with the row of right_bits (uint64[b, w]) or -1. All read. lefts,
    rights: int64, written, with room for all pairs of the blocks, and one. O(pairs of the blocks).
    """
    low, high, all_left = np.uint64(span[0]), np.uint64(span[1]), left_bits.shape[0] == 0
    place, left_base = np.uint64(at), number << 16
    for k in range(blocks.shape[0]):
        match_of_row = numbers[k]
        first, stop, bits = np.uint64(spans[match_of_row, 0]), np.uint64(spans[match_of_row, 1]), spans[match_of_row, 2]
        base = match_of_row << 16
        for i in range(np.uint64(starts[blocks[k]]), np.uint64(starts[blocks[k] + 1])):
            a, b = np.uint64(left[i]), np.uint64(right[i])
            both = (a >= low) & (a < high) & (b >= first) & (b < stop)
            if not all_left:
                both &= ((left_bits[a >> np.uint64(6)] >> (a & _WORD)) & _ONE) != 0
            if bits >= 0:
                both &= ((right_bits[bits, b >> np.uint64(6)] >> (b & _WORD)) & _ONE) != 0
            lefts[place], rights[place] = left_base + np.int64(a), base + np.int64(b)
            place += np.uint64(both)
    return np.int64(place)


@njit(cache=True, nogil=True)
def marked_rows(keys, start, stop, bits, factor, shift, marks, rows):
    """Write the rows from `start` to `stop` whose key has its bit set in `marks`; returns how many.

    keys: int64[n]; bits: uint64[w], the rows that count, or of no length: all; factor, shift, marks: of
    `buckets.mark_keys`; read. rows: uint16[stop - start + 1], written, scratch behind the rows. O(stop - start).
    """
    remaining, every = np.uint64(0), bits.shape[0] == 0
    for i in range(np.uint64(start), np.uint64(stop)):
        bit = (np.uint64(keys[i]) * factor) >> shift
        rows[remaining] = i
        remaining += (marks[bit >> np.uint64(6)] >> (bit & _WORD)) & _ONE
    if every:
        return np.int64(remaining)
    count = np.uint64(0)
    for place in range(remaining):
        row = np.uint64(rows[place])
        rows[count] = rows[place]
        count += (bits[row >> np.uint64(6)] >> (row & _WORD)) & _ONE
    return np.int64(count)


@njit(cache=True, nogil=True)
def number_rows(codes, marks, rows, positions):
    """Write each code once, ascending, and where it stands among these; returns how many there are.

    codes: int64[m], read. marks: uint64[w], zeros, 64 * w above all codes; written. rows: int64[m], the first are
    written; positions: int32[m], written. O(m + w).
    """
    for i in range(codes.shape[0]):
        code = np.uint64(codes[i])
        marks[code >> np.uint64(6)] |= _ONE << (code & _WORD)
    before, count = np.empty(marks.shape[0], np.int32), 0
    for w in range(marks.shape[0]):
        before[w] = count
        word, bit = marks[w], 0
        while word != 0:
            if word & _ONE:
                rows[count] = (w << 6) + bit
                count += 1
            word >>= _ONE
            bit += 1
    for i in range(codes.shape[0]):
        code = np.uint64(codes[i])
        w = code >> np.uint64(6)
        positions[i] = before[w] + np.int32(_popcount(marks[w] & ((_ONE << (code & _WORD)) - _ONE)))
    return count
