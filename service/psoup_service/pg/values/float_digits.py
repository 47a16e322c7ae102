"""The digits of floats as PostgreSQL chooses them: the shortest ones strictly between the neighbours' midpoints.

    2.124006396935925e+16 ──> 2.1240063969359248e+16     the first is the midpoint of two floats

Python and Arrow may choose the midpoint, if it reads as the same float. Only large whole numbers have such digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FIRST = {np.dtype(np.float64): 2.0**53, np.dtype(np.float32): 2.0**24}
"""The first float whose neighbour is at a distance of two."""
_BEYOND = {np.dtype(np.float64): 1e41, np.dtype(np.float32): 1e20}
"""From here on no midpoint has as few digits as a float: its odd part, below 2**54 or 2**25, has too few fives."""


def shortest(value: Any) -> str:
    """The digits of a float, in Python's form. value: float64 or float32 of NumPy."""
    text = str(value)
    size = abs(value)
    if not _FIRST[value.dtype] <= size < _BEYOND[value.dtype]:
        return text
    kind = value.dtype.type
    above, below = np.nextafter(size, kind(np.inf)), np.nextafter(size, kind(0))
    low, high = (int(size) + int(below)) // 2, (int(size) + int(above)) // 2
    if low < abs(int(Decimal(text))) < high:
        return text
    digits = len(Decimal(text).normalize().as_tuple().digits)
    while True:
        longer = f"{float(value):.{digits}e}"
        if low < abs(int(Decimal(longer))) < high:
            return longer
        digits += 1


def shortest_texts(column: pa.Array) -> pa.Array:
    """The digits of a column of floats, as Arrow writes them. O(n), and some microseconds for a large number."""
    texts = column.cast(pa.string())
    values = column.fill_null(0).to_numpy()
    large = (np.abs(values) >= _FIRST[values.dtype]) & (np.abs(values) < _BEYOND[values.dtype])
    if not large.any():
        return texts
    return pc.replace_with_mask(texts, pa.array(large), pa.array([shortest(value) for value in values[large]]))
