"""Arithmetic of DOUBLEs where NumPy's own loops differ from libm's functions in the last bit."""

from __future__ import annotations

import math

from numba import njit

# mypy: allow-untyped-defs, no-check-untyped-defs


@njit(cache=True, nogil=True)
def power_float64(bases, exponents, out):
    """out[i] = bases[i] to the power exponents[i], as libm's pow has it: infinite on overflow, NaN outside its domain.

    `bases`, `exponents`: float64[n], read. `out`: float64[n], written. O(n). NumPy's vector loops are one unit in the
    last place off in some 4 % of random cases, and depend on the processor.
    """
    for i in range(len(out)):
        out[i] = math.pow(bases[i], exponents[i])
