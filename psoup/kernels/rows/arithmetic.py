"""Steps of arithmetic in one pass, where NumPy needs four to six over arrays of the same length."""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def signs(values, out):
    """out[i] = -1, 0 or 1, as values[i] is below, at or above zero; 0 for NaN.

    values: int64[n] or float64[n], read. out: int64[n], written. O(n).
    """
    for i in range(out.shape[0]):
        out[i] = np.int64(values[i] > 0) - np.int64(values[i] < 0)


@njit(cache=True, nogil=True)
def thousands(values, out):
    """out[i] = values[i] / 1,000 to the nearest whole number, halves away from zero.

    values: int64[n], read. out: int64[n], written. O(n). A divisor that is known is a multiplication.
    """
    for i in range(out.shape[0]):
        value = values[i]
        size = np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)
        near = np.int64((size + np.uint64(500)) // np.uint64(1_000))
        out[i] = near if value >= 0 else -near


@njit(cache=True, nogil=True)
def span_seconds(micros, out):
    """out[i] = the seconds of micros[i]: of whole days, of the rest, and their sum, each rounded.

    micros: int64[n], read. out: float64[n], written. O(n). It is how DuckDB counts an INTERVAL, to the last bit.
    """
    for i in range(out.shape[0]):
        size = np.uint64(micros[i]) if micros[i] >= 0 else np.uint64(0) - np.uint64(micros[i])
        days = size // np.uint64(86_400_000_000)
        rest = np.int64(size - days * np.uint64(86_400_000_000))
        seconds = np.int64(days) * 86_400.0 + rest / 1e6
        out[i] = seconds if micros[i] >= 0 else -seconds


@njit(cache=True, nogil=True)
def differences(left, right, out):
    """out[i] = left[i] - right[i], modulo 2^64; returns whether any of them is not within int64.

    left, right: int64[n], read. out: int64[n], written. O(n).
    """
    wrapped = np.int64(0)
    for i in range(out.shape[0]):
        total = left[i] - right[i]
        wrapped |= (left[i] ^ right[i]) & (left[i] ^ total)
        out[i] = total
    return wrapped < 0
