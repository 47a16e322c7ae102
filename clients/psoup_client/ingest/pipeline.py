"""The numbered batches of a producer on their way: each with its source position, and as the requests of a call.

    push(rows, position=b"40") ──> NumberedBatch 7 ──> window ──> SentRequests ──> PushStream
    push(rows, position=b"80") ──> NumberedBatch 8 ──┘            one object for each call

A source position is the sender's place in its own source behind the batch. The service keeps it with the number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from psoup_client.channel.primitives import Condition
from psoup_client.payload import Payload
from psoup_proto.v1 import ingest_pb2

MAX_POSITION_BYTES = 256
"""The most bytes of a source position."""


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch with its number. `position`: the source position behind it, None without one.

    `after`: the source position that must be recorded before it; b"" for none, and None if any may be.
    """

    number: int
    payload: Payload
    position: bytes | None = None
    after: bytes | None = None

    @property
    def is_placed(self) -> bool:
        """Whether the batch has a source position."""
        return self.position is not None or self.after is not None

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return len(self.payload.data)


def check_positions(position: object, after: object) -> None:
    """Raise TypeError for a source position that is not bytes, and ValueError for one that is empty or too long."""
    for name, given in (("position", position), ("after", after)):
        if given is None:
            continue
        if not isinstance(given, bytes):
            shown = repr(given)[:MAX_POSITION_BYTES]
            raise TypeError(f"{name} is {shown} of type {type(given).__name__}: give bytes, such as b'offset 40'")
        if len(given) > MAX_POSITION_BYTES:
            raise ValueError(
                f"{name} has {len(given):,} bytes, and a source position has at most {MAX_POSITION_BYTES}: give a"
                " shorter one"
            )
    if position == b"":
        raise ValueError("position is empty: give the place in the source behind these rows, or leave it out")


class SentRequests:
    """The requests of one call. gRPC reads this iterator beside the caller, until `stop`.

    `following`: waits for the next request; None ends the iteration. `changed`: the condition on which it waits.
    """

    def __init__(
        self, following: Callable[[SentRequests], ingest_pb2.PushStreamRequest | None], changed: Condition
    ) -> None:
        self.stopped = False
        self._following = following
        self._changed = changed

    def __iter__(self) -> SentRequests:
        return self

    def __next__(self) -> ingest_pb2.PushStreamRequest:
        request = self._following(self)
        if request is None:
            raise StopIteration
        return request

    def stop(self) -> None:
        """End the iteration, so that gRPC's reader ends."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()
