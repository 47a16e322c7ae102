"""Plain NumPy twins of `psoup.kernels.pack`."""

from __future__ import annotations

import numpy as np

from numpy.typing import NDArray


def set_bits(rows: NDArray[np.uint64], which: NDArray[np.int64], offsets: NDArray[np.uint16]) -> None:
    """Set bit `offsets[i]` of row `which[i]`."""
    bits = np.uint64(1) << (offsets & 63).astype(np.uint64)
    np.bitwise_or.at(rows, (which, offsets >> 6), bits)


def rows_to_lists(
    rows: NDArray[np.uint64], which: NDArray[np.int64], starts: NDArray[np.int64], out: NDArray[np.uint16]
) -> None:
    """Write the set bits of row `which[i]`, ascending, to out[starts[i]:starts[i + 1]]."""
    for i, row in enumerate(which):
        bits = np.unpackbits(rows[row].view(np.uint8), bitorder="little")
        out[starts[i] : starts[i + 1]] = np.flatnonzero(bits)
