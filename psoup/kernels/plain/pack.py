"""Plain NumPy twins of `psoup.kernels.pack`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def set_bits(rows: NDArray[np.uint64], which: NDArray[np.int64], offsets: NDArray[np.uint16]) -> None:
    """Set bit `offsets[i]` of row `which[i]`."""
    bits = np.uint64(1) << (offsets & 63).astype(np.uint64)
    np.bitwise_or.at(rows, (which, offsets >> 6), bits)
