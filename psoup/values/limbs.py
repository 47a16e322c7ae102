"""Integers of 128 bits, for sums: each has two fields of 64 bits, in the memory layout of Arrow's decimal128.

    low uint64, high int64   ->   high * 2**64 + low   ->   int64 if all of them fit, else Python's integers

Arithmetic is done on Python's integers, so no intermediate result overflows. This module is independent of SQL types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LIMBS = np.dtype([("low", "<u8"), ("high", "<i8")])
"""The dtype of integers of 128 bits."""

_LOW = 2**64 - 1


def integers(values: Array) -> Array:
    """Convert LIMBS[n] to int64[n] if all values fit, else to Python's integers (object[n]). O(n)."""
    narrow, high = values["low"].view(np.int64), values["high"]
    if bool((high == narrow >> 63).all()):
        return np.ascontiguousarray(narrow)
    return (high.astype(object) << 64) + values["low"].astype(object)


def limbs(numbers: Array) -> Array:
    """Convert int64[n], or Python's integers of less than 2**127, to LIMBS[n]. O(n)."""
    values = np.empty(len(numbers), LIMBS)
    if numbers.dtype == object:
        values["low"], values["high"] = numbers & _LOW, numbers >> 64
    else:
        values["low"], values["high"] = numbers.view(np.uint64), numbers >> 63
    return values


def limbs_of(number: int) -> tuple[int, int]:
    """The fields `low` and `high` of a number."""
    return number & _LOW, number >> 64


def number_of(fields: tuple[int, int]) -> int:
    """The number whose fields are (low, high)."""
    return fields[0] + (fields[1] << 64)


def largest(numbers: Array) -> int:
    """The greatest absolute value among int64[n] or Python's integers. 0 for an empty array. O(n)."""
    return max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0
