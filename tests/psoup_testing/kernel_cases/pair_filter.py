"""Arguments for the kernels that confirm pairs and show texts: these by address, some nearly equal; pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from psoup.kernels.plain.join.pair_filter import gather_texts as plain_texts
from psoup.kernels.plain.join.text_columns import text_bytes_at as plain_at
from psoup.kernels.plain.rows import batch_body as plain_gather
from psoup.kernels.rows.batch_body import TEXT, WIDE
from psoup_testing.kernel_cases import batch_body

Rng = np.random.Generator
Arguments = tuple[Any, ...]
_KEPT: list[Any] = []
"""The arrays that kernels are given by address."""


def gather_texts(rng: Rng) -> Arguments:
    """A column of texts in several chunks."""
    columns, kinds, sources, stride, rows, stops = batch_body.gathered(rng)
    column = int(columns[kinds == TEXT][0]) if (kinds == TEXT).any() else -1
    if column < 0:
        return gather_texts(rng)
    where, count = (sources, stride, rows.astype(np.int32), stops), len(rows)
    return column, *where, *(np.zeros(count, kind) for kind in (np.int64, np.int64, np.int32, np.int32))


def keep_texts(rng: Rng) -> Arguments:
    """Texts of which many are equal, or differ in the last byte."""
    texts = [b"", b"a", b"abcdefgh", b"abcdefghi", b"abcdefghj", b"bbcdefghi", bytes(16), bytes(17)]
    values = [texts[at] for at in rng.integers(0, len(texts), 30)]
    data = np.frombuffer(b"".join(values) + b" ", np.uint8)
    ends = np.cumsum([0, *map(len, values)])
    _KEPT.append((data, ends))
    sources = np.array(
        [values.__array_interface__["data"][0] if len(values) else 0 for values in (ends, data[:0], data)]
    )
    sources[1] = 0
    keys, places, sizes = np.zeros(30, np.int64), np.zeros(30, np.int64), np.zeros(30, np.int32)
    plain_texts(
        0, sources, 3, np.arange(30, dtype=np.int32), np.array([30]), keys, places, sizes, np.zeros(30, np.int32)
    )
    return places, sizes, places[::-1].copy(), sizes[::-1].copy(), *_pairs(rng, 30)


def keep_near(rng: Rng) -> Arguments:
    """Keys that are equal, near, and far apart; no bound, one, or two."""
    left, right = rng.integers(-9, 9, (2, 30))
    low, high = sorted(rng.integers(-5, 6, 2).tolist())
    return left, right, bool(rng.integers(2)), low, bool(rng.integers(2)), high, *_pairs(rng, 30)


def _pairs(rng: Rng, rows: int) -> tuple[Any, Any, int]:
    left, right = rng.integers(0, rows, (2, 80)).astype(np.int32)
    return left, right, int(rng.integers(0, 81))


def text_bytes_at(rng: Rng) -> Arguments:
    """A column of texts in several chunks, and positions in any order."""
    column, sources, stride, rows, stops, *_ = gather_texts(rng)
    positions = rng.integers(0, len(rows), int(rng.integers(1, 60))).astype(rng.choice(["int32", "int64"]))
    return column, sources, stride, rows, stops, positions


def gather_texts_at(rng: Rng) -> Arguments:
    """The same, and the batch that they go to, which has another column before them."""
    column, sources, stride, rows, stops, positions = text_bytes_at(rng)
    nullable, kinds = np.zeros(1, np.uint8), np.array([WIDE, TEXT])
    plain_gather.has_nulls(np.array([column]), sources, stride, len(stops), nullable)
    texts = np.array([0, plain_at(column, sources, stride, rows, stops, positions)])
    places, buffers = np.zeros((2, 3), np.int64), np.zeros((5, 2), np.int64)
    size = plain_gather.lay_out(kinds, np.append(0, nullable), texts, len(positions), places, buffers)
    where = (sources, stride, rows, stops, positions)
    return 1, column, *where, places, np.zeros(size, np.uint8), np.full(2, 7, np.int64)


CASES: dict[str, Callable[[Rng], Arguments]] = {
    "join.text_columns.text_bytes_at": text_bytes_at,
    "join.text_columns.gather_texts_at": gather_texts_at,
    "join.pair_filter.gather_texts": gather_texts,
    "join.pair_filter.keep_texts": keep_texts,
    "join.pair_filter.keep_near": keep_near,
}
