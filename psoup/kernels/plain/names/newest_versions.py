"""Twins of `psoup.kernels.names.newest_versions`."""

from __future__ import annotations

from psoup.kernels.plain import Array


def _place(one: int, two: int, names: Array, ids: Array) -> int:
    at = one % len(ids)
    while ids[at] >= 0 and (int(names[at, 0]), int(names[at, 1])) != (one, two):
        at = (at + 1) % len(ids)
    return at


def put_newest(lanes: Array, first_id: int, names: Array, ids: Array, before: Array) -> int:
    """See the kernel."""
    new = 0
    for i, (one, two) in enumerate(lanes.tolist()):
        at = _place(one, two, names, ids)
        before[i] = ids[at]
        new += int(ids[at] < 0)
        names[at] = one, two
        ids[at] = first_id + i
    return new


def find_newest(lanes: Array, names: Array, ids: Array, found: Array) -> None:
    """See the kernel."""
    for i, (one, two) in enumerate(lanes.tolist()):
        found[i] = ids[_place(one, two, names, ids)]


def move_newest(names: Array, ids: Array, least: int, wider_names: Array, wider_ids: Array) -> int:
    """See the kernel."""
    count = 0
    for (one, two), tuple_id in zip(names.tolist(), ids.tolist(), strict=True):
        if tuple_id >= max(least, 0):
            at = _place(one, two, wider_names, wider_ids)
            wider_names[at] = one, two
            wider_ids[at] = tuple_id
            count += 1
    return count
