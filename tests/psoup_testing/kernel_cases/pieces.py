"""Random arguments for the kernels of `texts`."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.texts import pieces as plain

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _written(rng: Rng, letters: str) -> tuple[Any, Any]:
    """20 texts of some letters, the first of which does not begin at 0: where they begin and end, and their bytes."""
    texts = ["".join(rng.choice(list(letters), int(rng.integers(0, 9)))).encode() for _ in range(21)]
    ends = np.cumsum([len(text) for text in texts]).astype(np.int64)
    return ends, _bytes(b"".join(texts))


def reverse_texts(rng: Rng) -> Arguments:
    """Texts of one byte a letter, or of many."""
    ends, data = _written(rng, "ab" if rng.random() < 0.3 else "aé€😀")
    return ends, data, np.zeros(ends[-1] - ends[0], np.uint8)


def find_pieces(rng: Rng) -> Arguments:
    """Texts, and parts of which some are empty."""
    parts = [part.encode() for part in rng.choice(["", "a", "aa", "ab", "é", "aéa"], 20).tolist()]
    between = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    places = np.zeros((2, 20), np.int64)
    joined = _bytes(b"".join(parts))
    return *_written(rng, "aabé"), between, joined, rng.integers(-5, 6, 20), places[0], places[1]


def first_letters(rng: Rng) -> Arguments:
    """Texts of which some are empty."""
    return *_written(rng, "aé€😀"), -1, np.zeros(20, np.int64)


def splice_texts(rng: Rng) -> Arguments:
    """Texts of which a piece is replaced by two others with constants around them, some of them empty."""
    ends, data = _written(rng, "abé")
    lengths = np.diff(ends)
    places = np.sort(rng.integers(0, lengths + 1, (2, 3, 20)), axis=0)
    begins, stops = places[0], places[1]
    begins[0] = np.where(rng.random(20) < 0.3, -1, begins[0])
    constants = rng.choice(["", "x", "--"], 3).tolist()
    between = np.cumsum([0, *map(len, constants)]).astype(np.int64)
    grown = between[-1] + (stops - begins)[1:].sum(axis=0) - (stops - begins)[0]
    sizes = np.where(rng.random(20) < 0.1, 0, lengths + np.where(begins[0] < 0, 0, grown))
    parts = np.frombuffer("".join(constants).encode(), np.uint8)
    return ends, data, begins, stops, between, parts, *_room(sizes)


def padded_sizes(rng: Rng) -> Arguments:
    """Texts to be cut or filled up, with texts of which some are empty."""
    parts = [part.encode() for part in rng.choice(["", "-", "é", "a€b"], 20).tolist()]
    between = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    joined, sizes = _bytes(b"".join(parts)), np.zeros((2, 20), np.int64)
    return *_written(rng, "ab" if rng.random() < 0.3 else "aé€"), between, joined, rng.integers(0, 20, 20), *sizes


def pad_texts(rng: Rng) -> Arguments:
    """The same, measured."""
    ends, data, between, joined, wanted, chosen, sizes = padded_sizes(rng)
    plain.padded_sizes(ends, data, between, joined, wanted, chosen, sizes)
    return ends, data, between, joined, chosen, bool(rng.integers(0, 2)), *_room(np.maximum(sizes, 0))


def _bytes(texts: bytes) -> Any:
    """Bytes that could be written, as those of a column in memory: kernels are compiled for these anyway."""
    return np.frombuffer(bytearray(texts), np.uint8)


def _room(sizes: Any) -> tuple[Any, Any]:
    """The bounds of texts of given sizes, and room for them."""
    ends = np.cumsum([0, *sizes]).astype(np.int64)
    return ends, np.zeros(ends[-1], np.uint8)
