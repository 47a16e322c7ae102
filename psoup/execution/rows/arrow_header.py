"""The part of FlatBuffers that finds numbers in the header of an Arrow IPC message.

    table ── vtable ──> where each field lies, or that it has its default

The messages are pyarrow's or a stranger's; reading past the end raises struct.error.
"""

from __future__ import annotations

import struct


class Flat:
    """A FlatBuffers table: Message, DictionaryBatch or RecordBatch of Arrow's Message.fbs."""

    def __init__(self, raw: memoryview, position: int) -> None:
        self.raw = raw
        self.position = position
        self.vtable = position - struct.unpack_from("<i", raw, position)[0]
        self.fields = (struct.unpack_from("<H", raw, self.vtable)[0] - 4) // 2

    @staticmethod
    def root(raw: memoryview) -> Flat:
        """The root table of a buffer."""
        return Flat(raw, struct.unpack_from("<I", raw, 0)[0])

    def place(self, field: int) -> int | None:
        """The place of the field's value, or None if it has its default."""
        if field >= self.fields:
            return None
        offset = struct.unpack_from("<H", self.raw, self.vtable + 4 + 2 * field)[0]
        return self.position + offset if offset else None

    def table(self, field: int) -> Flat | None:
        """The table that the field refers to."""
        place = self.place(field)
        return None if place is None else Flat(self.raw, place + struct.unpack_from("<I", self.raw, place)[0])

    def vector(self, field: int) -> tuple[int, int] | None:
        """The place of a vector's first element, and the number of elements."""
        place = self.place(field)
        if place is None:
            return None
        start = place + int(struct.unpack_from("<I", self.raw, place)[0])
        return start + 4, int(struct.unpack_from("<I", self.raw, start)[0])
