"""Random arguments for the kernels of `texts`."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _written(rng: Rng, letters: str) -> tuple[Any, Any]:
    """20 texts of some letters, the first of which does not begin at 0: where they begin and end, and their bytes."""
    texts = ["".join(rng.choice(list(letters), int(rng.integers(0, 9)))).encode() for _ in range(21)]
    ends = np.cumsum([len(text) for text in texts]).astype(np.int64)
    return ends, np.frombuffer(b"".join(texts), np.uint8)


def reverse_texts(rng: Rng) -> Arguments:
    """Texts of one byte a letter, or of many."""
    ends, data = _written(rng, "ab" if rng.random() < 0.3 else "aé€😀")
    return ends, data, np.zeros(ends[-1] - ends[0], np.uint8)


def find_pieces(rng: Rng) -> Arguments:
    """Texts, and parts of which some are empty."""
    parts = [part.encode() for part in rng.choice(["", "a", "aa", "ab", "é", "aéa"], 20).tolist()]
    between = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    places = np.zeros((2, 20), np.int64)
    joined = np.frombuffer(b"".join(parts), np.uint8)
    return *_written(rng, "aabé"), between, joined, rng.integers(-5, 6, 20), places[0], places[1]


def first_letters(rng: Rng) -> Arguments:
    """Texts of which some are empty."""
    return *_written(rng, "aé€😀"), -1, np.zeros(20, np.int64)
