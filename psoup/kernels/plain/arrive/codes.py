"""Twins of `psoup.kernels.arrive.codes`."""

from __future__ import annotations

import itertools

import numpy as np

from psoup.kernels.arrive.arrays import IndexArrays
from psoup.kernels.plain import Array


def encode_int64(keys: Array, bounds: Array, table: Array, shift: int, base: int, out: Array) -> None:
    """See the kernel."""
    out[:] = base + np.searchsorted(bounds, keys, "right")


def _texts(offsets: Array, data: Array) -> list[bytes]:
    return [data[a:b].tobytes() for a, b in itertools.pairwise(offsets)]


def prefix_keys(offsets: Array, data: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = [int.from_bytes(text[:8].ljust(8, b"\0"), "big") for text in _texts(offsets, data)]


def encode_text(
    offsets: Array,
    data: Array,
    keys: Array,
    bound_offsets: Array,
    bound_data: Array,
    bound_keys: Array,
    base: int,
    out: Array,
) -> None:
    """See the kernel."""
    bounds = _texts(bound_offsets, bound_data)
    out[:] = [base + sum(bound <= text for bound in bounds) for text in _texts(offsets, data)]


def mark_rows(flags: Array, wanted: int, row: int, out: Array) -> None:
    """See the kernel."""
    out[flags == wanted] = row


def count_codes(codes: Array, base: Array, counts: Array, ranks: Array, starts: Array) -> None:
    """See the kernel."""
    starts[0] = 0
    for a, attribute_codes in enumerate(codes):
        rows = np.arange(base[a], base[a + 1])
        counts[rows] = np.searchsorted(np.sort(attribute_codes), rows, "left")
        ranks[rows] = starts[a] + np.searchsorted(np.unique(attribute_codes), rows, "left")
        starts[a + 1] = starts[a] + len(np.unique(attribute_codes)) + 1


def sort_tuples(codes: Array, base: Array, counts: Array, use: Array, cursor: Array, order: Array) -> None:
    """See the kernel."""
    for a in np.flatnonzero(use):
        order[a] = np.argsort(codes[a], kind="stable")


def count_some(
    keys: Array, clauses: Array, index: IndexArrays, counts: Array, ranks: Array, starts: Array, order: Array
) -> None:  # fmt: skip
    """See the kernel."""
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = index
    rows = (keys >> np.uint64(32)).astype(np.int64)
    order[:] = keys & np.uint64(0xFFFF_FFFF)
    starts[0] = 0
    for a, attribute_rows in enumerate(rows):
        spans = [slice(factor_ptr[clause_ptr[c]], factor_ptr[clause_ptr[c + 1]]) for c in clauses]
        edges = [edge for s in spans for bound in (iv_lo, iv_hi) for edge in bound[s][iv_attr[s] == a]]
        used = np.unique(np.concatenate([attribute_rows, np.array(edges, np.int64)]))
        counts[used] = np.searchsorted(attribute_rows, used, "left")
        ranks[used] = starts[a] + np.searchsorted(np.unique(attribute_rows), used, "left")
        starts[a + 1] = starts[a] + len(np.unique(attribute_rows)) + 1
