"""The messages of a producer's call: small batches that wait while messages are under way travel in one.

    window   7 8 9 │ 10 11 12 13 14      7 8 9: sent; 10 to 14 wait
                   └── one message: 10 as `arrow_ipc`, 11 to 14 as `more`

A message costs as much as about a thousand rows. So at most `UNDER_WAY` messages are under way while small batches
wait. A batch waits no longer than `HOLD_S`. It keeps its number, and gets its own reply. A batch with a source position
travels alone. So do all batches until the service has said that it takes several in a message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from psoup_client.errors import ServerFault
from psoup_client.ingest.pipeline import NumberedBatch
from psoup_proto.v1 import ingest_pb2

SHARED_ROWS = 65_536
"""The most rows of a message with several batches."""

SHARED_BYTES = 4 * 1024 * 1024
"""The most bytes of a message with several batches."""

SHARED_BATCHES = 48
"""The most batches of a message. The service reads such a message on its event loop."""

SMALL_BYTES = 256 * 1024
"""The most bytes of a batch that shares a message. For a larger one the saved cost is small."""

UNDER_WAY = 2
"""The messages under way from which on small batches wait. With one, the service would wait for the next message."""

HOLD_S = 0.005
"""The most seconds for which a small batch waits for further ones. A reply from a service far away takes longer."""


class Messages:
    """Divides the first batches of a window into messages. `window`: the batches without a reply, the oldest first.

    The caller holds the lock of the window.
    """

    def __init__(self, window: deque[NumberedBatch]) -> None:
        self._window = window
        self._sent = 0
        """The number of first batches of the window that this call has sent."""
        self._last = deque[int]()
        """The number of the last batch of each message under way."""
        self.shares = False
        """Whether the service takes several batches in a message of this call."""
        self._next = _Group()

    def begin(self) -> None:
        """Begin a call, which sends all batches of the window."""
        self._sent, self.shares, self._next = 0, False, _Group()
        self._last.clear()

    @property
    def waiting(self) -> int:
        """The number of batches that this call has not sent."""
        return len(self._window) - self._sent

    def may_go(self) -> bool:
        """Whether the next message may be sent: a further batch would not fit, or too few messages are under way."""
        if not self.waiting:
            return False
        return len(self._last) < UNDER_WAY or not self.shares or self._grown().is_full

    def take(self) -> list[NumberedBatch]:
        """Take the batches of the next message. At least one must wait."""
        count = self._grown().batches
        batches = list(islice(self._window, self._sent, self._sent + count))
        self._sent, self._next = self._sent + count, _Group()
        self._last.append(batches[-1].number)
        return batches

    def check(self, reply: ingest_pb2.PushStreamResponse) -> None:
        """Check the reply to the oldest message under way. Raises ServerFault if it is not about its batches."""
        self.shares = reply.takes_more
        first, count = self._window[0].number, 1 + len(reply.more)
        if reply.number != first:
            raise ServerFault(f"the service replied to batch {reply.number}, and batch {first} was the next")
        if self._last and first + count - 1 > self._last[0]:
            raise ServerFault(f"the service replied to {count} batches from {first} on, and sent was {self._last[0]}")

    def replied(self, batch: NumberedBatch) -> None:
        """Note the reply to the first batch, which has left the window. Has no effect if no call has sent it."""
        self._sent = max(self._sent - 1, 0)
        if self._last and self._last[0] == batch.number:
            self._last.popleft()

    def _grown(self) -> _Group:
        """Add the waiting batches to the next message, as long as they fit. O(added batches)."""
        group = self._next
        while not group.is_full and group.batches < self.waiting:
            batch = self._window[self._sent + group.batches]  # near the end of the window
            group.add(batch, self.shares and _is_small(batch))
        return group


@dataclass(slots=True)
class _Group:
    """The waiting batches that the next message will have. `is_full`: it has no room for a further batch."""

    batches: int = 0
    rows: int = 0
    size: int = 0
    is_full: bool = False

    def add(self, batch: NumberedBatch, may_share: bool) -> None:
        """Add a batch, unless it does not fit. The first one always fits."""
        rows, size = self.rows + batch.payload.rows, self.size + batch.size
        if self.batches and not (may_share and rows <= SHARED_ROWS and size <= SHARED_BYTES):
            self.is_full = True
            return
        self.batches, self.rows, self.size = self.batches + 1, rows, size
        self.is_full = not may_share or self.batches == SHARED_BATCHES


def request_of(batches: Sequence[NumberedBatch]) -> ingest_pb2.PushStreamRequest:
    """The message with these batches, without the facts about their producer."""
    first = batches[0]
    return ingest_pb2.PushStreamRequest(
        arrow_ipc=first.payload.data,
        number=first.number,
        position=first.position or b"",
        after=first.after,
        more=[batch.payload.data for batch in batches[1:]],
    )


def _is_small(batch: NumberedBatch) -> bool:
    """Whether a batch may share a message."""
    return batch.size <= SMALL_BYTES and not batch.is_placed
