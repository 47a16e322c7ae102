"""Twins of `psoup.kernels.delta.key_rows`."""

from __future__ import annotations

from psoup.kernels.delta.key_rows import ABSENT
from psoup.kernels.plain import Array


def chain_rows(row_keys: Array, first: int, following: Array, head: Array, links: Array) -> None:
    """See the kernel."""
    for row, key in enumerate(row_keys.tolist()):
        if row >= first and key >= 0:
            following[row], head[key] = head[key], row
            links[key] += 1


def gather_rows(keys: Array, head: Array, following: Array, ends: Array, rows: Array) -> int:
    """See the kernel."""
    listed = list[int]()
    for key in keys.tolist():
        row = int(head[key])
        while row >= 0:
            if ends[row] != ABSENT:
                listed.append(row)
            row = int(following[row])
    rows[: len(listed)] = listed
    return len(listed)
