"""Twins of `psoup.kernels.join.hash_buckets`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def _hashes(keys: Array, base: np.uint64, factor: np.uint64, shift: np.uint64) -> Array:
    hashes: Array = ((keys.view(np.uint64) - base) * factor) >> shift
    return hashes


def fill_buckets(
    keys: Array,
    rows: Array,
    base: np.uint64,
    factor: np.uint64,
    shift: np.uint64,
    starts: Array,
    bucket_rows: Array,
    bucket_keys: Array,
) -> None:
    """See the kernel."""
    buckets = _hashes(keys[rows], base, factor, shift).astype(np.int64)
    starts[0] = 0
    starts[1:] = np.cumsum(np.bincount(buckets, minlength=len(starts) - 1))
    bucket_rows[:] = rows[np.argsort(buckets, kind="stable")]
    if len(bucket_keys):
        bucket_keys[:] = keys[bucket_rows]


def find_buckets(
    keys: Array, base: np.uint64, factor: np.uint64, shift: np.uint64, starts: Array, begin: Array, end: Array
) -> int:
    """See the kernel."""
    buckets = _hashes(keys, base, factor, shift)
    present = buckets < np.uint64(len(starts) - 2)
    at = np.where(present, buckets, np.uint64(0)).astype(np.int64)
    begin[:] = np.where(present, starts[at], 0)
    end[:] = np.where(present, starts[at + 1], 0)
    return int((end.astype(np.int64) - begin).sum())


def mark_keys(keys: Array, rows: Array, factor: np.uint64, shift: np.uint64, marks: Array) -> None:
    """See the kernel."""
    bits = _hashes(keys[rows], np.uint64(0), factor, shift)
    np.bitwise_or.at(marks, (bits >> np.uint64(6)).astype(np.int64), np.uint64(1) << (bits & np.uint64(63)))


def keep_marked(keys: Array, rows: Array, factor: np.uint64, shift: np.uint64, marks: Array, out: Array) -> int:
    """See the kernel."""
    bits = _hashes(keys[rows], np.uint64(0), factor, shift)
    words = marks[(bits >> np.uint64(6)).astype(np.int64)]
    remaining = rows[(words >> (bits & np.uint64(63))) & np.uint64(1) == 1]
    out[: len(remaining)] = remaining
    return len(remaining)
