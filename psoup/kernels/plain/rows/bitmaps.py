"""Twins of `psoup.kernels.rows.bitmaps`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def _set_bits(words: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits)


def mask_to_bits(mask: Array, start_bit: int, words: Array) -> None:
    """See the kernel."""
    bits = np.zeros(64 * len(words), np.uint8)
    bits[start_bit : start_bit + len(mask)] = mask
    words |= np.packbits(bits, bitorder="little").view(np.uint64)


def count_bits(words: Array, start: int, stop: int) -> int:
    """See the kernel."""
    positions = _set_bits(words)
    return int(np.count_nonzero((positions >= start) & (positions < stop)))


def bits_to_offsets(words: Array, start: int, stop: int, out: Array) -> int:
    """See the kernel."""
    positions = _set_bits(words)
    positions = positions[(positions >= start) & (positions < stop)]
    out[: len(positions)] = positions
    return len(positions)


def offsets_to_bits(offsets: Array, words: Array) -> None:
    """See the kernel."""
    mask = np.zeros(64 * len(words), np.uint8)
    mask[offsets] = 1
    mask_to_bits(mask, 0, words)


def offset_range(offsets: Array, low: int, high: int, start: int, stop: int) -> tuple[int, int]:
    """See the kernel."""
    part = offsets[low:high].astype(np.int64)
    return low + int(np.searchsorted(part, start)), low + int(np.searchsorted(part, max(start, stop)))
