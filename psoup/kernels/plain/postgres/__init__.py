"""Twins of the room `postgres`, and columns of texts as lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from psoup.kernels.plain import Array


def put(texts: Iterable[bytes], ends: Array, out: Array) -> int:
    """Write texts one behind the other; returns their bytes."""
    written = list(texts)
    ends[:] = np.cumsum([0, *map(len, written)])
    out[: ends[-1]] = np.frombuffer(b"".join(written), np.uint8)
    return int(ends[-1])


def taken(offsets: Array, data: Array) -> Iterator[bytes]:
    """The texts of a column."""
    for first, stop in pairwise(offsets):
        yield data[first:stop].tobytes()
