"""Twins of `psoup.kernels.order`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def digit_pass(keys: Array, least: int, shift: int, rows: Array, ends: Array, out: Array) -> None:
    """See the kernel. `ends` holds the end of each digit afterwards."""
    above = keys[rows].astype(np.int64) - least
    digits = (above.view(np.uint64) >> np.uint64(shift)) & np.uint64(len(ends) - 1)
    out[:] = rows[np.argsort(digits, kind="stable")]
    ends[:] = np.cumsum(np.bincount(digits.astype(np.int64), minlength=len(ends)))


def order_keys(keys: Array, order: Array, spare: Array) -> None:
    """See the kernel."""
    order[:] = np.argsort(keys, kind="stable")


def mark_changes(keys: Array, rows: Array, changed: Array) -> None:
    """See the kernel."""
    changed[1:] |= np.diff(keys[rows]) != 0
