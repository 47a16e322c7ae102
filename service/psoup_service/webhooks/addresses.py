"""The addresses of a host name: resolved on threads of their own, and checked before a connection."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from psoup.errors import FailedPrecondition
from psoup_service.gate.targets import Target, is_public

RESOLVE_S = 5.0
"""Seconds in which a name must be resolved."""
_THREADS = 16
_OF_TENANT = 4
"""The most threads of a tenant, so that slow names do not take all threads. A thread is in use until its name server
replies, also after `RESOLVE_S`.
"""
_MOST = 4
"""The most addresses of a name that are tried."""


class Addresses:
    """Resolves names. A name server that does not reply holds its threads, and no other thread of the service."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "webhook-names")
        self._free: dict[str, asyncio.Semaphore] = {}

    async def of(self, target: Target, tenant: str) -> list[str]:
        """The addresses of a target, in the order in which to try them. `tenant`: the owner of the webhook.

        Raises TimeoutError after `RESOLVE_S`, and OSError if there is none. Raises FailedPrecondition, reason
        WEBHOOK_ADDRESS, if one is not public.
        """
        host = target.origin.host
        async with asyncio.timeout(RESOLVE_S):
            infos = await self._resolved(host, target.origin.port, tenant)
        addresses = [*dict.fromkeys(str(info[4][0]) for info in infos)][:_MOST]
        for address in addresses:
            if not target.trusted and not is_public(address):
                raise refused(host, f"it has the address {address}, which is not public")
        return addresses

    async def _resolved(self, host: str, port: int, tenant: str) -> list[Any]:
        free, loop = self._free.setdefault(tenant, asyncio.Semaphore(_OF_TENANT)), asyncio.get_running_loop()
        await free.acquire()

        def done(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(free.release)

        looked_up = self._pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        looked_up.add_done_callback(done)
        return await asyncio.wrap_future(looked_up)

    def close(self) -> None:
        """End the threads that are idle."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def refused(host: str, why: str) -> FailedPrecondition:
    """The error for a host that the service does not send to."""
    return FailedPrecondition(
        f"nothing is sent to {host}: {why}; name the host with its scheme in the setting webhook_hosts to allow it",
        reason="WEBHOOK_ADDRESS",
    )
