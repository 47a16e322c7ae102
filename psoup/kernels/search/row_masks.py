"""A clause over many old rows: masks of the rows whose values lie in intervals, and the rows of a mask.

Masks are uint8, 1 = yes, so that they combine with & and |, many rows in one instruction. A column of a closed chunk
is searched by its *narrow* codes: 8 or 16 bits a value. Nothing here is shared between clauses.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.rows.bitmaps import _popcount

_ONE = np.uint64(1)
_GATHER = np.uint64(0x0102_0408_1020_4080)
"""Times a word of eight bytes of 0 or 1: the highest byte has their bits."""
_BLOCK = 256
"""Rows that are skipped together if none of them is left."""


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


@njit(cache=True, nogil=True)
def narrow_codes(keys, valid, minimum, shift, out):
    """out[i] = (keys[i] - least) >> shift; with `valid` one more, and 0 where valid[i] is 0.

    keys: int64[n], none of a valid row below least; valid: uint8[n], or uint8[0] if all are. Read.
    out: uint8 or uint16[n], written; large enough for the greatest. O(n).
    """
    base, move, first = np.uint64(minimum), np.uint64(shift), np.uint64(valid.shape[0] > 0)
    for i in range(keys.shape[0]):
        out[i] = ((np.uint64(keys[i]) - base) >> move) + first
    for i in range(valid.shape[0]):
        if valid[i] == 0:
            out[i] = 0


@njit(cache=True, nogil=True)
def codes_mask(codes, first, last, mask):
    """mask[i] = first <= codes[i] <= last. codes: uint8 or uint16[n], read; mask: uint8[n], written. O(n)."""
    low, high = codes.dtype.type(first), codes.dtype.type(last)
    for i in range(codes.shape[0]):
        mask[i] = (low <= codes[i]) & (codes[i] <= high)


@njit(cache=True, nogil=True)
def codes_mask_and(codes, first, last, mask):
    """mask[i] &= first <= codes[i] <= last, where some row near is left. As `codes_mask`; O(n)."""
    low, high = codes.dtype.type(first), codes.dtype.type(last)
    for start in range(0, codes.shape[0], _BLOCK):
        some, part = codes[start : start + _BLOCK], mask[start : start + _BLOCK]
        left = np.uint8(0)
        for i in range(part.shape[0]):
            left |= part[i]
        if left == 0:
            continue
        for i in range(some.shape[0]):
            part[i] &= (low <= some[i]) & (some[i] <= high)


@njit(cache=True, nogil=True)
def mask_offsets(words, first, out):
    """Write the rows of a mask, ascending, row 0 as `first`.

    words: uint64[w], w a multiple of 8: the mask, eight bytes of 0 or 1 a word. Read. out: int64[k], as long as there
    are ones; written. Returns how many. O(w + ones).
    """
    count = 0
    for w in range(0, words.shape[0], 8):
        bits = np.uint64(0)
        for j in range(8):
            bits |= ((words[w + j] * _GATHER) >> np.uint64(56)) << np.uint64(8 * j)
        while bits != 0:
            out[count] = first + 8 * w + np.int64(_popcount((bits & (~bits + _ONE)) - _ONE))
            count += 1
            bits &= bits - _ONE
    return count
