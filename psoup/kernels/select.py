"""One clause over many old rows: masks of the rows whose values lie in intervals.

Masks are uint8, 1 = yes, so that they combine with & and |. Nothing here is shared between clauses.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def range_mask(keys, low, last, mask):
    """mask[i] = low <= keys[i] <= last. keys: int64[n], read; mask: uint8[n], written. O(n)."""
    for i in range(keys.shape[0]):
        key = keys[i]
        mask[i] = (key >= low) & (key <= last)


@njit(cache=True, nogil=True)
def allowed_mask(codes, allowed, mask):
    """mask[i] = allowed[codes[i]]. codes: int32[n], allowed: uint8[D + 3], read; mask: uint8[n], written. O(n)."""
    for i in range(codes.shape[0]):
        mask[i] = allowed[codes[i]]
