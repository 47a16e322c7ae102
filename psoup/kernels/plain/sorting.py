"""Plain twin of `psoup.kernels.sorting`."""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np


def digit_pass(keys, least, shift, rows, ends, out):
    """See the kernel. What is in `ends` afterwards is the end of each digit."""
    digits = ((keys[rows] - least).view(np.uint64) >> np.uint64(shift)) & np.uint64(len(ends) - 1)
    out[:] = rows[np.argsort(digits, kind="stable")]
    ends[:] = np.cumsum(np.bincount(digits.astype(np.int64), minlength=len(ends)))


def mark_changes(keys, rows, changed):
    """See the kernel."""
    changed[1:] |= np.diff(keys[rows]) != 0
