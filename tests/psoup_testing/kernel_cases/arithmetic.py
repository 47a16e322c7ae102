"""Random arguments for the kernels of `numbers` and `floats`."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def thousands(rng: Rng) -> Arguments:
    """Whole numbers: the ends of int64, thousands and their halves, and of all sizes."""
    ends = [-(2**63), 2**63 - 1, 0, 499, 500, -499, -500, -501]
    values = np.concatenate([ends, rng.integers(-9, 9, 16) * 500, rng.integers(-(2**63), 2**63 - 1, 16)])
    return values, np.zeros(40, np.int64)


def span_seconds(rng: Rng) -> Arguments:
    """Microseconds: the ends of int64, whole days and their neighbours, and of all sizes."""
    days = rng.integers(-(10**8), 10**8, 16) * 86_400_000_000
    ends = [-(2**63), 2**63 - 1, 0, 1, -1, 86_399_999_999, -86_400_000_001]
    return np.concatenate([ends, days, days + 1, days - 1, rng.integers(-(2**63), 2**63 - 1, 16)]), np.zeros(71)


def signs(rng: Rng) -> Arguments:
    """Whole numbers, or floats with those that are no number."""
    whole, out = thousands(rng)
    ends = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, -np.nan]
    return whole if rng.random() < 0.5 else np.concatenate([ends, rng.normal(size=32)]), out


def differences(rng: Rng) -> Arguments:
    """Whole numbers of all sizes, or those whose differences all fit."""
    (left, out), (right, _) = thousands(rng), thousands(rng)
    return (left // 2, right // 2, out) if rng.random() < 0.5 else (left, right, out)


def powers(rng: Rng) -> Arguments:
    """Bases and exponents: all pairs of those that are special, and usual ones."""
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.0, np.inf, -np.inf, np.nan, 1e300, 0.5, 3.0])
    bases = np.concatenate([np.repeat(special, len(special)), rng.normal(0, 9, 50)])
    exponents = np.concatenate([np.tile(special, len(special)), rng.integers(-4, 5, 50) / 2])
    return bases, exponents, np.zeros(len(bases))
