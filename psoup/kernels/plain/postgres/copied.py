"""Twins of `psoup.kernels.postgres.copied`."""

from __future__ import annotations

import struct

from psoup.kernels.plain import Array


def find_values(data: Array, first: int, starts: Array, sizes: Array) -> tuple[int, int]:
    """See the kernel."""
    raw, rows, at = data.tobytes(), 0, first
    columns, most = starts.shape
    while rows < most and raw[at : at + 2] == struct.pack("!H", columns):
        place, found = at + 2, list[tuple[int, int]]()
        while len(found) < columns and place + 4 <= len(raw):
            size = struct.unpack_from("!i", raw, place)[0]
            place += 4
            if size < -1 or place + size > len(raw):
                break
            found.append((place, size))
            place += max(size, 0)
        for column, (start, size) in enumerate(found):
            starts[column, rows], sizes[column, rows] = start, size
        if len(found) < columns:
            break
        rows, at = rows + 1, place
    return rows, at
