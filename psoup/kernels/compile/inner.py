"""Compile functions that only kernels call, in their loops.

    @njit    counts a reference to each of its arrays when it begins, and another when it ends: two locked instructions
    @inner   counts none; the function must not make arrays, only views of its arguments

The kernel that calls holds the arrays. A locked instruction takes 5 ns, and waits until all writes before it are done:
for a function of ten arrays this took longer than to AND the bits of a clause.
"""

from __future__ import annotations

from typing import Any

from numba import njit

_WITHOUT_COUNTS: dict[str, Any] = {"_nrt": False}  # an option that Numba's types do not know

inner = njit(cache=True, nogil=True, **_WITHOUT_COUNTS)
