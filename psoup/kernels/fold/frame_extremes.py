"""The least or the greatest key of each frame, for frames whose two ends ascend.

    keys     5 3 4 1        frames of two rows: [0, 1) [0, 2) [1, 3) [2, 4)        least: rows 0 1 1 3

A queue keeps the rows that can still be the best of a frame. Each row enters and leaves it at most once.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def frame_extremes(keys, mask, low, high, greatest, queue, rows):
    """Find the row with the least key of each frame [low, high), or with the greatest; of equals the first.

    keys: int64[n]; mask: uint8[n], or of no length if every row counts; low, high: int64[n], ascending; read. greatest:
    bool. queue: int64[n], scratch. rows: int64[n], written: a row, or -1 if no row of the frame counts. O(n).
    """
    every, head, tail, come = mask.shape[0] == 0, 0, 0, 0
    for i in range(low.shape[0]):
        while come < high[i]:
            if every or mask[come]:
                key = keys[come]
                while tail > head and (keys[queue[tail - 1]] < key if greatest else keys[queue[tail - 1]] > key):
                    tail -= 1
                queue[tail] = come
                tail += 1
            come += 1
        while head < tail and queue[head] < low[i]:
            head += 1
        rows[i] = queue[head] if head < tail and queue[head] < high[i] else np.int64(-1)
