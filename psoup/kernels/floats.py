"""Arithmetic of DOUBLEs where NumPy's own loops differ from libm's functions in the last bit."""

from __future__ import annotations

import math

from numba import njit, types

# mypy: allow-untyped-defs, no-check-untyped-defs

_cbrt = types.ExternalFunction("cbrt", types.float64(types.float64))
"""libm's, which Numba's `math` has not."""


@njit(cache=True, nogil=True)
def power_float64(bases, exponents, out):
    """out[i] = bases[i] to the power exponents[i], as libm's pow has it: infinite on overflow, NaN outside its domain.

    `bases`, `exponents`: float64[n], read. `out`: float64[n], written. O(n). NumPy's vector loops are one unit in the
    last place off in some 4 % of random cases, and depend on the processor.
    """
    for i in range(len(out)):
        out[i] = math.pow(bases[i], exponents[i])


@njit(cache=True, nogil=True)
def atan2_float64(ys, xs, out):
    """out[i] = the angle of the point (xs[i], ys[i]), as libm's atan2 has it.

    `ys`, `xs`: float64[n], read. `out`: float64[n], written. O(n).
    """
    for i in range(len(out)):
        out[i] = math.atan2(ys[i], xs[i])


@njit(cache=True, nogil=True)
def math_float64(which, values, out):
    """out[i] = the function number `which` of values[i], as libm has it: infinite on overflow, NaN outside its domain.

    Numbers are places in exp, log, log2, log10, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh,
    cbrt. `values`: float64[n], read. `out`: float64[n], written. O(n). One loop for all: many take long to compile.
    """
    for i in range(len(out)):
        x = values[i]
        if which == 0:
            y = math.exp(x)
        elif which == 1:
            y = math.log(x)
        elif which == 2:
            y = math.log2(x)
        elif which == 3:
            y = math.log10(x)
        elif which == 4:
            y = math.sin(x)
        elif which == 5:
            y = math.cos(x)
        elif which == 6:
            y = math.tan(x)
        elif which == 7:
            y = math.asin(x)
        elif which == 8:
            y = math.acos(x)
        elif which == 9:
            y = math.atan(x)
        elif which == 10:
            y = math.sinh(x)
        elif which == 11:
            y = math.cosh(x)
        elif which == 12:
            y = math.tanh(x)
        elif which == 13:
            y = math.asinh(x)
        elif which == 14:
            y = math.acosh(x)
        elif which == 15:
            y = math.atanh(x)
        else:
            y = _cbrt(x)
        out[i] = y
