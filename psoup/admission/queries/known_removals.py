"""Calls that removed many queries, by request ID, so that a repeated call gets the same answer.

    request ID ──> digest of the selection, number of removed queries, event          the latest calls of each tenant

The state depends only on adopted events; the log keeps the events that are needed (`psoup.config.Remembered`).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from psoup.errors import Conflict
from psoup.events.commands import UnregisterMany
from psoup.events.events import UnregisteredMany


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of a call: the event `sequence` removed `count` queries. `digest`: of the selection."""

    digest: bytes
    count: int
    sequence: int


@dataclass(slots=True)
class KnownRemovals:
    """The last calls of one tenant that removed queries, by their request IDs, oldest first."""

    _done: OrderedDict[str, Removed] = field(default_factory=OrderedDict)

    def items(self) -> Iterator[tuple[str, Removed]]:
        """Yield request IDs and the results of their calls, oldest first."""
        yield from self._done.items()

    def earlier(self, command: UnregisterMany) -> Removed | None:
        """The result of an earlier call with this request ID, or None. Raises Conflict if it selected other queries."""
        removed = self._done.get(command.request_id) if command.request_id else None
        if removed is not None and removed.digest != removal_digest(command):
            raise Conflict(
                f"request ID {command.request_id!r} was used to unregister other queries; use a new request ID",
                reason="REQUEST_ID_REUSED",
                request_id=command.request_id,
            )
        return removed

    def remember(self, event: UnregisteredMany, limit: int) -> None:
        """Keep the result of a removal. Drop the oldest results if there are more than `limit`."""
        if event.request_id:
            self._done.pop(event.request_id, None)
            self._done[event.request_id] = Removed(event.digest, event.count, event.sequence)
            while len(self._done) > limit:
                self._done.popitem(last=False)


def removal_digest(command: UnregisterMany) -> bytes:
    """The digest of the selection of queries in a command: 16 bytes."""
    if command.query_ids is not None:
        content = b"ids" + np.unique(command.query_ids).astype("<i8").tobytes()
    else:
        content = repr((command.labels, command.prefix)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).digest()
