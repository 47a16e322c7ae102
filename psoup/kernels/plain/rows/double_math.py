"""Plain twins of `psoup.kernels.rows.double_math`: Python's own floats, which are libm's."""

from __future__ import annotations

import math
from collections.abc import Callable

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


def atan2_float64(ys: NDArray[np.float64], xs: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out[i] = the angle of the point (xs[i], ys[i])."""
    out[:] = [math.atan2(float(y), float(x)) for y, x in zip(ys, xs, strict=True)]


_FUNCTIONS: tuple[Callable[[float], float], ...] = (
    *(math.exp, math.log, math.log2, math.log10, math.sin, math.cos, math.tan, math.asin),
    *(math.acos, math.atan, math.sinh, math.cosh, math.tanh, math.asinh, math.acosh, math.atanh, math.cbrt),
)


def math_float64(which: int, values: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out[i] = the function number `which` of values[i]."""
    out[:] = [_of(which, float(value)) for value in values]


def _of(which: int, value: float) -> float:
    try:
        return _FUNCTIONS[which](value)
    except OverflowError:
        return -math.inf if which == 10 and value < 0 else math.inf
    except ValueError:
        if which in (1, 2, 3) and value == 0:
            return -math.inf
        return math.copysign(math.inf, value) if which == 15 and abs(value) == 1 else math.nan
