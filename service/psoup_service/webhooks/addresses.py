"""The addresses of a host name: resolved on threads of their own, and checked before a connection."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from psoup.errors import FailedPrecondition
from psoup_service.gate.targets import Target, is_public

RESOLVE_S = 5.0
"""Seconds in which a name must be resolved."""
_THREADS = 8
_MOST = 4
"""The most addresses of a name that are tried."""


class Addresses:
    """Resolves names. A name server that does not reply holds its threads, and no other thread of the service."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "webhook-names")

    async def of(self, target: Target) -> list[str]:
        """The addresses of a target, in the order in which to try them.

        Raises OSError if there is none. Raises FailedPrecondition, reason WEBHOOK_ADDRESS, if one is not public.
        """
        host, port = target.origin.host, target.origin.port
        resolved = asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        async with asyncio.timeout(RESOLVE_S):
            infos = await resolved
        addresses = [*dict.fromkeys(str(info[4][0]) for info in infos)][:_MOST]
        for address in addresses:
            if not target.trusted and not is_public(address):
                raise refused(host, f"it has the address {address}, which is not public")
        return addresses

    def close(self) -> None:
        """End the threads that are idle."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def refused(host: str, why: str) -> FailedPrecondition:
    """The error for a host that the service does not send to."""
    return FailedPrecondition(
        f"nothing is sent to {host}: {why}; name the host with its scheme in the setting webhook_hosts to allow it",
        reason="WEBHOOK_ADDRESS",
    )
