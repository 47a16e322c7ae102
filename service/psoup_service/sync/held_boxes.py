"""The rows of a join that a client holds, in few bytes: differences of numbers, as varints of seven bits a byte.

    sources, step      for each source: target from, to      and, on the way there: kept from, to, the last row

The target is an interval of tuple IDs for each source. A client that lacks some of its rows is on the way there. A box
takes some 5 bytes for each source, and 10 to 20 on the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.answer.copies.id_intervals import Interval
from psoup.answer.copies.join_since import HeldBox, StepPlace
from psoup.plan.sides import MOST_SOURCES

_NUMBER = 10
"""Bytes of the longest number."""
_LEAST = -(2**63)
_MOST = 2**63 - 1
MOST_BOX_BYTES = 2 + MOST_SOURCES * 5 * _NUMBER


def to_bytes(box: HeldBox) -> bytes:
    """The bytes of a box."""
    out = bytearray([len(box.target), 0 if box.place is None else box.place.step + 1])
    for source, (low, high) in enumerate(box.target):
        _put(out, low)
        _put(out, high - low)
        if box.place is not None:
            for number in (*box.kept[source], box.place.row[source]):
                _put(out, number - low)
    return bytes(out)


def from_bytes(data: bytes) -> HeldBox:
    """Decode the bytes that `to_bytes` made. Raises ValueError for other bytes."""
    sources, step = data[:2]
    numbers = list(_numbers(data[2:]))
    each = 5 if step else 2
    if not 0 < sources <= MOST_SOURCES or step > 2 * sources or len(numbers) != sources * each:
        raise ValueError("a box of other numbers")
    target, intervals, row = list[Interval](), list[Interval](), list[int]()
    for start in range(0, len(numbers), each):
        low, size, *rest = numbers[start : start + each]
        target.append((low, low + size))
        if step:
            first, end, at = rest
            intervals.append((low + first, low + end))
            row.append(low + at)
    for (first, end), (low, high) in zip(intervals or target, target, strict=True):
        if not _LEAST <= low <= first <= end <= high <= _MOST:
            raise ValueError("a box with an end outside of it")
    return HeldBox(tuple(target), tuple(intervals), StepPlace(step - 1, tuple(row)) if step else None)


def _put(out: bytearray, number: int) -> None:
    """Append a number as a varint. Its sign is the last bit."""
    left = number << 1 if number >= 0 else ~(number << 1)
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)


def _numbers(data: bytes) -> Iterator[int]:
    shift = left = 0
    for byte in data:
        left |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield ~(left >> 1) if left & 1 else left >> 1
            shift = left = 0
    if shift:
        raise ValueError("a number is cut off")
