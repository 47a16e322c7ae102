"""Twins of `psoup.kernels.join.pair_filter`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.plain.rows.batch_body import _at
from psoup.kernels.rows.batch_body import PARTS

_SPREADING, _ALL = 0x9E37_79B9_7F4A_7C15, 2**64 - 1


def _hash(data: bytes) -> int:
    state = len(data) * _SPREADING & _ALL
    for at in range(0, len(data), 8):
        state = (state ^ int.from_bytes(data[at : at + 8], "little")) * _SPREADING & _ALL
        state ^= state >> 32
    return int(np.uint64(state * _SPREADING & _ALL).view(np.int64))


def gather_texts(
    column: int,
    sources: Array,
    stride: int,
    rows: Array,
    stops: Array,
    keys: Array,
    places: Array,
    sizes: Array,
    text_rows: Array,
) -> int:
    """See the kernel."""
    count = 0
    for part, (start, stop) in enumerate(zip([0, *stops[:-1].tolist()], stops.tolist(), strict=True)):
        values, valid, text = sources[part * stride + PARTS * column :][:PARTS].tolist()
        for i in range(start, stop):
            row = int(rows[i])
            low, end = _at(values, row + 2, np.int64)[row:].tolist()
            keys[i] = _hash(_at(text, end, np.uint8)[low:].tobytes() if end else b"")
            places[i], sizes[i] = text + low, end - low
            if not valid or _at(valid, row + 1, np.uint8)[row]:
                text_rows[count] = i
                count += 1
    return count


def keep_texts(
    left_places: Array,
    left_sizes: Array,
    right_places: Array,
    right_sizes: Array,
    left: Array,
    right: Array,
    pairs: int,
) -> int:
    """See the kernel."""

    def text(places: Array, sizes: Array, row: int) -> bytes:
        size = int(sizes[row])
        return _at(int(places[row]), size, np.uint8).tobytes() if size else b""

    same = [
        text(left_places, left_sizes, a) == text(right_places, right_sizes, b)
        for a, b in zip(left[:pairs].tolist(), right[:pairs].tolist(), strict=True)
    ]
    return _kept(left, right, same)


def keep_near(
    left_keys: Array,
    right_keys: Array,
    lower: bool,
    low: int,
    upper: bool,
    high: int,
    left: Array,
    right: Array,
    pairs: int,
) -> int:
    """See the kernel."""
    both = zip(left_keys[left[:pairs]].tolist(), right_keys[right[:pairs]].tolist(), strict=True)
    near = [(not lower or a + low <= b) and (not upper or b <= a + high) for a, b in both]
    return _kept(left, right, near)


def _kept(left: Array, right: Array, which: Sequence[bool]) -> int:
    places = np.flatnonzero(which)
    left[: len(places)], right[: len(places)] = left[places], right[places]
    return len(places)
