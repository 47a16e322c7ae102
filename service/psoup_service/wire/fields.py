"""Counts the fields of a request before it is parsed, and refuses requests that exceed the bounds of their call.

    bytes ── top-level fields ──> more than MOST ──────────────────────> refused
               │  labels, windows, maps: entries ──> more than MOST_ENTRIES ──> refused, by the name of the field
               │  statement, key, texts: bytes ────> more than MOST_TEXT ─────> refused, by the name of the field
               └─ tuple_ids, numbers: numbers ─────> more than MOST_NUMBERS ──> refused, by the name of the field

A parser holds the interpreter while it reads fields, and 16 MiB can be eight million fields. Messages of this contract
have a few; lists of statements or IDs have some thousands. An entry of a map takes ten times as long as a text of a
list. Four million packed numbers are slow for code that reads them one by one. Requests have maps and packed numbers
only at the top level, so nested messages are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from psoup.errors import InvalidInput, PSoupError, ResourceExhausted

FEW = 64
"""The most fields that are counted on an event loop: some 30 us."""

MOST = 131_072
"""The most top-level fields of a request."""

MOST_ENTRIES = 1_024
"""The most entries of a map: no call takes more than eight."""

MOST_NUMBERS = 16_384
"""The most numbers or messages of a list, except for the fields in `_MORE_NUMBERS`."""

MOST_TEXT = 131_072
"""The most bytes of a text: twice the limit of a statement. To find the error in a text of 16 MiB, or its first word,
takes up to a second."""

_MORE_NUMBERS = {"psoup.v1.InvokeTableRequest.numbers": 1 << 20}

_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
_EACH = 64
"""The most bytes of a packed field whose numbers are not counted exactly. Each byte counts as a number."""


class FieldLimit(NamedTuple):
    """The bound of a field.

    `most`: the most bytes of a text, entries of a map, or messages or numbers of a list. `packed`: the numbers may come
    packed.
    """

    name: str
    most: int
    packed: bool = False
    is_text: bool = False


Bounds = Mapping[int, FieldLimit]
"""The bounds of a message's fields, by field number. Other fields have no bound of their own."""


def bounds_of(message: Descriptor) -> dict[int, FieldLimit]:
    """The bounds of the fields of a request type."""
    bounds = dict[int, FieldLimit]()
    for field in message.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            bounds[field.number] = FieldLimit(field.name, MOST_TEXT, is_text=True)
        elif not field.is_repeated or field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            continue
        elif field.message_type is None:
            limit = _MORE_NUMBERS.get(field.full_name, MOST_NUMBERS)
            bounds[field.number] = FieldLimit(field.name, limit, packed=True)
        else:
            is_map = field.message_type.GetOptions().map_entry
            bounds[field.number] = FieldLimit(field.name, MOST_ENTRIES if is_map else MOST_NUMBERS)
    return bounds


def check(raw: bytes, bounds: Bounds) -> None:
    """Raise InvalidInput for more than MOST top-level fields, or for a field above its bound.

    Raises ResourceExhausted for a text that is too long. O(fields), and O(bytes) of packed numbers, up to the first
    excess.
    """
    counted = _Counted(bounds)
    fields = count(raw, MOST, counted)
    if counted.over is not None:
        raise _too_many(counted.over)
    if fields > MOST:
        raise InvalidInput(
            f"the request is not a message of this call's type, or has more than {MOST:,} fields; send parts",
            reason="NOT_PROTOBUF",
        )


class _Counted:
    """Counts the contents of the fields with bounds. `over`: the first field that exceeds its bound."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.over: FieldLimit | None = None
        self._left = {number: bound.most for number, bound in bounds.items()}

    def add(self, number: int, raw: bytes, at: int, size: int) -> bool:
        """Count one occurrence of a field with a bound. Returns whether the field exceeds its bound.

        The `size` bytes of the field end at `at`. If `size` is 0, the field is one number.
        """
        bound = self.bounds[number]
        if bound.is_text:
            self.over = bound if size > bound.most else None
            return size > bound.most
        self._left[number] -= _numbers(raw, at - size, size) if size and bound.packed else 1
        if self._left[number] < 0:
            self.over = bound
        return self._left[number] < 0


def count(raw: bytes, limit: int, counted: _Counted | None = None) -> int:
    """Count the top-level fields of a protobuf message. O(fields).

    Returns `limit` + 1 for more than `limit` fields, and for bytes that are not a message. `counted` counts the
    contents of fields with bounds, and ends the loop when a field exceeds its bound.
    """
    at, fields, end = 0, 0, len(raw)
    bounded = {} if counted is None else counted.bounds
    texts = {number for number, bound in bounded.items() if bound.is_text}
    try:
        while at < end and fields <= limit:
            tag, at = (raw[at], at + 1) if raw[at] < 128 else _varint(raw, at)
            fields += 1
            kind, size = tag & 7, 0
            if kind == _BYTES:
                size, at = (raw[at], at + 1) if raw[at] < 128 else _varint(raw, at)
                at += size
            elif kind == _VARINT:
                _, at = (0, at + 1) if raw[at] < 128 else _varint(raw, at)
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
            else:
                return limit + 1
            number = tag >> 3
            to_count = number in bounded and (size > MOST_TEXT or number not in texts)
            if to_count and counted is not None and counted.add(number, raw, at, size):
                return fields
    except IndexError:
        return limit + 1
    return fields


class FieldPlace(NamedTuple):
    """The place of a bytes field in a message: the offsets of its tag, its first byte and its end."""

    tag: int
    start: int
    end: int


def only(raw: bytes, number: int) -> FieldPlace | None:
    """Find the bytes field `number`, if it occurs exactly once. O(fields).

    Returns None otherwise, for bytes that are not a message, and for more than `FEW` fields.
    """
    at, places = 0, list[FieldPlace]()
    try:
        for _ in range(FEW + 1):
            if at == len(raw):
                return places[0] if len(places) == 1 else None
            start = at
            tag, at = _varint(raw, at)
            if tag & 7 == _VARINT:
                _, at = _varint(raw, at)
            elif tag & 7 in (_FIXED64, _FIXED32):
                at += 8 if tag & 7 == _FIXED64 else 4
            elif tag & 7 == _BYTES:
                size, at = _varint(raw, at)
                if tag >> 3 == number:
                    places.append(FieldPlace(start, at, at + size))
                at += size
            else:
                return None
    except IndexError:
        pass
    return None


def _numbers(raw: bytes, at: int, size: int) -> int:
    """The count of packed numbers in a field; for a short field, an upper bound.

    Each number ends with a byte below 128.
    """
    if size <= _EACH:
        return size
    length = min(size, len(raw) - at)
    return int(np.count_nonzero(np.frombuffer(raw, np.uint8, length, at) < 128)) if length > 0 else 0


def _too_many(bound: FieldLimit) -> PSoupError:
    if bound.is_text:
        return ResourceExhausted(
            f"{bound.name} has more than {bound.most:,} bytes, the most that is read of a text; a statement may have"
            " half of that: make it shorter, or split it",
            reason="MESSAGE_TOO_LARGE",
            field=bound.name,
            limit=bound.most,
        )
    noun = "numbers" if bound.packed else "entries"
    return InvalidInput(
        f"{bound.name} has more than {bound.most:,} {noun}, the most that is read; the call's description says how many"
        " it takes: send those, and the others in other calls",
        reason="TOO_MANY_VALUES",
        field=bound.name,
        limit=bound.most,
    )


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 70:
            return value, at
