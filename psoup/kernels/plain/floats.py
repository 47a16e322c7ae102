"""Plain twins of `psoup.kernels.floats`: Python's own floats, which are libm's."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def power_float64(bases: NDArray[np.float64], exponents: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out[i] = bases[i] to the power exponents[i]."""
    out[:] = [_pow(float(base), float(exponent)) for base, exponent in zip(bases, exponents, strict=True)]


def _pow(base: float, exponent: float) -> float:
    odd = math.isfinite(exponent) and exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base:
            return math.nan
        return math.copysign(math.inf, base) if odd else math.inf
