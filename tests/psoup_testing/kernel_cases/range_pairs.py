"""Arguments for the kernels that join rows: keys of few values or spread, ranges that are empty, rooms of one pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.join import hash_buckets as plain

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_SPREADING = np.uint64(0x9E37_79B9_7F4A_7C15)
_NO_KEYS = np.zeros(0, np.int64)


def _keys(rng: Rng, count: int) -> Any:
    keys = rng.integers(-3, 12, count)
    return keys if rng.random() < 0.5 else keys * 2**59


def _hashed(rng: Rng, keys: Any) -> tuple[Any, ...]:
    """base, factor, shift, and how many buckets there are."""
    if rng.random() < 0.5 and len(keys) and np.ptp(keys) < 100:
        return keys.min().astype(np.int64).view(np.uint64), np.uint64(1), np.uint64(0), int(np.ptp(keys)) + 1
    bits = int(rng.integers(1, 6))
    return np.uint64(0), _SPREADING, np.uint64(64 - bits), 1 << bits


def fill_buckets(rng: Rng) -> Arguments:
    """All rows, some or none; the keys beside them, or not."""
    keys = _keys(rng, 40)
    rows = np.sort(rng.permutation(40)[: int(rng.integers(0, 41))]).astype(np.int32)
    *bucket, buckets = _hashed(rng, keys)
    wanted = np.zeros(len(rows) if rng.random() < 0.5 else 0, np.int64)
    return keys, rows, *bucket, np.zeros(buckets + 2, np.int32), np.zeros_like(rows), wanted


def find_buckets(rng: Rng) -> Arguments:
    """Keys that are there, and others."""
    filled = fill_buckets(rng)
    plain.fill_buckets(*filled)
    keys = np.concatenate([filled[0], np.array([-(2**63), 2**63 - 1, -4, 12])])
    return keys, *filled[2:6], np.zeros(len(keys), np.int32), np.zeros(len(keys), np.int32)


def mark_keys(rng: Rng) -> Arguments:
    """Few marks or many."""
    bits = int(rng.integers(6, 9))
    rows = rng.permutation(40)[: int(rng.integers(0, 41))].astype(np.int32)
    return _keys(rng, 40), rows, _SPREADING, np.uint64(64 - bits), np.zeros(1 << (bits - 6), np.uint64)


def keep_marked(rng: Rng) -> Arguments:
    """Keys beside others that left marks."""
    *marked, marks = mark_keys(rng)
    plain.mark_keys(*marked, marks)
    rows = np.arange(30, dtype=np.int32)
    return _keys(rng, 30), rows, *marked[2:], marks, np.zeros_like(rows)


def narrow_ranges(rng: Rng) -> Arguments:
    """Ranges of an ascending array, some of them empty; keys of its ends, and in any order."""
    ordered = np.sort(_keys(rng, 60))
    keys = np.concatenate([_keys(rng, 30), np.array([-(2**63), 2**63 - 1])])
    keys = np.sort(keys) if rng.random() < 0.5 else keys
    begin, end = np.sort(rng.integers(0, 61, (2, len(keys))), axis=0).astype(np.int32)
    return ordered, keys, int(rng.integers(0, 4)), begin.copy(), end.copy()


def emit_pairs(rng: Rng) -> Arguments:
    """From the beginning, or from inside a row; with keys to be looked at, or without."""
    begin, end = np.sort(rng.integers(0, 21, (2, 12)), axis=0).astype(np.int32)
    begin[3], end[3] = 5, 3  # a range that other conditions left nothing of
    at = int(rng.integers(0, 13))
    inside = int(rng.integers(0, end[at] - begin[at])) if at < 12 and end[at] > begin[at] else 0
    room = int(rng.choice([1, 7, 400]))
    place_keys = rng.integers(0, 3, 21) if rng.random() < 0.5 else _NO_KEYS
    arrays = np.zeros(room, np.int64), np.zeros(room, np.int64)
    limit = int(rng.choice([1, 30, 10_000]))
    return (
        begin,
        end,
        rng.integers(0, 3, 12),
        place_keys,
        rng.permutation(21).astype(np.int32),
        at,
        inside,
        limit,
        *arrays,
    )


def _pairs(rng: Rng) -> tuple[Any, Any, int]:
    return np.sort(rng.integers(0, 9, 50)), rng.integers(0, 20, 50), int(rng.integers(0, 51))


def keep_pairs(rng: Rng) -> Arguments:
    """Some of the pairs."""
    return rng.integers(-4, 5, 9), rng.integers(-4, 5, 20), int(rng.integers(0, 5)), *_pairs(rng)


def _sets(rng: Rng) -> tuple[Any, Any]:
    """Five sets of rows, some of them empty."""
    sizes = rng.integers(0, 9, 5) * (rng.random(5) < 0.8)
    rows = [np.sort(rng.permutation(30)[:size]) for size in sizes]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return starts, np.concatenate([*rows, np.zeros(0, np.int64)]).astype(np.int32)


def pairs_of_sets(rng: Rng) -> Arguments:
    """Sets that come several times, one after the other or not; a room that is too small, or not."""
    left, right = rng.integers(0, 5, (2, int(rng.integers(0, 9))))
    room = int(rng.choice([1, 20, 800]))
    keys = _keys(rng, 30), _keys(rng, 30)
    return left, np.sort(right), *_sets(rng), *_sets(rng), *keys, np.zeros((3, room), np.int32)


def meet_kept(rng: Rng) -> Arguments:
    """Blocks of a chunk with five further chunks, some of them wanted; matching rows as ranges and as bits."""
    sizes = rng.integers(0, 12, 5)
    left, right = (rng.integers(0, 128, int(sizes.sum())).astype(np.uint16) for _ in range(2))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    blocks = np.flatnonzero(rng.random(5) < 0.7)
    spans = np.sort(rng.integers(0, 129, (9, 2)), axis=1)
    spans = np.concatenate([spans, rng.integers(-1, 3, (9, 1))], axis=1)
    bits = rng.integers(0, 2**63, (3, 2)).astype(np.uint64)
    left_bits = bits[0] if rng.random() < 0.5 else np.zeros(0, np.uint64)
    at, out = int(rng.integers(0, 3)), np.zeros((2, int(sizes.sum()) + 4), np.int64)
    span, numbers = np.sort(rng.integers(0, 129, 2)), np.sort(rng.permutation(9)[: len(blocks)])
    return left, right, starts, blocks, int(rng.integers(0, 9)), span, left_bits, numbers, spans, bits, *out, at


def marked_rows(rng: Rng) -> Arguments:
    """Rows of a chunk, all or some, of which some keys are marked."""
    start, stop = np.sort(rng.integers(0, 129, 2)).tolist()
    bits = rng.integers(0, 2**63, 2).astype(np.uint64) if rng.random() < 0.5 else np.zeros(0, np.uint64)
    shift, marks = np.uint64(56), rng.integers(0, 2**63, 4).astype(np.uint64)
    odd = np.uint64(0x9E37_79B9_7F4A_7C15)
    return _keys(rng, 128), start, stop, bits, odd, shift, marks, np.zeros(stop - start + 1, np.uint16)


def number_rows(rng: Rng) -> Arguments:
    """Codes that come several times, or none."""
    codes = rng.integers(0, int(rng.choice([3, 640])), int(rng.integers(0, 60)))
    return codes, np.zeros(10, np.uint64), np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int32)


def merge_missing(rng: Rng) -> Arguments:
    """Rows of a part of a side, all or some with pairs. The pairs may begin with a row before the part."""
    first, stop = np.sort(rng.integers(0, 20, 2)).tolist()
    rows = np.arange(first, stop, dtype=np.int32)
    left = np.sort(rng.integers(max(first - 1, 0), max(stop, first + 1), int(rng.integers(0, 30)))).astype(np.int32)
    right = rng.integers(0, 50, len(left)).astype(np.int32)
    out = np.zeros(len(rows) + len(left), np.int32)
    return rows, left, right, int(rng.choice([-1, 7])), out, out.copy()


KEPT = {
    "join.outer_pairs.merge_missing": merge_missing,
    "join.stored_pairs.meet_kept": meet_kept,
    "join.stored_pairs.marked_rows": marked_rows,
    "join.stored_pairs.number_rows": number_rows,
}
"""The cases of `psoup.kernels.join.stored_pairs` and `outer_pairs`."""
