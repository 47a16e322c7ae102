"""Requests with a payload of megabytes, which is read in place, without a copy.

    raw   stream, producer, … │ arrow_ipc: 8 MiB │ …
            └── parsed, as a message of some bytes ──┴── `Carrying.arrow_ipc`: a view, from 1 MiB on

Parsing a message copies its payload, and so does each access to the field. Both hold the interpreter meanwhile: 3 to 4
ms for 8 MiB, in which no other thread of the service runs. A view costs nothing. Arrow copies misaligned buffers from
it on a decoder's thread, while other threads have the interpreter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor

from psoup_service.wire import fields

PAYLOAD = "arrow_ipc"
"""The field of a request that may be long."""

COPIED_BYTES = 1024 * 1024
"""The most bytes of a request that the event loop copies. A copied payload is aligned for Arrow, which saves the hop to
a decoder's thread. In new memory a megabyte takes up to 1.5 ms; but gRPC has copied the message there already."""

_REST_BYTES = 64 * 1024
"""The most bytes of a request without its payload. The event loop parses them."""


class SplitMessage(NamedTuple):
    """A message without its payload, and the payload."""

    rest: bytes
    payload: bytes | memoryview


class Carrying:
    """A request whose payload is kept outside of the parsed message. It has the attributes of the message."""

    __slots__ = ("_rest", "arrow_ipc")

    def __init__(self, rest: Any, payload: bytes | memoryview) -> None:
        self._rest = rest
        self.arrow_ipc = payload

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)


def payload_number(message: Descriptor) -> int:
    """The number of the payload's field in a request; 0 if it has none."""
    field = message.fields_by_name.get(PAYLOAD)
    return 0 if field is None else int(field.number)


def split(raw: bytes, number: int) -> SplitMessage | None:
    """Split a request into field `number` and all other fields. About 20 us, and a copy up to `COPIED_BYTES`.

    Returns None unless the field occurs exactly once and the other fields are short. Then the caller parses the request
    as a whole.
    """
    place = fields.only(raw, number)
    if place is None or len(raw) - (place.end - place.start) > _REST_BYTES:
        return None
    view = memoryview(raw)[place.start : place.end]
    return SplitMessage(raw[: place.tag] + raw[place.end :], view if len(raw) > COPIED_BYTES else bytes(view))
