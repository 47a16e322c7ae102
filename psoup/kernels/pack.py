"""Packing results: bits into rows, rows into lists. Numba; twins in `plain/pack.py`."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def set_bits(rows, which, offsets):  # type: ignore[no-untyped-def]
    """Set bit `offsets[i]` of row `which[i]`.

    `rows`: uint64[r, words], written in place. `which`: int64[n]. `offsets`: uint16[n]. O(n).
    """
    for i in range(len(which)):
        offset = np.int64(offsets[i])
        rows[which[i], offset >> 6] |= np.uint64(1) << np.uint64(offset & 63)


@njit(cache=True, nogil=True)
def rows_to_lists(rows, which, starts, out):  # type: ignore[no-untyped-def]
    """Write the set bits of row `which[i]`, ascending, to out[starts[i]:starts[i + 1]].

    `rows`: uint64[r, words]. `which`: int64[n]. `starts`: int64[n + 1]. `out`: uint16, written. O(words n + bits).
    """
    for i in range(len(which)):
        row = which[i]
        at = starts[i]
        for w in range(rows.shape[1]):
            word = rows[row, w]
            while word != 0:
                low = word & (~word + np.uint64(1))
                bit = 0
                probe = low
                for step in (32, 16, 8, 4, 2, 1):
                    if probe >> np.uint64(step):
                        probe >>= np.uint64(step)
                        bit += step
                out[at] = np.uint16(w * 64 + bit)
                at += 1
                word ^= low
