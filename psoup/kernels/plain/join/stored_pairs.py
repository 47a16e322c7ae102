"""Twins of `psoup.kernels.join.stored_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def _have(rows: Array, start: int, stop: int, bits: Array | None) -> Array:
    """bool[n]: which of some rows are in a range, and among the bits."""
    inside: Array = (rows >= start) & (rows < stop)
    if bits is None:
        return inside
    flags = np.unpackbits(bits.view(np.uint8), bitorder="little").astype(np.bool_)
    return inside & flags[rows]


def meet_kept(
    left: Array,
    right: Array,
    starts: Array,
    blocks: Array,
    number: int,
    span: Array,
    left_bits: Array,
    numbers: Array,
    spans: Array,
    right_bits: Array,
    lefts: Array,
    rights: Array,
    at: int,
) -> int:
    """See the kernel."""
    for block, match_of_row in zip(blocks.tolist(), numbers.tolist(), strict=True):
        a, b = left[starts[block] : starts[block + 1]], right[starts[block] : starts[block + 1]]
        first, stop, bits = spans[match_of_row].tolist()
        both = _have(a, int(span[0]), int(span[1]), left_bits if len(left_bits) else None)
        both &= _have(b, first, stop, right_bits[bits] if bits >= 0 else None)
        count = int(both.sum())
        lefts[at : at + count] = (number << 16) + a[both].astype(np.int64)
        rights[at : at + count] = (match_of_row << 16) + b[both].astype(np.int64)
        at += count
    return at


def marked_rows(
    keys: Array, start: int, stop: int, bits: Array, factor: int, shift: int, marks: Array, rows: Array
) -> int:
    """See the kernel."""
    here = np.arange(start, stop)
    hashes = (keys[start:stop].view(np.uint64) * np.uint64(factor)) >> np.uint64(shift)
    marked = np.unpackbits(marks.view(np.uint8), bitorder="little").astype(np.bool_)[hashes.astype(np.int64)]
    remaining = here[marked & _have(here, start, stop, bits if len(bits) else None)]
    rows[: len(remaining)] = remaining
    return len(remaining)


def number_rows(codes: Array, marks: Array, rows: Array, positions: Array) -> int:
    """See the kernel."""
    distinct, back = np.unique(codes, return_inverse=True)
    np.bitwise_or.at(marks, codes >> 6, np.uint64(1) << (codes & 63).astype(np.uint64))
    rows[: len(distinct)] = distinct
    positions[:] = back
    return len(distinct)
