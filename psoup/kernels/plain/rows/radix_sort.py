"""Twins of `psoup.kernels.rows.radix_sort`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def _digits(keys: Array, minimum: int, shift: int, rows: Array, digits: int) -> Array:
    """The digit of each row's key."""
    above = keys[rows].astype(np.int64) - minimum
    return ((above.view(np.uint64) >> np.uint64(shift)) & np.uint64(digits - 1)).astype(np.int64)


def count_digits(keys: Array, minimum: int, shift: int, rows: Array, counts: Array) -> None:
    """See the kernel."""
    counts += np.bincount(_digits(keys, minimum, shift, rows, len(counts)), minlength=len(counts))


def move_rows(keys: Array, minimum: int, shift: int, rows: Array, starts: Array, out: Array) -> None:
    """See the kernel."""
    digits = _digits(keys, minimum, shift, rows, len(starts))
    order, counts = np.argsort(digits, kind="stable"), np.bincount(digits, minlength=len(starts))
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    out[starts[digits[order]] + place] = rows[order]
    starts += counts


def digit_pass(keys: Array, minimum: int, shift: int, rows: Array, ends: Array, out: Array) -> None:
    """See the kernel. `ends` holds the end of each digit afterwards."""
    ends[:] = 0
    count_digits(keys, minimum, shift, rows, ends)
    ends[:] = np.cumsum(ends) - ends
    move_rows(keys, minimum, shift, rows, ends, out)


def order_keys(keys: Array, order: Array, spare: Array) -> None:
    """See the kernel."""
    order[:] = np.argsort(keys, kind="stable")


def mark_changes(keys: Array, rows: Array, changed: Array) -> None:
    """See the kernel."""
    changed[1:] |= np.diff(keys[rows]) != 0
