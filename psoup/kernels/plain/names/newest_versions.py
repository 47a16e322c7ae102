"""Twins of `psoup.kernels.names.newest_versions`."""

from __future__ import annotations

from psoup.kernels.names.newest_versions import SLOT
from psoup.kernels.plain import Array


def _slot(first_lane: int, second_lane: int, slots: Array) -> Array:
    table = slots.reshape(-1, SLOT)
    at = first_lane % len(table)
    while table[at, 2] and (int(table[at, 0]), int(table[at, 1])) != (first_lane, second_lane):
        at = (at + 1) % len(table)
    slot: Array = table[at]
    return slot


def put_newest(lanes: Array, first_id: int, slots: Array, before: Array) -> int:
    """See the kernel."""
    new = 0
    for i, (first_lane, second_lane) in enumerate(lanes.tolist()):
        slot = _slot(first_lane, second_lane, slots)
        before[i] = int(slot[2]) - 1 if slot[3] else -1
        new += int(slot[2] == 0)
        slot[:] = first_lane, second_lane, first_id + i + 1, int(slot[3]) + 1
    return new


def find_newest(lanes: Array, slots: Array, newest: Array, versions: Array) -> None:
    """See the kernel."""
    for i, (first_lane, second_lane) in enumerate(lanes.tolist()):
        slot = _slot(first_lane, second_lane, slots)
        versions[i] = slot[3]
        newest[i] = int(slot[2]) - 1 if slot[3] else -1


def leave_newest(lanes: Array, slots: Array) -> int:
    """See the kernel."""
    gone = 0
    for first_lane, second_lane in lanes.tolist():
        slot = _slot(first_lane, second_lane, slots)
        gone += int(slot[3] == 1)
        slot[3] = max(int(slot[3]) - 1, 0)
    return gone


def move_newest(slots: Array, wider: Array) -> int:
    """See the kernel."""
    table = slots.reshape(-1, SLOT)
    moved = table[table[:, 3] > 0]
    for slot in moved:
        _slot(int(slot[0]), int(slot[1]), wider)[:] = slot
    return len(moved)
