"""Row numbers in the order of keys, digit by digit, without a comparison between two of them.

    keys     305 12 307 12        by the last digit: 12 12 305 307, by the first: the same
    rows     0 1 2 3              1 3 0 2: rows of equal keys stay in their order

`order_keys` is the whole sort. `digit_pass` is one pass, for a sort that checks its budget in between. `count_digits`
and `move_rows` are the two halves of a pass, for many rows in pieces. Few keys have small digits, as large
ones would take longer to count. A comparison sort takes 4 to 67 ns a key, by the processor; this takes 1 to 5 a digit.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_LEAST_DIGIT, _MOST_DIGIT = 4, 11


@njit(cache=True, nogil=True)
def count_digits(keys, minimum, shift, rows, counts):
    """counts += how many of the rows have each digit of their keys.

    keys, minimum, shift, rows: as of `digit_pass`; read. counts: int64[digits], in place. O(k).
    """
    mask, down, base = np.uint64(counts.shape[0] - 1), np.uint64(shift), np.int64(minimum)
    for i in range(rows.shape[0]):
        counts[(np.uint64(keys[rows[i]] - base) >> down) & mask] += 1


@njit(cache=True, nogil=True)
def move_rows(keys, minimum, shift, rows, starts, out):
    """out[starts[d]:] = the rows whose keys have digit d, in their order; starts[d] is where the next of them belongs.

    keys, minimum, shift, rows: as of `digit_pass`; read. starts: int64[digits], in place; out: as rows, of all pieces;
    written at some places. O(k).
    """
    mask, down, base = np.uint64(starts.shape[0] - 1), np.uint64(shift), np.int64(minimum)
    for i in range(rows.shape[0]):
        row = rows[i]
        digit = (np.uint64(keys[row] - base) >> down) & mask
        out[starts[digit]] = row
        starts[digit] += 1


@njit(cache=True, nogil=True)
def _begin(ends):
    """Turn the count of each digit into its first place."""
    start = np.int64(0)
    for digit in range(ends.shape[0]):
        count = ends[digit]
        ends[digit] = start
        start += count


@njit(cache=True, nogil=True)
def digit_pass(keys, minimum, shift, rows, ends, out):
    """out = rows, ordered by a digit of their keys; rows of one digit keep their order.

    keys: int32 or int64[n], none below `minimum`; rows: uint32 or int64[k], places in them; read. The digit of a key is
    ((key - least) >> shift) modulo len(ends), which is a power of two. ends: int64[digits], scratch; out: as rows;
    written. O(k + digits).
    """
    ends[:] = 0
    count_digits(keys, minimum, shift, rows, ends)
    _begin(ends)
    move_rows(keys, minimum, shift, rows, ends, out)


@njit(cache=True, nogil=True)
def order_keys(keys, order, spare):
    """The positions of the keys in ascending order, equal ones in theirs.

    keys: int32 or int64[n], read. order: int64[n], written; spare: int64[n], scratch. O(n * digits of their range);
    one pass if they ascend.
    """
    n = keys.shape[0]
    for i in range(n):
        order[i] = i
    ascending, minimum, maximum = True, np.int64(keys[0]) if n else 0, np.int64(keys[0]) if n else 0
    for i in range(1, n):
        ascending &= keys[i - 1] <= keys[i]
        minimum, maximum = min(minimum, np.int64(keys[i])), max(maximum, np.int64(keys[i]))
    if ascending:
        return
    span, bits, size = np.uint64(maximum) - np.uint64(minimum), 0, 0
    while span >> np.uint64(bits) and bits < 64:
        bits += 1
    while n >> size and size < _MOST_DIGIT:
        size += 1
    passes = -(-bits // max(size, _LEAST_DIGIT))
    width = -(-bits // passes)
    ends, mask = np.empty(1 << width, np.int64), np.uint64((1 << width) - 1)
    for p in range(passes):
        down = np.uint64(p * width)
        ends[:] = 0
        for i in range(n):  # all of them, so as they lie
            ends[(np.uint64(keys[i] - minimum) >> down) & mask] += 1
        _begin(ends)
        move_rows(keys, minimum, down, order, ends, spare)
        order[:] = spare


@njit(cache=True, nogil=True)
def mark_changes(keys, rows, changed):
    """changed[i] |= keys[rows[i]] != keys[rows[i - 1]], from i = 1 on: where rows in order begin another group.

    keys: int64[n]; rows: uint32[k]; read. changed: uint8[k], ORed in place. O(k).
    """
    for i in range(1, rows.shape[0]):
        changed[i] |= np.uint8(keys[rows[i]] != keys[rows[i - 1]])
