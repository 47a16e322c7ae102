"""Twins of `psoup.kernels.names.newest_versions`."""

from __future__ import annotations

from psoup.kernels.plain import Array


def _place(first_lane: int, second_lane: int, names: Array, ids: Array) -> int:
    at = first_lane % len(ids)
    while ids[at] >= 0 and (int(names[at, 0]), int(names[at, 1])) != (first_lane, second_lane):
        at = (at + 1) % len(ids)
    return at


def put_newest(lanes: Array, first_id: int, names: Array, ids: Array, counts: Array, before: Array) -> int:
    """See the kernel."""
    new = 0
    for i, (first_lane, second_lane) in enumerate(lanes.tolist()):
        at = _place(first_lane, second_lane, names, ids)
        before[i] = ids[at] if counts[at] > 0 else -1
        new += int(ids[at] < 0)
        names[at] = first_lane, second_lane
        ids[at] = first_id + i
        counts[at] += 1
    return new


def find_newest(lanes: Array, names: Array, ids: Array, counts: Array, newest: Array, versions: Array) -> None:
    """See the kernel."""
    for i, (first_lane, second_lane) in enumerate(lanes.tolist()):
        at = _place(first_lane, second_lane, names, ids)
        versions[i] = counts[at]
        newest[i] = ids[at] if counts[at] > 0 else -1


def leave_newest(lanes: Array, names: Array, ids: Array, counts: Array) -> int:
    """See the kernel."""
    gone = 0
    for first_lane, second_lane in lanes.tolist():
        at = _place(first_lane, second_lane, names, ids)
        gone += int(counts[at] == 1)
        counts[at] = max(counts[at] - 1, 0)
    return gone


def move_newest(
    names: Array, ids: Array, counts: Array, wider_names: Array, wider_ids: Array, wider_counts: Array
) -> int:
    """See the kernel."""
    moved = counts > 0
    for (first_lane, second_lane), tuple_id, count in zip(
        names[moved].tolist(), ids[moved].tolist(), counts[moved].tolist(), strict=True
    ):
        at = _place(first_lane, second_lane, wider_names, wider_ids)
        wider_names[at] = first_lane, second_lane
        wider_ids[at], wider_counts[at] = tuple_id, count
    return int(moved.sum())
