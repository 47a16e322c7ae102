"""Twins of `psoup.kernels.fold.frame_extremes`."""

from __future__ import annotations

from psoup.kernels.plain import Array


def frame_extremes(
    keys: Array, mask: Array, low: Array, high: Array, greatest: bool, queue: Array, rows: Array
) -> None:
    """See the kernel."""
    for i, (first, stop) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        frame = [row for row in range(first, stop) if not len(mask) or mask[row]]
        if not frame:
            rows[i] = -1
        elif greatest:
            rows[i] = max(frame, key=lambda row: (keys[row], -row))
        else:
            rows[i] = min(frame, key=lambda row: (keys[row], row))
