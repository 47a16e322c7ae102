"""Arguments for the kernels that gather rows of several chunks: columns of all kinds, named by address."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.rows import batch_body as plain
from psoup.kernels.rows.batch_body import BITS, DECIMAL, NARROW, NUMBER, TEXT, WIDE

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _texts(rng: Rng, count: int) -> tuple[Any, Any]:
    ends = np.cumsum([0, *rng.choice([0, 1, 2, 9], count).tolist()]).astype(np.int64)
    return ends, rng.integers(97, 123, int(ends[-1])).astype(np.uint8)


_KEPT: list[Any] = []
"""The arrays that kernels are given by address."""


def gathered(rng: Rng) -> tuple[Any, ...]:
    """columns, kinds, sources, stride, rows, stops: two chunks (or three, one of which has no row) of all kinds."""
    kinds = [WIDE, NARROW, BITS, DECIMAL, TEXT]
    sources, rows, stops, chunks = [], [], [], int(rng.integers(1, 4))
    for _ in range(chunks):
        size = int(rng.integers(1, 200))
        for kind in kinds:
            valid, (ends, data) = rng.integers(0, 2, size).astype(np.uint8), _texts(rng, size)
            values = {
                NARROW: rng.integers(-9, 9, size).astype(np.int32), BITS: rng.integers(0, 2, size).astype(np.uint8),
                TEXT: ends,
            }.get(kind, rng.integers(-99, 99, size))  # fmt: skip
            arrays = [values, valid if rng.random() < 0.5 else None, data if kind == TEXT else None]
            if kind == WIDE and rng.random() < 0.5:
                codes = rng.integers(0, 256, size).astype(rng.choice(["uint8", "uint16", "uint32"]))
                _KEPT.append(codes)
                arrays = [values, None, np.array([codes.__array_interface__["data"][0], codes.itemsize, -7])]
            _KEPT.extend(arrays)
            sources += [0 if a is None else a.__array_interface__["data"][0] for a in arrays]
        left = np.sort(rng.permutation(300)[:size]).astype(np.uint16)
        _KEPT.append(left)  # the places of a thinned chunk
        left_at = left.__array_interface__["data"][0] if rng.random() < 0.5 else 0
        sources += [values.__array_interface__["data"][0], 0, 0, int(rng.integers(-99, 99)), 0, left_at]
        own = np.flatnonzero(rng.random(size) < rng.choice([0.05, 0.5, 1.0]))
        rows.append(own if len(own) else np.array([size - 1]))
        stops.append(len(rows[-1]))
    kinds, columns = [*kinds, WIDE, NUMBER], [*range(5), -2, -1]
    order = rng.permutation(7)[: rng.integers(1, 8)]
    sources, stops = np.array(sources, np.int64), np.cumsum(stops)
    return (
        np.array(columns)[order], np.array(kinds)[order], sources, len(sources) // chunks,
        np.concatenate(rows).astype(np.int64), stops,
    )  # fmt: skip


def gather(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    columns, kinds, sources, stride, rows, stops = gathered(rng)
    where, nullable = (sources, stride, rows, stops), np.zeros(len(kinds), np.uint8)
    plain.has_nulls(columns, sources, stride, len(stops), nullable)
    texts = np.array([plain.text_bytes(c, *where) if k == TEXT else 0 for c, k in zip(columns, kinds, strict=True)])
    places, buffers = np.zeros((len(kinds), 3), np.int64), np.zeros((len(kinds) * 2 + (kinds == TEXT).sum(), 2), int)
    size = plain.lay_out(kinds, nullable, texts, len(rows), places, buffers)
    return kinds, columns, *where, places, np.zeros(size, np.uint8), np.zeros(len(kinds), np.int64)


def text_bytes(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    _, _, *where = gathered(rng)
    return 4, *where


def gather_bits(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name: values of the BOOLEAN column, or the validity of another."""
    _, _, *where = gathered(rng)
    column = int(rng.choice([2, 1, -1]))
    return column, 0 if column == 2 else 1, *where, np.full((len(where[2]) + 7) // 8, 255, np.uint8)


def lay_out(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    kinds = rng.integers(0, 6, int(rng.integers(1, 9)))
    texts, buffers = rng.integers(0, 99, len(kinds)), np.zeros((2 * len(kinds) + (kinds == TEXT).sum(), 2), np.int64)
    nullable = rng.integers(0, 2, len(kinds)).astype(np.uint8)
    return kinds, nullable, texts, int(rng.integers(1, 40)), np.zeros((len(kinds), 3), np.int64), buffers


def has_nulls(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    columns, _, sources, stride, _, stops = gathered(rng)
    return columns, sources, stride, len(stops), np.full(len(columns), 7, np.uint8)


def take_texts(rng: Rng) -> Arguments:
    """Texts, and those of some rows to be taken."""
    ends = np.cumsum([0, *rng.integers(0, 9, 20)]).astype(np.int64)
    rows = rng.integers(0, 20, int(rng.integers(0, 30)))
    offsets = np.cumsum([0, *np.diff(ends)[rows]]).astype(np.int64)
    return ends, rng.integers(0, 256, ends[-1], np.uint8), rows, offsets, np.zeros(offsets[-1], np.uint8)
