"""A reader of FlatBuffers, the format of the header of an Arrow IPC message. It finds the places of fields.

    table ── vtable ──> the place of each field, or none if the field has its default

The message may come from pyarrow or from a client. Reading past its end raises struct.error.
"""

from __future__ import annotations

import struct


class Flat:
    """A FlatBuffers table in `raw`: a Message, DictionaryBatch or RecordBatch of Arrow's Message.fbs."""

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
        """The place of a field's value, in bytes from the start of `raw`. None if the field has its default."""
        if field >= self.fields:
            return None
        offset = struct.unpack_from("<H", self.raw, self.vtable + 4 + 2 * field)[0]
        return self.position + offset if offset else None

    def table(self, field: int) -> Flat | None:
        """The table to which a field refers. None if the field has its default."""
        place = self.place(field)
        return None if place is None else Flat(self.raw, place + struct.unpack_from("<I", self.raw, place)[0])

    def vector(self, field: int) -> tuple[int, int] | None:
        """The place of the first element of a vector field, and the number of elements. None if it has its default."""
        place = self.place(field)
        if place is None:
            return None
        start = place + int(struct.unpack_from("<I", self.raw, place)[0])
        return start + 4, int(struct.unpack_from("<I", self.raw, start)[0])
