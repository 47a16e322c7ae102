"""Messages of a client. The length of each is checked before it is read, and a long one waits for free memory.

kind, length ── impossible: the connection ends
     └─> charged, if long ── no memory, or too long: the bytes are dropped, and the statement is refused
            └─> body, in time
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from psoup.errors import PSoupError, ResourceExhausted
from psoup_service.pg.channel import Channel
from psoup_service.pg.messages import Body, malformed
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.request_bodies import SLOWEST, SMALL_BYTES

_HEAD = struct.Struct("!ci")
_LONGEST = (1 << 30) - 1
"""The most bytes of a message in the protocol. A longer length is a fault, and ends the connection."""


class Message(NamedTuple):
    """A message of the client. `problem`: the error of a message that was not read."""

    kind: bytes
    raw: bytes
    problem: PSoupError | None = None

    def body(self) -> Body:
        """The fields of the message. Raises its `problem`."""
        if self.problem is not None:
            raise self.problem
        return Body(self.raw)


class Input:
    """The messages of one connection. `tenant`: is charged for long ones."""

    def __init__(self, channel: Channel, answering: Answering) -> None:
        self.tenant = ""
        self._channel = channel
        self._limits = answering.limits
        self._receiving = answering.receiving
        self._held = 0

    async def next(self, idle_s: float) -> Message:
        """The next message. Gives back the memory of the message before.

        Raises TimeoutError if no message begins within `idle_s` seconds, and ResourceExhausted if one takes too long.
        Raises InvalidInput for an impossible length.
        """
        self.release()
        channel, limits = self._channel, self._limits
        await channel.need(1, idle_s)
        try:
            await channel.need(_HEAD.size, limits.receive_s)
            kind, length = _HEAD.unpack(channel.take(_HEAD.size))
            size = length - 4
            if not 0 <= size <= _LONGEST:
                raise malformed(f"a message of {length:,} bytes; {limits.ingest_message_bytes:,} is the most")
            seconds = limits.receive_s + size / SLOWEST
            problem = await self._charge(size)
            if problem is not None:
                await channel.skip(size, seconds)
                return Message(kind, b"", problem)
            await channel.need(size, seconds)
        except TimeoutError:
            raise ResourceExhausted("a message of the client did not come in time", reason="RECEIVE_DEADLINE") from None
        return Message(kind, channel.take(size))

    def release(self) -> None:
        """Give back the memory of the last message."""
        size, self._held = self._held, 0
        if size:
            self._receiving.give_back(self.tenant, size)

    async def _charge(self, size: int) -> PSoupError | None:
        """Charge the bytes of a message. Returns the error if there is no memory, or if the message is too long."""
        limit = self._limits.ingest_message_bytes
        if size > limit:
            return ResourceExhausted(
                f"the message has {size:,} bytes, and {limit:,} is the most; send the rows in several INSERTs, or by"
                " COPY",
                reason="MESSAGE_TOO_LARGE",
                bytes=size,
                limit=limit,
            )
        if size <= SMALL_BYTES:
            return None
        try:
            await self._receiving.take(self.tenant, size, self._limits.receive_s)
        except ResourceExhausted as problem:
            return problem
        self._held = size
        return None
