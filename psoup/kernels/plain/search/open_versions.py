"""Twins of `psoup.kernels.search.open_versions`."""

from __future__ import annotations

from psoup.kernels.plain import Array


def open_rows(
    offsets: Array,
    times: Array,
    first: Array,
    deleted: Array,
    successors: Array,
    ends: Array,
    at: int,
    next_id: int,
    from_start: int,
    out: Array,
) -> int:
    """See the kernel."""
    later = successors[offsets]
    stays = (later == 0) | (later >= next_id) | (ends[offsets] > at)
    began = times[offsets] <= at
    if from_start:
        began = began | first[offsets]
    held_rows = offsets[~deleted[offsets] & began & stays]
    out[: len(held_rows)] = held_rows
    return len(held_rows)


def latest_rows(offsets: Array, deleted: Array, ended: Array, successors: Array, next_id: int, out: Array) -> int:
    """See the kernel."""
    later, has_later = successors[offsets], (ended[offsets >> 6] >> (offsets & 63)) & 1
    stays = (has_later == 0) | (later == 0) | (later >= next_id)
    held_rows = offsets[stays & ~deleted[offsets]] if len(deleted) else offsets[stays]
    out[: len(held_rows)] = held_rows
    return len(held_rows)


def ever_open_rows(
    offsets: Array,
    times: Array,
    first: Array,
    deleted: Array,
    successors: Array,
    ends: Array,
    next_id: int,
    from_start: int,
    out: Array,
) -> int:
    """See the kernel."""
    later = successors[offsets]
    stays = (later == 0) | (later >= next_id) | (ends[offsets] > times[offsets])
    if from_start:
        stays = stays | first[offsets]
    held_rows = offsets[~deleted[offsets] & stays]
    out[: len(held_rows)] = held_rows
    return len(held_rows)
