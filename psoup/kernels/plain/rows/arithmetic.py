"""Twins of `psoup.kernels.rows.arithmetic`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def signs(values: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = np.nan_to_num(np.sign(values))


def thousands(values: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = [(abs(value) + 500) // 1_000 * (1 if value >= 0 else -1) for value in values.tolist()]


def span_seconds(micros: Array, out: Array) -> None:
    """See the kernel."""
    parts = [divmod(abs(value), 86_400_000_000) for value in micros.tolist()]
    out[:] = np.copysign([days * 86_400.0 + rest / 1e6 for days, rest in parts], micros)


def differences(left: Array, right: Array, out: Array) -> bool:
    """See the kernel."""
    exact = [int(first) - int(second) for first, second in zip(left, right, strict=True)]
    out[:] = [(value + 2**63) % 2**64 - 2**63 for value in exact]
    return exact != out.tolist()
