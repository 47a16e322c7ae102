"""The addresses of a host name. Threads resolve names, and each address is checked before a connection."""

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
"""Threads that resolve names, for all tenants."""
_OF_TENANT = 4
"""Threads that one tenant may use at once. A thread is in use until its name server replies, also after `RESOLVE_S`.

So the slow name servers of one tenant leave threads to other tenants. Four tenants with slow name servers can take all
threads. Then attempts of all tenants fail by a timeout.
"""
_MOST = 4
"""Addresses of a name that are tried at most."""


class Addresses:
    """Resolves names on threads of its own, so that a slow name server delays no other work than webhooks."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "webhook-names")
        self._free: dict[str, asyncio.Semaphore] = {}

    async def of(self, target: Target, tenant: str) -> list[str]:
        """The addresses of a target, in the order in which to try them. `tenant`: the owner of the webhook.

        Raises TimeoutError after `RESOLVE_S`, and OSError if the name has no address. Raises FailedPrecondition, reason
        WEBHOOK_ADDRESS, if an address is not public.
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
        """End the threads, once their name servers have replied."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def refused(host: str, why: str) -> FailedPrecondition:
    """The error for a host that the service does not send to."""
    return FailedPrecondition(
        f"nothing is sent to {host}: {why}; name the host with its scheme in the setting webhook_hosts to allow it",
        reason="WEBHOOK_ADDRESS",
    )
