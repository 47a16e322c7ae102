"""Arguments for the kernels of narrow codes and of key indexes: buckets of one key and of many, chunks by address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from psoup.data.chunk import ChunkView
from psoup.data.key_index import KeyIndex, key_index
from psoup.data.places import Places
from psoup.kernels.plain.search.key_index import find_keys as plain_find
from psoup.model import BIGINT
from psoup.values.columns import Column

Rng = np.random.Generator
Arguments = tuple[Any, ...]
_KEPT: list[Any] = []
"""The arrays that kernels are given by address."""


def chunk_of(keys: Any) -> ChunkView:
    """A closed chunk of one column with its key index."""
    column = Column(BIGINT, keys)
    chunk = ChunkView(0, Places(0, len(keys)), np.arange(len(keys)), (column,), 0)
    index = key_index(column)
    assert index is not None
    chunk.caches.keyed[0] = index
    return chunk


def _keys(rng: Rng) -> Any:
    """Keys that lie close together, far apart, close together at places far apart, or that one place has many of."""
    size = int(rng.integers(1, 200))
    if rng.random() < 0.3:
        return (rng.integers(0, 3, size) << 40) + rng.integers(0, 2 * size, size)
    spread = int(rng.choice([5, 300, 10**6, 2**62]))
    keys = rng.integers(-spread, spread, size) + int(rng.choice([0, -(2**62)]))
    if rng.random() < 0.3:
        keys[: size // 2] = keys[0] + rng.integers(0, 90, size // 2)
    return keys


def order_rows(rng: Rng) -> Arguments:
    """Keys, some of them NULL, and the form that an index would have, or a coarser one."""
    keys = _keys(rng)
    valid = rng.integers(0, 2, len(keys)).astype(np.uint8) if rng.random() < 0.5 else np.zeros(0, np.uint8)
    valid[:1] = 1
    present = keys[valid == 1] if len(valid) else keys
    least, span = int(present.min()), int(present.max()) - int(present.min())
    coded = min(span.bit_length(), int(rng.integers(1, 23)))
    low, shift = min(max(coded - int(rng.integers(1, 8)), 0), 16), span.bit_length() - coded
    buckets, words = (span >> (shift + low)) + 1, np.zeros(len(present), np.uint16)
    return (
        keys,
        valid,
        least,
        shift,
        low,
        np.zeros(buckets, np.uint16),
        words,
        words.copy() if low else words[:0].copy(),
    )


def number_texts(rng: Rng) -> Arguments:
    """Texts, of which some are empty."""
    ends = np.cumsum([0, *rng.integers(0, 9, 20)]).astype(np.int64)
    return ends, rng.integers(0, 256, ends[-1], np.uint8), np.zeros(20, np.int64)


def _index(rng: Rng) -> KeyIndex:
    while (index := key_index(Column(BIGINT, _keys(rng)))) is None:
        pass
    return index


def find_keys(rng: Rng) -> Arguments:
    """Intervals that are apart, in some chunks, around keys that they have; many of them may share a code."""
    indexes = [_index(rng) for _ in range(int(rng.integers(1, 4)))]
    _KEPT.extend(indexes)
    near = np.concatenate([index.facts[3:5] for index in indexes])
    if rng.random() < 0.5:
        near = np.concatenate([near, near[0] + np.arange(0, 80, 2)])
    edges = np.unique(np.concatenate([near, near + rng.integers(-9, 9, len(near)), rng.integers(-99, 99, 4)]))
    lows, lasts = edges[: len(edges) // 2 * 2].reshape(-1, 2).T.copy()
    shape = len(indexes), len(lows)
    places = np.array([index.place for index in indexes])
    return places, lows, lasts, np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape[0], np.int64)


def take_found(rng: Rng) -> Arguments:
    """Found rows in some of the chunks."""
    arguments = find_keys(rng)
    plain_find(*arguments)
    indexes, _, _, begin, end, counts = arguments
    which = np.flatnonzero(rng.random(len(counts)) < 0.7)
    return indexes, which, begin, end, np.zeros(int(counts[which].sum()), np.int64)


def _narrow_codes(rng: Rng) -> Arguments:
    """Keys at both ends of int64, NULLs with any key, codes of both widths."""
    low, shift = int(rng.choice([-(2**63), -5, 2**62])), int(rng.choice([0, 3, 40]))
    keys = low + (rng.integers(0, 200, 30) << shift)
    valid = rng.integers(0, 2, 30).astype(np.uint8) if rng.random() < 0.5 else np.zeros(0, np.uint8)
    keys[np.flatnonzero(valid == 0)] = 77
    return keys, valid, low, shift, np.zeros(30, rng.choice([np.uint8, np.uint16]))


def _codes_span(rng: Rng) -> Arguments:
    codes = rng.integers(0, 250, 300).astype(rng.choice([np.uint8, np.uint16]))
    return codes, *sorted(rng.integers(0, 256, 2).tolist())


CASES: dict[str, Callable[[Rng], Arguments]] = {
    "search.key_index.order_rows": order_rows,
    "search.key_index.number_texts": number_texts,
    "search.key_index.find_keys": find_keys,
    "search.key_index.take_found": take_found,
    "search.row_masks.narrow_codes": _narrow_codes,
    "search.row_masks.codes_mask": lambda rng: (*_codes_span(rng), np.zeros(300, np.uint8)),
    "search.row_masks.codes_mask_and": lambda rng: (
        *_codes_span(rng),
        (rng.random(300) < rng.choice([0.001, 0.5])).view(np.uint8),
    ),
    "search.row_masks.mask_offsets": lambda rng: (
        (rng.random(320) < rng.choice([0.01, 0.5, 1.0])).view(np.uint64),
        int(rng.integers(0, 9)),
        np.zeros(320, np.int64),
    ),
}
