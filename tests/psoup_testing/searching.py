"""Arguments for the kernels that look for patterns: few letters, so that patterns lie within one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.codes import prefix_keys
from psoup.kernels.plain.patterns import filter_patterns as plain_filter
from psoup.kernels.plain.patterns import link_patterns as plain_link

Rng = np.random.Generator
Arguments = tuple[Any, ...]
_LETTERS = ["a", "b", "\0", "é", "word"]


def _text(rng: Rng, least: int, most: int) -> bytes:
    drawn = rng.choice(len(_LETTERS), int(rng.integers(least, most)), p=[0.5, 0.2, 0.1, 0.1, 0.1])
    return "".join(_LETTERS[letter] for letter in drawn).encode()


def laid_out(texts: list[bytes]) -> tuple[Any, Any]:
    """Offsets and data."""
    return np.cumsum([0, *map(len, texts)]).astype(np.int64), np.frombuffer(b"".join(texts), np.uint8).copy()


def _patterns(rng: Rng) -> tuple[list[bytes], Any]:
    """In order, some of them equal, and which count at the end only."""
    drawn = [(_text(rng, 1, 7), int(rng.random() < 0.3)) for _ in range(int(rng.integers(1, 40)))]
    ordered = sorted(drawn)
    return [text for text, _ in ordered], np.array([end for _, end in ordered], np.uint8)


def link_patterns(rng: Rng) -> Arguments:
    """Patterns, and room for links."""
    texts, _ = _patterns(rng)
    return *laid_out(texts), np.zeros(len(texts), np.int32), np.zeros(len(texts), np.int32)


def filter_patterns(rng: Rng) -> Arguments:
    """Patterns, and empty tables."""
    offsets, data = laid_out(_patterns(rng)[0])
    keys = np.zeros(len(offsets) - 1, np.uint64)
    prefix_keys(offsets, data, keys)
    return offsets, data, keys, np.zeros(65_537, np.int32), np.zeros(65_536, np.uint8), np.zeros(1 << 17, np.uint8)


def search_texts(rng: Rng) -> Arguments:
    """Texts, patterns with their tables, and sometimes room for few pairs."""
    patterns, ends = _patterns(rng)
    offsets, data = laid_out(patterns)
    size = len(patterns)
    links = np.zeros(size, np.int32), np.zeros(size, np.int32)
    plain_link(offsets, data, *links)
    keys, starts = np.zeros(size, np.uint64), np.zeros(65_537, np.int32)
    prefix_keys(offsets, data, keys)
    flags, bits = np.zeros(65_536, np.uint8), np.zeros(1 << 17, np.uint8)
    plain_filter(offsets, data, keys, starts, flags, bits)
    texts = laid_out([_text(rng, 0, 12) for _ in range(30)])
    room = size + int(rng.choice([0, 10, 2_000]))
    tables = (offsets, data, keys, ends, *links, starts, flags, bits, np.zeros(size, np.int32))
    return *texts, int(rng.integers(0, 3)), *tables, np.zeros(room, np.int32), np.zeros(room, np.int32)


def keep_texts(rng: Rng) -> Arguments:
    """Pairs of clauses of up to three patterns, and texts."""
    patterns, ends = _patterns(rng)
    texts = laid_out([_text(rng, 0, 12) for _ in range(20)])
    pointers = np.cumsum([0, *rng.integers(0, 4, 12)]).astype(np.int32)
    own = rng.integers(0, len(patterns), int(pointers[-1])).astype(np.int32)
    pairs = rng.integers(0, 12, 60), rng.integers(0, 20, 60)
    return *pairs, *texts, pointers, own, *laid_out(patterns), ends, rng.integers(0, 2, 60).astype(np.uint8)
