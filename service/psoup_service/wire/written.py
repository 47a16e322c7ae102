"""Replies that are serialized on a reader thread, part by part, and not as a whole on the event loop.

    entries ──> `open`, a message of some of them ──cut──> bytes, bytes, … ──joined──> `Written` ──as it is──> the wire

Serializing a message holds the interpreter: for three megabytes of IDs 8 ms, in which no other thread of the service
runs. By protobuf's encoding, concatenated messages are one message whose repeated fields have the entries of all.
Replies to pages are JSON and are not written in this way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

PART_BYTES = 64 * 1024
"""The size from which an open part is serialized, which takes some tenths of a millisecond."""

M = TypeVar("M", bound=Message)


class Written:
    """A reply that is already serialized."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


def with_payload(message: Message, field: str, payload: memoryview) -> Written:
    """Serialize `message` with `payload` as its bytes field `field`. O(bytes), for one copy."""
    tag = message.DESCRIPTOR.fields_by_name[field].number << 3 | 2
    return Written(b"".join((message.SerializeToString(), _varint(tag), _varint(len(payload)), payload)))


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


class OpenMessage(Generic[M]):
    """A message that is built and serialized part by part. `open`: the part that the caller fills now."""

    def __init__(self, kind: type[M]) -> None:
        self._kind = kind
        self._parts = list[bytes]()
        self.open = kind()

    def cut(self) -> int:
        """Serialize the open part, and begin another. Returns the number of bytes. O(bytes)."""
        raw = self.open.SerializeToString()
        self._parts.append(raw)
        self.open = self._kind()
        return len(raw)

    def written(self) -> Written:
        """The whole message. May be called once."""
        self.cut()
        return Written(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))


def writer(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return the serializer of a method's replies. A reply that is already serialized stays as it is."""

    def write(reply: Any) -> bytes:
        return reply.raw if type(reply) is Written else serialize(reply)

    return write
