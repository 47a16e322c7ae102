"""Prefix bitmaps: for each code that occurs, the tuples with a smaller code.

    codes of 4 tuples   2 0 2 1        rank   tuples below        interval of ranks [1, 2) =
                                        0     0000                bitmap[2] & ~bitmap[1] = 0001 (the fourth tuple)
                                        1     0100
                                        2     0101
                                        3     1111

Only codes that occur have a bitmap: at most n + 1 for each attribute, however many constants it has.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def prefix_bitmaps(codes, ranks, starts, use, shift, prefix):
    """The bitmaps of the attributes in use.

    codes: int32[A, n], ranks: int32[rows], starts: int64[A + 1] (see `count_codes`), use: uint8[A], read. shift: the
    bit of tuple 0, 0 to 63. prefix: uint64[starts[A], w] with 64*w >= shift + n, written for the attributes in use:
    row ranks[r] has the bits shift + i of the tuples with codes[a, i] < r; other bits are 0. O(ranks * w + n).
    """
    words = prefix.shape[1]
    for a in range(codes.shape[0]):
        if use[a] == 0:
            continue
        first, last = starts[a], starts[a + 1]
        prefix[first:last, :] = 0
        for i in range(codes.shape[1]):
            bit = shift + i
            prefix[ranks[codes[a, i]] + 1, bit >> 6] |= _ONE << np.uint64(bit & 63)
        for row in range(first + 1, last):
            for w in range(words):
                prefix[row, w] |= prefix[row - 1, w]
