"""Twins of `psoup.kernels.join.code_columns`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.pair_columns import gather_at
from psoup.kernels.plain.rows.batch_body import _parts, _values
from psoup.kernels.rows.batch_body import PARTS, WIDE

Shown = Sequence[tuple[Array, Array, Array]]


def may_be_null(shown: Shown, sources: Sequence[Array], strides: Sequence[int], nullable: Array) -> None:
    """See the kernel."""
    for (which, _, columns), part, stride in zip(shown, sources, strides, strict=True):
        nullable[which] = (part.reshape(-1, stride // PARTS, PARTS)[:, columns, 1] != 0).any(axis=0)


def gather_coded(
    shown: Shown,
    sources: Sequence[Array],
    strides: Sequence[int],
    left: Array,
    right: Array,
    places: Array,
    out: Array,
    nulls: Array,
) -> None:
    """See the kernel."""
    for item, table, stride, codes in zip(shown, sources, strides, (left, right), strict=True):
        rows, back = np.unique(codes, return_inverse=True)
        parts = np.arange(len(table) // stride)
        stops = np.searchsorted(rows >> CODE_SHIFT, parts, "right")
        offsets = (rows & ((1 << CODE_SHIFT) - 1)).astype(np.int32)
        gather_at(*item, table, stride, offsets, stops, back, places, out, nulls)
        for which, kind, column in zip(*item, strict=True):
            if kind == WIDE:  # from values in few bits, where a chunk has such
                values = [_values(kind, three, part) for three, part in _parts(column, table, stride, offsets, stops)]
                at = places[which, 1]
                out[at : at + 8 * len(back)] = np.concatenate(values)[back].view(np.uint8)
