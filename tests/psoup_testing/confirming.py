"""Arguments for the kernels that confirm pairs: texts by address, some equal in their first bytes; pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from psoup.kernels.gather import TEXT
from psoup.kernels.plain.confirmed import gather_texts as plain_texts
from psoup_testing import gathering

Rng = np.random.Generator
Arguments = tuple[Any, ...]
_KEPT: list[Any] = []
"""The arrays that kernels are given by address."""


def gather_texts(rng: Rng) -> Arguments:
    """A column of texts in several chunks."""
    columns, kinds, *where = gathering.gathered(rng)
    column = int(columns[kinds == TEXT][0]) if (kinds == TEXT).any() else -1
    if column < 0:
        return gather_texts(rng)
    count = len(where[2])
    return column, *where, *(np.zeros(count, kind) for kind in (np.int64, np.int64, np.int32, np.int32))


def keep_texts(rng: Rng) -> Arguments:
    """Texts of which many are equal, or differ in the last byte."""
    texts = [b"", b"a", b"abcdefgh", b"abcdefghi", b"abcdefghj", b"bbcdefghi", bytes(16), bytes(17)]
    own = [texts[at] for at in rng.integers(0, len(texts), 30)]
    data = np.frombuffer(b"".join(own) + b" ", np.uint8)
    ends = np.cumsum([0, *map(len, own)])
    _KEPT.append((data, ends))
    sources = np.array([own.__array_interface__["data"][0] if len(own) else 0 for own in (ends, data[:0], data)])
    sources[1] = 0
    keys, places, sizes = np.zeros(30, np.int64), np.zeros(30, np.int64), np.zeros(30, np.int32)
    plain_texts(0, sources, 3, np.arange(30), np.array([30]), keys, places, sizes, np.zeros(30, np.int32))
    return places, sizes, places[::-1].copy(), sizes[::-1].copy(), *_pairs(rng, 30)


def keep_near(rng: Rng) -> Arguments:
    """Keys that are equal, near, and far apart; no bound, one, or two."""
    left, right = rng.integers(-9, 9, (2, 30))
    low, high = sorted(rng.integers(-5, 6, 2).tolist())
    return left, right, bool(rng.integers(2)), low, bool(rng.integers(2)), high, *_pairs(rng, 30)


def _pairs(rng: Rng, rows: int) -> tuple[Any, Any, int]:
    left, right = rng.integers(0, rows, (2, 80)).astype(np.int32)
    return left, right, int(rng.integers(0, 81))


CASES: dict[str, Callable[[Rng], Arguments]] = {
    "confirmed.gather_texts": gather_texts,
    "confirmed.keep_texts": keep_texts,
    "confirmed.keep_near": keep_near,
}
