"""Narrow states: the arrays of a fold pack in the fewest bytes that hold all their values.

int64  3 200 -7      ─ narrow ─>  int16 3 200 -7      ─ widen ─>  int64, as the kernels take them
"""

from __future__ import annotations

import numpy as np

from psoup.values.columns import Array, Column

_NARROW = (np.int8, np.int16, np.int32)


def narrow_array(array: Array) -> Array:
    """A copy of the integers in the narrowest type that holds them all."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for kind in _NARROW:
        info = np.iinfo(kind)
        if info.min <= low and high <= info.max:
            return array.astype(kind)
    return array


def narrowed_part(part: Array | Column) -> Array | Column:
    """A part of a state with narrower integers. Sums of two words become one word each, if that holds them all."""
    if not isinstance(part, np.ndarray) or part.dtype != np.int64:
        return part
    if part.ndim == 2 and part.shape[1] == 2 and bool((part[:, 0] >> 63 == part[:, 1]).all()):
        return narrow_array(part[:, :1])
    return narrow_array(part)


def widened_part(part: Array | Column) -> Array | Column:
    """The inverse of `narrowed_part`."""
    if not isinstance(part, np.ndarray) or part.dtype.kind != "i":
        return part
    if part.ndim == 2 and part.shape[1] == 1:
        words = np.empty((len(part), 2), np.int64)
        words[:, 0] = part[:, 0]
        np.right_shift(words[:, 0], 63, out=words[:, 1])
        return words
    return part.astype(np.int64, copy=False)
