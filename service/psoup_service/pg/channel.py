"""The bytes of a connection: messages of the client, and messages to it. Both directions are bounded.

    socket ──> input: the present message, and at most INPUT_BYTES more ──> `need`, `take`
    socket <── output <── `write`; `drain` waits for the client, and cuts a client that does not read

The channel also notices when the client disconnects, so that its statement can be cancelled.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from psoup_service.pg.messages import malformed

INPUT_BYTES = 64 * 1024
"""Bytes that the channel reads ahead of the present message."""

_LITTLE = 16 * 1024
"""The bytes of output from which `spare` sends them, while a statement runs."""
OUTPUT_BYTES = 64 * 1024
"""Bytes of output that the channel collects before it hands them to the system."""


class Gone(ConnectionError):
    """The client has closed the connection."""


class Channel(asyncio.Protocol):
    """The channel of one connection. `lost`: the connection has ended. `secured`: it is encrypted."""

    def __init__(self, begin: Callable[[Channel], None], stalled_s: float) -> None:
        """`begin`: called once the connection is there. `stalled_s`: seconds in which the client must read output."""
        self._begin: Callable[[Channel], None] | None = begin
        self._stalled_s = stalled_s
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._input = bytearray()
        self._wanted = 0
        self._reading = True
        self._waiter: asyncio.Future[None] | None = None
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._stalls_at = 0.0
        self._ended = self.lost = self.secured = False
        self.left: Callable[[], None] = lambda: None
        """Called when the client has closed its side."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        self._transport = transport
        begin, self._begin = self._begin, None
        if begin is not None:
            begin(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._input += data
        if self._reading and len(self._input) > self._wanted + INPUT_BYTES:
            self._reading = False
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Note that the client sends nothing more."""
        self._ended = True
        self._wake()
        self.left()
        return not self.secured

    def connection_lost(self, problem: Exception | None) -> None:
        """Note that the connection has ended."""
        self._ended = self.lost = True
        self._writable.set()
        self._wake()
        self.left()

    def pause_writing(self) -> None:
        """Note that the client does not read as fast as the service writes."""
        self._stalls_at = self._loop.time() + self._stalled_s
        self._writable.clear()

    def resume_writing(self) -> None:
        """Note that there is room for output."""
        self._writable.set()

    def extra(self, name: str) -> Any:
        """A fact of the connection, such as "peername" or "ssl_object"."""
        return self._transport.get_extra_info(name)

    @property
    def on_unix(self) -> bool:
        """Whether the connection is one of a Unix socket."""
        return bool(self.extra("socket").family == socket.AF_UNIX)

    @property
    def waiting(self) -> bool:
        """Bytes of the client that are not taken yet."""
        return bool(self._input)

    @property
    def full(self) -> bool:
        """Whether output waits for the client, so that `drain` should be awaited before more is written."""
        return not self._writable.is_set()

    def begins_with(self, raw: bytes) -> bool:
        """Whether the bytes that are not taken yet begin with `raw`."""
        return self._input.startswith(raw)

    async def need(self, size: int, seconds: float) -> None:
        """Wait until `size` bytes are there. Raises TimeoutError after `seconds`, and Gone if the client leaves."""
        if len(self._input) >= size:
            return
        await self.drain()
        end = self._loop.time() + seconds
        self._wanted = size
        self._resume_reading()
        try:
            while len(self._input) < size:
                if self._ended:
                    raise Gone
                await self._wait(end)
        finally:
            self._wanted = 0

    def take(self, size: int) -> bytes:
        """Take bytes that `need` has waited for."""
        taken = bytes(self._input[:size])
        del self._input[:size]
        self._resume_reading()
        return taken

    async def skip(self, size: int, seconds: float) -> None:
        """Read bytes of the client and drop them. Raises as `need` does."""
        while size:
            await self.need(1, seconds)
            size -= len(self.take(min(size, len(self._input))))

    def interrupt(self, problem: BaseException) -> None:
        """Make the present wait for the client raise `problem`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(problem)

    def write(self, raw: bytes) -> None:
        """Add output. The next `drain` sends it, or this call once OUTPUT_BYTES are there."""
        if self.lost:
            return
        self._output.append(raw)
        self._output_bytes += len(raw)
        if self._output_bytes >= OUTPUT_BYTES:
            self._flush()

    async def drain(self) -> None:
        """Send the output, and return when there is room for more.

        A client that does not read for `stalled_s` seconds is cut. Raises CancelledError if the connection has ended.
        """
        self._flush()
        if not self._writable.is_set():
            try:
                async with asyncio.timeout_at(self._stalls_at):  # of this stall, which may have outlasted a statement
                    await self._writable.wait()
            except TimeoutError:
                self.abort()
                raise asyncio.CancelledError from None
        if self.lost:
            raise asyncio.CancelledError

    async def spare(self) -> None:
        """Return when there is room for more output. Sends what there is only from _LITTLE bytes on.

        Raises as `drain` does.
        """
        if self._output_bytes >= _LITTLE or not self._writable.is_set():
            await self.drain()
        elif self.lost:
            raise asyncio.CancelledError

    async def start_tls(self, context: ssl.SSLContext, seconds: float) -> None:
        """Encrypt the connection. Raises OSError if the handshake fails, InvalidInput if bytes came before it."""
        if self._input:  # they are not encrypted, so anybody between the client and the service may have sent them
            raise malformed("bytes follow the request for TLS")
        self._flush()
        await self._shake_hands(context, seconds)

    async def continue_tls(self, context: ssl.SSLContext, seconds: float) -> None:
        """Encrypt a connection whose client has begun the handshake: the bytes that wait belong to it.

        Raises OSError if the handshake fails.
        """
        begin = bytes(self._input)
        self._input.clear()
        self._reading = True  # the protocol of TLS reads on
        handshake = asyncio.ensure_future(self._shake_hands(context, seconds))
        try:
            await asyncio.sleep(0)  # the protocol of TLS takes over, and is connected in the next turn of the loop
            self._loop.call_soon(self._hand_over, begin)
            await handshake
        finally:
            handshake.cancel()

    @property
    def agreed_protocol(self) -> str | None:
        """The protocol that client and service agreed on in the handshake (ALPN); None without one."""
        secured = self.extra("ssl_object")
        return None if secured is None else secured.selected_alpn_protocol()

    async def _shake_hands(self, context: ssl.SSLContext, seconds: float) -> None:
        self._transport = await self._loop.start_tls(
            self._transport, self, context, server_side=True, ssl_handshake_timeout=seconds
        )
        self.secured = True

    def _hand_over(self, raw: bytes) -> None:
        """Pass bytes that were read before to the protocol of TLS, as the transport would."""
        protocol = self._transport.get_protocol()
        while raw and protocol is not self:
            buffer = protocol.get_buffer(len(raw))
            count = min(len(buffer), len(raw))
            buffer[:count] = raw[:count]
            protocol.buffer_updated(count)
            raw = raw[count:]

    def close(self, seconds: float) -> None:
        """Send the output, and close the connection. A client that does not read it for `seconds` is cut."""
        self._flush()
        self._transport.close()
        if not self.lost:
            self._loop.call_later(seconds, self._transport.abort)

    def abort(self) -> None:
        """Cut the connection. Output that is not sent is lost."""
        self._output.clear()
        self._output_bytes = 0
        self._transport.abort()

    def _flush(self) -> None:
        if self._output:
            raw = self._output[0] if len(self._output) == 1 else b"".join(self._output)
            self._output.clear()
            self._output_bytes = 0
            self._transport.write(raw)

    def _resume_reading(self) -> None:
        if not self._reading and not self._ended and len(self._input) <= self._wanted + INPUT_BYTES // 2:
            self._reading = True
            self._transport.resume_reading()

    async def _wait(self, end: float) -> None:
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_at(end, _late, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _late(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
