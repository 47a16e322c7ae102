"""Arguments for the kernels that look for patterns: few letters, so that patterns lie within one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.texts.automaton import grow_states as plain_grow

Rng = np.random.Generator
Arguments = tuple[Any, ...]
_LETTERS = ["a", "b", "\0", "é", "word"]


def _text(rng: Rng, low: int, high: int) -> bytes:
    drawn = rng.choice(len(_LETTERS), int(rng.integers(low, high)), p=[0.5, 0.2, 0.1, 0.1, 0.1])
    return "".join(_LETTERS[letter] for letter in drawn).encode()


def laid_out(texts: list[bytes]) -> tuple[Any, Any]:
    """Offsets and data."""
    return np.cumsum([0, *map(len, texts)]).astype(np.int64), np.frombuffer(b"".join(texts), np.uint8).copy()


def _patterns(rng: Rng) -> tuple[list[bytes], Any]:
    """In order, some of them equal, and which count at the end only."""
    drawn = [(_text(rng, 1, 7), int(rng.random() < 0.3)) for _ in range(int(rng.integers(1, 40)))]
    ordered = sorted(drawn)
    return [text for text, _ in ordered], np.array([end for _, end in ordered], np.uint8)


def _sorted(rng: Rng) -> list[bytes]:
    """Patterns in order, some of which end with the byte that is behind each text."""
    return sorted(text + b"\xff" * int(end) for text, end in zip(*_patterns(rng), strict=True))


def grow_states(rng: Rng) -> Arguments:
    """Patterns, and room for their automaton."""
    patterns = _sorted(rng)
    offsets, data = laid_out(patterns)
    child, fail, hit = (np.zeros(len(data) + 2, np.int32) for _ in range(3))
    label, parent, root = np.zeros(len(data) + 2, np.uint8), np.zeros(len(patterns), np.int32), np.zeros(256, np.int32)
    return offsets, data, child, label, fail, hit, parent, root


def search_texts(rng: Rng) -> Arguments:
    """Texts, an automaton, and sometimes room for few pairs."""
    patterns = grow_states(rng)
    states, size = plain_grow(*patterns), len(patterns[6])
    child, label, fail, hit = (patterns[2][: states + 1], *(table[:states] for table in patterns[3:6]))
    texts = laid_out([_text(rng, 0, 12) for _ in range(30)])
    room = size + int(rng.choice([0, 10, 2_000]))
    tables = (child, label, fail, hit, *patterns[6:], np.zeros(size, np.int32))
    return *texts, int(rng.integers(0, 3)), *tables, np.zeros(room, np.int32), np.zeros(room, np.int32)


def hit_clauses(rng: Rng) -> Arguments:
    """Hits of up to twelve patterns in some tuples, and clauses that one of their patterns drives."""
    hits = [(t, p) for t in range(20) for p in rng.permutation(12).tolist() if rng.random() < 0.4]
    pointers = np.cumsum([0, *rng.integers(1, 4, 15)]).astype(np.int32)
    numbers = rng.integers(0, 12, int(pointers[-1])).astype(np.int32)
    driver = numbers[pointers[:-1]]
    driven_ptr = np.cumsum([0, *np.bincount(driver, minlength=12)]).astype(np.int32)
    tuples, patterns_hit = np.array(hits, np.int32).reshape(-1, 2).T.copy()
    room, wanted = 20 * 15, rng.integers(0, 2, 15).astype(np.uint8)
    clauses = (driven_ptr, np.argsort(driver, kind="stable").astype(np.int32), pointers, numbers, wanted)
    return tuples, patterns_hit, *clauses, np.zeros(12, np.int32), np.zeros(room, np.int64), np.zeros(room, np.int64)


def keep_likes(rng: Rng) -> Arguments:
    """Pairs as of `keep_texts`, of short patterns with wildcards: no pair takes long."""
    wholes = [b"".join([_text(rng, 0, 2), b"\xff", _text(rng, 0, 3), b"\xfe", _text(rng, 0, 2)]) for _ in range(6)]
    wholes += [b"", b"\xff" + _text(rng, 1, 3) + b"\xff", _text(rng, 1, 3) + b"\xfe\xfe", b"\xfe\xffb"]
    clauses, tuples, offsets, data, pointers, numbers, _, _, _, keep = keep_texts(rng)
    return clauses, tuples, offsets, data, pointers, numbers % len(wholes), *laid_out(wholes), keep


def keep_texts(rng: Rng) -> Arguments:
    """Pairs of clauses of up to three patterns, and texts."""
    patterns, ends = _patterns(rng)
    texts = laid_out([_text(rng, 0, 12) for _ in range(20)])
    pointers = np.cumsum([0, *rng.integers(0, 4, 12)]).astype(np.int32)
    numbers = rng.integers(0, len(patterns), int(pointers[-1])).astype(np.int32)
    pairs = rng.integers(0, 12, 60), rng.integers(0, 20, 60)
    return *pairs, *texts, pointers, numbers, *laid_out(patterns), ends, rng.integers(0, 2, 60).astype(np.uint8)
