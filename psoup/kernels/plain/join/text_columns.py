"""Twins of `psoup.kernels.join.text_columns`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.plain.rows.batch_body import _at
from psoup.kernels.rows.batch_body import PARTS


def _texts(
    column: int, sources: Array, stride: int, rows: Array, stops: Array, positions: Array
) -> list[tuple[bytes, bool]]:
    """The texts at some positions, and whether each is not NULL."""
    matches = list[tuple[bytes, bool]]()
    for position, part in zip(positions.tolist(), np.searchsorted(stops, positions, "right").tolist(), strict=True):
        values, valid, text = sources[part * stride + PARTS * column :][:PARTS].tolist()
        row = int(rows[position])
        low, end = _at(values, row + 2, np.int64)[row:].tolist()
        content = _at(text, end, np.uint8)[low:].tobytes() if end > low else b""
        matches.append((content, not valid or bool(_at(valid, row + 1, np.uint8)[row])))
    return matches


def text_bytes_at(column: int, sources: Array, stride: int, rows: Array, stops: Array, positions: Array) -> int:
    """See the kernel."""
    return sum(len(text) for text, _ in _texts(column, sources, stride, rows, stops, positions))


def gather_texts_at(
    which: int,
    column: int,
    sources: Array,
    stride: int,
    rows: Array,
    stops: Array,
    positions: Array,
    places: Array,
    out: Array,
    nulls: Array,
) -> None:
    """See the kernel."""
    matches = _texts(column, sources, stride, rows, stops, positions)
    valid, values, text = places[which].tolist()
    ends = np.cumsum([0, *(len(part) for part, _ in matches)], dtype=np.int32).view(np.uint8)
    content = np.frombuffer(b"".join(part for part, _ in matches), np.uint8)
    out[values : values + len(ends)] = ends
    out[text : text + len(content)] = content
    nulls[which] = 0
    if valid >= 0:
        flags = np.array([part for _, part in matches], np.bool_)
        bits = np.packbits(flags, bitorder="little")
        out[valid : valid + len(bits)] = bits
        nulls[which] = int((~flags).sum())
