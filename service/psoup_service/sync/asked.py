"""A want that was read, and how much of its rows a reply may carry."""

from __future__ import annotations

from typing import NamedTuple

from psoup.execution.select.window import WindowChoice
from psoup.published.records import QueryRecord
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.tokens import Held


class Asked(NamedTuple):
    """A want, read: what is asked of a query, and what the client holds; `reset`: why it begins anew, if it does.

    `room`: bytes of rows that are wanted, of those that this reply has left, `reply_room`, of `most_bytes` at the most.
    """

    record: QueryRecord
    want: sync_pb2.Want
    window: WindowChoice | None
    held: Held
    reset: sync_pb2.Reset.ValueType
    room: int
    reply_room: int
    most_bytes: int

    def too_large(self, size: int) -> bool:
        """Whether what takes `size` bytes must wait for a reply that has more room."""
        return self.reply_room < size and self.reply_room < self.most_bytes
