"""Twins of `psoup.kernels.join.set_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def pairs_of_sets(
    left_of: Array,
    right_of: Array,
    left_starts: Array,
    left_rows: Array,
    right_starts: Array,
    right_rows: Array,
    left_keys: Array,
    right_keys: Array,
    out: Array,
) -> int:
    """See the kernel."""
    at = 0
    for number, (left, right) in enumerate(zip(left_of.tolist(), right_of.tolist(), strict=True)):
        firsts = left_rows[left_starts[left] : left_starts[left + 1]]
        seconds = right_rows[right_starts[right] : right_starts[right + 1]]
        left_at, right_at = np.nonzero(left_keys[firsts][:, None] == right_keys[seconds][None, :])
        room = min(len(left_at), out.shape[1] - at)
        out[:, at : at + room] = np.full(room, number), firsts[left_at[:room]], seconds[right_at[:room]]
        if room < len(left_at):
            return -1
        at += room
    return at
