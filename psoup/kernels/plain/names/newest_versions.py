"""Twins of `psoup.kernels.names.newest_versions`."""

from __future__ import annotations

from psoup.kernels.plain import Array


def _place(first_lane: int, second_lane: int, names: Array, ids: Array) -> int:
    at = first_lane % len(ids)
    while ids[at] >= 0 and (int(names[at, 0]), int(names[at, 1])) != (first_lane, second_lane):
        at = (at + 1) % len(ids)
    return at


def put_newest(lanes: Array, first_id: int, names: Array, ids: Array, before: Array) -> int:
    """See the kernel."""
    new = 0
    for i, (first_lane, second_lane) in enumerate(lanes.tolist()):
        at = _place(first_lane, second_lane, names, ids)
        before[i] = ids[at]
        new += int(ids[at] < 0)
        names[at] = first_lane, second_lane
        ids[at] = first_id + i
    return new


def find_newest(lanes: Array, names: Array, ids: Array, newest: Array) -> None:
    """See the kernel."""
    for i, (first_lane, second_lane) in enumerate(lanes.tolist()):
        newest[i] = ids[_place(first_lane, second_lane, names, ids)]


def move_newest(names: Array, ids: Array, oldest_id: int, wider_names: Array, wider_ids: Array) -> int:
    """See the kernel."""
    count = 0
    for (first_lane, second_lane), tuple_id in zip(names.tolist(), ids.tolist(), strict=True):
        if tuple_id >= max(oldest_id, 0):
            at = _place(first_lane, second_lane, wider_names, wider_ids)
            wider_names[at] = first_lane, second_lane
            wider_ids[at] = tuple_id
            count += 1
    return count
