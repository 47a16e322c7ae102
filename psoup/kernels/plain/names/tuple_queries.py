"""Twins of `psoup.kernels.names.tuple_queries`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.compile.lanes import LINE
from psoup.kernels.names.tuple_queries import TOGETHER, UNEVEN
from psoup.kernels.plain import Array

WORD = 64
"""Bits of a word."""


def count_offsets(offsets: Array, ends: Array, counts: Array) -> int:
    """See the kernel."""
    counts += np.bincount(offsets, minlength=len(counts))
    stretches = np.flatnonzero(np.append(np.diff(offsets.astype(np.int64)) != 0, len(offsets) > 0)) + 1
    ends[: len(stretches)] = stretches
    return len(stretches)


def place_by_offset(
    slots: Array,
    offsets: Array,
    ends: Array,
    names: Array,
    bases: Array,
    first: int,
    places: Array,
    out: Array,
    several: Array,
) -> int:
    """See the kernel."""
    order = np.argsort(offsets, kind="stable")
    sizes = np.bincount(offsets, minlength=len(places))
    firsts = np.cumsum(sizes) - sizes
    targets = np.empty(len(order), np.int64)
    targets[order] = places[offsets[order]] + np.arange(len(order)) - firsts[offsets[order]]
    part, base = names[slots].astype(np.int64), bases[slots >> TOGETHER]
    out[targets] = np.where(base != UNEVEN, base + slots, np.where(part >= 0, part + first, part))
    places += sizes
    below = targets[out[targets] < 0]
    several[: len(below)] = below
    return len(below)


def count_bits(rows: Array, count: int, counts: Array) -> None:
    """See the kernel."""
    _, tuples = _set_bits(rows[:, :count])
    counts += np.bincount(tuples, minlength=len(counts))


def place_bits(rows: Array, queries: Array, places: Array, out: Array, several: Array) -> int:
    """See the kernel."""
    matches = 0
    for row, tuple_ in zip(*_set_bits(rows[:, : len(queries)]), strict=True):
        out[places[tuple_]] = queries[row]
        if queries[row] < 0:
            several[matches] = places[tuple_]
            matches += 1
        places[tuple_] += 1
    return matches


def _set_bits(rows: Array) -> tuple[Array, Array]:
    """The row and the tuple of each bit: lines of 512 tuples one after the other, in each row after row."""
    words = np.ascontiguousarray(rows.transpose(1, 0, 2)).reshape(rows.shape[1], rows.shape[0] * rows.shape[2])
    width = rows.shape[2] * WORD
    row, tuples = np.nonzero(np.unpackbits(words.view(np.uint8), axis=1, bitorder="little"))
    block, inside = np.divmod(tuples, width)
    order = np.lexsort((inside, row, inside // (LINE * WORD), block))
    return row[order], tuples[order]


def write_out(queries: Array, several: Array, ptr: Array, members: Array, out: Array) -> None:
    """See the kernel."""
    wanted = set(several.tolist())
    parts = [
        members[ptr[-1 - query] : ptr[-query]] if place in wanted else [query]
        for place, query in enumerate(queries.tolist())
    ]
    out[:] = np.concatenate([np.zeros(0, np.int64), *parts])
