"""Rows of bits in blocks: adding a piece of tuples to thousands of rows writes one stretch of memory, not a page of
each row.

    rows    uint64[B, R, W]       B blocks of 64 * W tuples, R rows
    tuple t of row r              bit (t & 63) of rows[t // (64 * W), r, (t >> 6) % W]

A bitmap whose words all lie side by side is a row of one block.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.rows.bitmaps import _popcount

_ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _set_bit(rows, row, offset):
    """Set the bit of tuple `offset`, which is not negative."""
    word, size = np.uint64(offset) >> np.uint64(6), np.uint64(rows.shape[2])
    rows[word // size, row, word % size] |= _ONE << np.uint64(offset & 63)


@njit(cache=True, nogil=True, inline="always")
def _stretch(rows, row, word, cap):
    """The place of a row's word `word` among all of `rows`, and how many, up to `cap`, lie side by side there."""
    size = rows.shape[2]
    block, inside = word // size, word % size
    return (block * rows.shape[1] + row) * size + inside, min(size - inside, cap)


@njit(cache=True, nogil=True)
def set_bits(rows, which, offsets):
    """Set bit `offsets[i]` of row `which[i]`.

    `rows`: uint64[B, R, W], written in place. `which`: int64[n]. `offsets`: uint16[n]. O(n).
    """
    for i in range(len(which)):
        _set_bit(rows, which[i], np.int64(offsets[i]))


@njit(cache=True, nogil=True)
def count_rows(rows, counts):
    """The number of set bits in each of the first rows.

    rows: uint64[B, R, W], read. counts: int64[k], k <= R, written. O(k * words of a row), in the order of memory.
    """
    counts[:] = 0
    for block in range(rows.shape[0]):
        for row in range(counts.shape[0]):
            total = np.uint64(0)
            for w in range(rows.shape[2]):
                total += _popcount(rows[block, row, w])
            counts[row] += np.int64(total)


@njit(cache=True, nogil=True)
def gather_rows(rows, which, out):
    """Copy the words of some rows side by side.

    rows: uint64[B, R, W], which: int64[k], read. out: uint64[k, B * W], C-contiguous, written. O(words written).
    """
    source, target = rows.reshape(-1), out.reshape(-1)
    blocks, height, size = np.uint64(rows.shape[0]), np.uint64(rows.shape[1]), np.uint64(rows.shape[2])
    for block in range(blocks):  # in the order of memory; unsigned, or no word would be copied with another
        for i in range(np.uint64(which.shape[0])):
            at, to = (block * height + np.uint64(which[i])) * size, (i * blocks + block) * size
            for w in range(size):
                target[to + w] = source[at + w]


@njit(cache=True, nogil=True, inline="always")
def _filled(words, out):
    """Write which words are not zero; returns how many. It has no branch, as most would be mispredicted.

    words: uint64[w], read. out: int64[w + 1], the first ones written, and one more.
    """
    count = 0
    for index in range(words.shape[0]):
        out[count] = index
        count += words[index] != 0
    return count


@njit(cache=True, nogil=True)
def rows_to_offsets(rows, which, starts, out):
    """Write the set bits of some rows as lists, one behind the other.

    rows: uint64[B, R, W], read. which: int64[k], the rows. starts: int64[k], where the list of which[i] begins in
    `out`, uint16[n], written ascending. O(bits / 64 + matches).
    """
    filled = np.empty(rows.shape[2] + 1, np.int64)
    for i in range(which.shape[0]):
        position = starts[i]
        for block in range(rows.shape[0]):
            words = rows[block, which[i]]
            for index in filled[: _filled(words, filled)]:
                word, first = words[index], (block * rows.shape[2] + index) << 6
                while word != 0:
                    out[position] = first + np.int64(_popcount((word & (~word + _ONE)) - _ONE))
                    position += 1
                    word &= word - _ONE
