"""Twins of `psoup.kernels.rows.parquet_deltas`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.rows.parquet_deltas import COUNT, CRC

_BOOLEANS, _I32, _I64, _BINARY, _STRUCT = (1, 2), 5, 6, 8, 12
_MOST_VALUES, _MOST_PARTS, _SLACK = 1 << 20, 64, 16


class _Reader:
    """Bytes from a place on, up to `end`; raises EOFError beyond it."""

    def __init__(self, data: Array, at: int, end: int) -> None:
        self.data, self.at, self.end = data.tolist(), at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise EOFError
        self.at += 1
        return int(self.data[self.at - 1])

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 127) << (shift & 63)
            if byte < 128:
                return value % 2**64
        raise EOFError


def _signed(value: int) -> int:
    return _wrapped((value >> 1) ^ -(value & 1))


def _wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def page_facts(data: Array, at: int, end: int, facts: Array) -> int:
    """See the kernel."""
    facts[:] = -1
    reader, outer = _Reader(data, at, end), list[int]()
    field = 0
    try:
        while True:
            head = reader.byte()
            if not head and not outer:
                return reader.at
            if not head:
                inside = outer.pop()
                field = 99 if outer else inside
                continue
            kind, field = head & 15, field + (head >> 4)
            if not head >> 4 or kind not in (*_BOOLEANS, _I32, _I64, _BINARY, _STRUCT):
                return -1
            if kind == _STRUCT:
                outer.append(field)
                field = 0
            elif kind == _BINARY:
                size = reader.varint()
                if size > end:
                    return -1
                reader.at += size
            elif kind not in _BOOLEANS:
                number = _signed(reader.varint())
                if not outer and 1 <= field <= 4:
                    facts[field - 1] = number & 0xFFFF_FFFF if field - 1 == CRC else number
                elif len(outer) == 1 and outer[0] == 5 and 1 <= field <= 3:
                    facts[COUNT + field - 1] = number
    except EOFError:
        return -1


def unpack_deltas(words: Array, size: int, levels: bool, count: int, out: Array) -> bool:
    """See the kernel."""
    data = words.view(np.uint8)
    if size < 0 or size + _SLACK > len(data):
        return False
    reader = _Reader(data, 0, size)
    try:
        if levels:
            expected = sum(reader.byte() << (8 * k) for k in range(4))
            first = reader.at
            if reader.varint() != count << 1 or reader.byte() != 1 or reader.at - first != expected:
                return False
        block, parts, total, value = reader.varint(), reader.varint(), reader.varint(), _signed(reader.varint())
        if count < 1 or total != count or block > _MOST_VALUES or not 1 <= parts <= _MOST_PARTS or block % parts:
            return False
        rows = block // parts
        if rows < 8 or rows % 8:
            return False
        values = [value]
        while len(values) < count:
            minimum = _signed(reader.varint())
            widths = [reader.byte() for _ in range(parts)]
            for width in widths:
                if len(values) == count:
                    break
                if width > 64:
                    return False
                packed = int.from_bytes(bytes(reader.byte() for _ in range(width * rows // 8)), "little")
                for i in range(min(rows, count - len(values))):
                    value = _wrapped(value + minimum + (packed >> (i * width)) % (1 << width))
                    values.append(value)
    except EOFError:
        return False
    out[:] = values
    return True
