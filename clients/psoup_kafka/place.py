"""The place of a feed in a partition, as the service keeps it: the source position of the partition's producer.

>>> Place(1200, 1_767_225_600_123).encoded, Place.of(b"1200")
(b'1200 1767225600123', Place(next=1200, time=None))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from psoup_client import Client, FailedPrecondition, NotFound

_FORM = re.compile(rb"(\d{1,19})(?: (\d{1,19}))?")


@dataclass(frozen=True, slots=True)
class Place:
    """The offset of the next record. `time`: the timestamp of the record before it, in milliseconds since 1970.

    The time shows whether a topic was deleted and made anew. It is None if there is no record before.
    """

    next: int
    time: int | None = None

    @property
    def encoded(self) -> bytes:
        """The bytes of the source position."""
        return b"%d" % self.next if self.time is None else b"%d %d" % (self.next, self.time)

    @staticmethod
    def of(position: bytes) -> Place:
        """Parse a source position. Raises FailedPrecondition for bytes of another program."""
        match = _FORM.fullmatch(position)
        if match is None:
            raise FailedPrecondition(
                f"the recorded position {position[:40]!r} is not one of psoup kafka: another program feeds the stream"
                " under this name; take another one (--name)",
                reason="POSITION_OF_ANOTHER",
            )
        return Place(int(match[1]), None if match[2] is None else int(match[2]))


def recorded_place(client: Client, stream: str, producer: str) -> Place | None:
    """The place that the service has for a partition; None for none."""
    try:
        position = client.position(stream, producer)
    except NotFound as problem:
        if problem.reason != "UNKNOWN_PRODUCER":
            raise
        return None
    return None if position.source is None else Place.of(position.source)
