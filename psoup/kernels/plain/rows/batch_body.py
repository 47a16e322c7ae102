"""Twins of `psoup.kernels.rows.batch_body`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.rows.batch_body import BITS, CODED, DECIMAL, NARROW, NUMBER, PARTS, TEXT, WIDE


def _at(address: int, count: int, dtype: Any) -> Array:
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(int(address)), dtype)


def _parts(column: int, sources: Array, stride: int, rows: Array, stops: Array) -> Iterator[tuple[Array, Array]]:
    """The three numbers of a column in each chunk that has rows, and the rows."""
    table = sources.reshape(-1, stride // PARTS, PARTS)[:, column]
    for three, part in zip(table, np.split(rows, stops[:-1]), strict=True):
        if len(part):
            yield three, part


def _flags(column: int, field: int, sources: Array, stride: int, rows: Array, stops: Array) -> Array:
    flags = [
        _at(three[field], part[-1] + 1, np.bool_)[part] if three[field] else np.ones(len(part), np.bool_)
        for three, part in _parts(column, sources, stride, rows, stops)
    ]
    return np.concatenate(flags)


def text_bytes(column: int, sources: Array, stride: int, rows: Array, stops: Array) -> int:
    """See the kernel."""
    total = 0
    for three, part in _parts(column, sources, stride, rows, stops):
        total += int(np.diff(_at(three[0], part[-1] + 2, np.int64))[part].sum())
    return total


def has_nulls(columns: Array, sources: Array, stride: int, parts: int, nullable: Array) -> None:
    """See the kernel."""
    nullable[:] = sources.reshape(parts, stride // PARTS, PARTS)[:, columns, 1].any(axis=0)


def gather_bits(column: int, field: int, sources: Array, stride: int, rows: Array, stops: Array, out: Array) -> int:
    """See the kernel."""
    flags = _flags(column, field, sources, stride, rows, stops)
    out[:] = np.packbits(flags, bitorder="little")
    return int(flags.sum())


def _texts(column: int, sources: Array, stride: int, rows: Array, stops: Array) -> list[bytes]:
    texts = []
    for three, part in _parts(column, sources, stride, rows, stops):
        ends = _at(three[0], part[-1] + 2, np.int64)
        data = _at(three[2], ends[-1], np.uint8)
        texts += [data[ends[row] : ends[row + 1]].tobytes() for row in part]
    return texts


def _values(kind: int, three: Array, part: Array) -> Array:
    if kind == NUMBER:
        return three[0] + (_at(three[2], part[-1] + 1, np.uint16)[part].astype(np.int64) if three[2] else part)
    if kind == WIDE and three[2]:
        address, width, minimum = _at(three[2], CODED, np.int64)
        return _at(address, part[-1] + 1, np.dtype(f"u{width}"))[part].astype(np.int64) + minimum
    values = _at(three[0], part[-1] + 1, np.int32 if kind == NARROW else np.int64)[part]
    return np.stack([values, values >> 63], axis=1).ravel() if kind == DECIMAL else values


def take_texts(ends: Array, data: Array, rows: Array, offsets: Array, text: Array) -> None:
    """See the kernel."""
    for i, row in enumerate(rows.tolist()):
        text[offsets[i] : offsets[i + 1]] = data[ends[row] : ends[row + 1]]


def gather(
    kinds: Array, columns: Array, sources: Array, stride: int, rows: Array, stops: Array, places: Array, out: Array,
    nulls: Array,
) -> None:  # fmt: skip
    """See the kernel."""
    for i, (kind, column) in enumerate(zip(kinds.tolist(), columns.tolist(), strict=True)):
        ask = (sources, stride, rows, stops)
        valid, start, text = places[i]
        bits = (len(rows) + 7) // 8
        nulls[i] = 0 if valid < 0 else len(rows) - gather_bits(column, 1, *ask, out[valid : valid + bits])
        if kind == BITS:
            gather_bits(column, 0, *ask, out[start : start + bits])
            continue
        if kind == TEXT:
            texts = _texts(column, *ask)
            raw = np.cumsum([0, *map(len, texts)]).astype(np.int32).view(np.uint8)
            joined = np.frombuffer(b"".join(texts), np.uint8)
            out[text : text + len(joined)] = joined
        else:
            raw = np.concatenate([_values(kind, *part) for part in _parts(column, *ask)]).view(np.uint8)
        out[start : start + len(raw)] = raw


def lay_out(kinds: Array, nullable: Array, texts: Array, rows: int, places: Array, buffers: Array) -> int:
    """See the kernel."""
    bits = (rows + 7) // 8
    sizes = {NARROW: 4 * rows, TEXT: 4 * rows + 4, BITS: bits, DECIMAL: 16 * rows}
    end, spans = 0, []
    for i, kind in enumerate(kinds.tolist()):
        lengths = [bits if nullable[i] else 0, sizes.get(kind, 8 * rows), *([int(texts[i])] if kind == TEXT else [])]
        starts = end + np.cumsum([0, *((length + 7) // 8 * 8 for length in lengths)])
        end = int(starts[-1])
        places[i] = starts[0] if nullable[i] else -1, starts[1], starts[2]
        spans += list(zip(starts[:-1].tolist(), lengths, strict=True))
    buffers[:] = spans
    return end
