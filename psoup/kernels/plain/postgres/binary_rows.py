"""Twins of `psoup.kernels.postgres.binary_rows`."""

from __future__ import annotations

import struct

from psoup.kernels.plain import Array


def find_values(data: Array, first: int, starts: Array, sizes: Array) -> tuple[int, int]:
    """See the kernel."""
    raw, rows, at = data.tobytes(), 0, first
    columns, capacity = starts.shape
    while rows < capacity and raw[at : at + 2] == struct.pack("!H", columns):
        place, spans = at + 2, list[tuple[int, int]]()
        while len(spans) < columns and place + 4 <= len(raw):
            size = struct.unpack_from("!i", raw, place)[0]
            place += 4
            if size < -1 or place + size > len(raw):
                break
            spans.append((place, size))
            place += max(size, 0)
        for column, (start, size) in enumerate(spans):
            starts[column, rows], sizes[column, rows] = start, size
        if len(spans) < columns:
            break
        rows, at = rows + 1, place
    return rows, at
