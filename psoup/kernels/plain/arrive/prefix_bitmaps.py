"""Twins of `psoup.kernels.arrive.prefix_bitmaps`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.plain.rows.bitmaps import mask_to_bits


def prefix_bitmaps(codes: Array, ranks: Array, starts: Array, use: Array, shift: int, prefix: Array) -> None:
    """See the kernel."""
    for a in np.flatnonzero(use):
        prefix[starts[a] : starts[a + 1]] = 0
        for row in range(starts[a], starts[a + 1]):
            mask_to_bits((ranks[codes[a]] < row).astype(np.uint8), shift, prefix[row])
