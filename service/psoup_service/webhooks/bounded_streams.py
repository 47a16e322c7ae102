"""The connection to a receiver, which reads a bounded number of bytes in small parts.

The HTTP client takes any number of interim replies (100 Continue) before a status. It would read 64 KiB of them at
once, and block the event loop while it parses them.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpcore

MOST_READ = 96 * 1024
"""Bytes that are read from a receiver at most."""
_AT_ONCE = 4_096
"""Bytes that are read at once."""


class BoundedStream(httpcore.AsyncNetworkStream):
    """A connection that fails after `MOST_READ` bytes of a reply."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._room = MOST_READ

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some bytes. Raises ReadError if the reply is too long."""
        if self._room <= 0:
            raise httpcore.ReadError(f"the reply is longer than {MOST_READ:,} bytes")
        raw = await self._stream.read(min(max_bytes, _AT_ONCE), timeout)
        self._room -= len(raw)
        return raw

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Begin TLS. The bound holds for the decrypted bytes."""
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """A fact about the connection."""
        return self._stream.get_extra_info(info)
