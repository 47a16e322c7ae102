"""Packing results: matches of many clauses into their bitmaps, which are rows of one array."""

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
