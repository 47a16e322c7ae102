"""Twins of `psoup.kernels.rows.bit_blocks`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def _side_by_side(rows: Array) -> Array:
    """uint64[R, B * W]: the words of each row in their order."""
    return np.moveaxis(rows, 0, 1).reshape(rows.shape[1], -1)


def set_bits(rows: Array, which: Array, offsets: Array) -> None:
    """See the kernel."""
    words, bits = offsets.astype(np.int64) >> 6, np.uint64(1) << (offsets & 63).astype(np.uint64)
    np.bitwise_or.at(rows, (words // rows.shape[2], which, words % rows.shape[2]), bits)


def count_rows(rows: Array, counts: Array) -> None:
    """See the kernel."""
    counts[:] = np.bitwise_count(_side_by_side(rows)[: len(counts)]).sum(axis=1, dtype=np.int64)


def gather_rows(rows: Array, which: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = _side_by_side(rows)[which]


def rows_to_offsets(rows: Array, which: Array, starts: Array, out: Array) -> None:
    """See the kernel."""
    for words, start in zip(_side_by_side(rows)[which], starts, strict=True):
        positions = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        out[start : start + len(positions)] = positions
