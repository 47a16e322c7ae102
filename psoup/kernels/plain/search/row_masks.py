"""Twins of `psoup.kernels.search.row_masks`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def range_mask(keys: Array, low: int, last: int, mask: Array) -> None:
    """See the kernel."""
    mask[:] = (keys >= low) & (keys <= last)


def allowed_mask(codes: Array, allowed: Array, mask: Array) -> None:
    """See the kernel."""
    mask[:] = allowed[codes]


def narrow_codes(keys: Array, valid: Array, minimum: int, shift: int, out: Array) -> None:
    """See the kernel."""
    distance = keys.astype(np.uint64) - np.array([minimum], np.int64).astype(np.uint64)
    out[:] = ((distance >> np.uint64(shift)) + np.uint64(len(valid) > 0)).astype(out.dtype)
    if len(valid):
        out[valid == 0] = 0


def codes_mask(codes: Array, first: int, last: int, mask: Array) -> None:
    """See the kernel."""
    mask[:] = (codes >= first) & (codes <= last)


def codes_mask_and(codes: Array, first: int, last: int, mask: Array) -> None:
    """See the kernel."""
    mask &= (codes >= first) & (codes <= last)


def mask_offsets(words: Array, first: int, out: Array) -> int:
    """See the kernel."""
    rows = np.flatnonzero(words.view(np.uint8))
    out[: len(rows)] = first + rows
    return len(rows)
