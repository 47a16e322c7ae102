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
    cbrt. `values`: float64[n], read. `out`: float64[n], written. O(n). A loop for each: to choose within one loop took
    up to a third of cosh.
    """
    if which == 0:
        for i in range(len(out)):
            out[i] = math.exp(values[i])
    elif which == 1:
        for i in range(len(out)):
            out[i] = math.log(values[i])
    elif which == 2:
        for i in range(len(out)):
            out[i] = math.log2(values[i])
    elif which == 3:
        for i in range(len(out)):
            out[i] = math.log10(values[i])
    elif which == 4:
        for i in range(len(out)):
            out[i] = math.sin(values[i])
    elif which == 5:
        for i in range(len(out)):
            out[i] = math.cos(values[i])
    elif which == 6:
        for i in range(len(out)):
            out[i] = math.tan(values[i])
    elif which == 7:
        for i in range(len(out)):
            out[i] = math.asin(values[i])
    elif which == 8:
        for i in range(len(out)):
            out[i] = math.acos(values[i])
    elif which == 9:
        for i in range(len(out)):
            out[i] = math.atan(values[i])
    elif which == 10:
        for i in range(len(out)):
            out[i] = math.sinh(values[i])
    elif which == 11:
        for i in range(len(out)):
            out[i] = math.cosh(values[i])
    elif which == 12:
        for i in range(len(out)):
            out[i] = math.tanh(values[i])
    elif which == 13:
        for i in range(len(out)):
            out[i] = math.asinh(values[i])
    elif which == 14:
        for i in range(len(out)):
            out[i] = math.acosh(values[i])
    elif which == 15:
        for i in range(len(out)):
            out[i] = math.atanh(values[i])
    else:
        for i in range(len(out)):
            out[i] = _cbrt(values[i])
