"""Twins of `psoup.kernels.join.outer_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def merge_missing(rows: Array, left: Array, right: Array, missing: int, out_left: Array, out_right: Array) -> int:
    """See the kernel."""
    alone = np.setdiff1d(rows, left)
    order = np.argsort(np.concatenate([left, alone]), kind="stable")
    count = len(order)
    out_left[:count] = np.concatenate([left, alone])[order]
    out_right[:count] = np.concatenate([right, np.full(len(alone), missing, right.dtype)])[order]
    return count
