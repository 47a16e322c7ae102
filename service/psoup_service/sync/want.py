"""A parsed want, and the bytes of rows that a reply may carry for it."""

from __future__ import annotations

from typing import NamedTuple

from psoup.execution.select.window import WindowChoice
from psoup.published.records import QueryRecord
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.tokens import ClientRows


class Want(NamedTuple):
    """A parsed want: the question, and the rows that the client holds.

    `reset`: the reason, if the client gets its copy from the start. `room`: wanted bytes of rows, at most `reply_room`.
    `reply_room`: bytes left in this reply, at most `most_bytes`.
    """

    record: QueryRecord
    want: sync_pb2.Want
    window: WindowChoice | None
    held: ClientRows
    reset: sync_pb2.Reset.ValueType
    room: int
    reply_room: int
    most_bytes: int

    def too_large(self, size: int) -> bool:
        """Whether `size` bytes must wait for a later reply that has more room."""
        return self.reply_room < size and self.reply_room < self.most_bytes
