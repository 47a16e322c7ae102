"""Twins of `psoup.kernels.numbers`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def signs(values: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = np.nan_to_num(np.sign(values))


def thousands(values: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = [(abs(value) + 500) // 1_000 * (1 if value >= 0 else -1) for value in values.tolist()]
