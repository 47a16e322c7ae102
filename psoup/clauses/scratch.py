"""Scratch memory that all probes reuse. A page fault for new memory costs more than the write itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from psoup.values.columns import Array, new_array

_KEPT_BYTES = 1 << 26
"""The greatest bytes of an array that is kept for later probes: 64 MiB. A larger one is freed after its probe."""


class Scratch:
    """Arrays that all probes reuse. Only one thread may use a `Scratch` at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._others: dict[tuple[int, int], Scratch] = {}

    def of(self, shard: int, part: int) -> Scratch:
        """The scratch for one of several joins that run in parallel. `shard`, `part`: identify the join."""
        if shard == part == 0:
            return self
        return self._others.setdefault((shard, part), Scratch())

    def get(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """An array of this shape with arbitrary content, C-contiguous."""
        size = shape if isinstance(shape, int) else math.prod(shape)
        array = self._arrays.get(name)
        if array is None or len(array) < size:
            array = new_array(size + (size >> 1), dtype)
            if array.nbytes <= _KEPT_BYTES:
                self._arrays[name] = array
        return array[:size].reshape(shape)

    def zeros(self, name: str, size: int) -> Array:
        """An int32 array of zeros, which the caller must leave as zeros."""
        array = self._arrays.get(name)
        if array is None or len(array) < size:
            array = self._arrays[name] = np.zeros(size, np.int32)
        return array

    @property
    def nbytes(self) -> int:
        """The bytes of all kept arrays."""
        return sum(array.nbytes for array in list(self._arrays.values())) + sum(
            other.nbytes for other in list(self._others.values())
        )
