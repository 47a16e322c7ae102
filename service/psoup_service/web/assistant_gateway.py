"""Requests of assistants at /mcp, handed from the page's port to the endpoint.

/mcp ─> connection, credential ─> `psoup_service.assistants.endpoint`, which is imported only if it is on
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from psoup_service.gate.listeners import is_loopback
from psoup_service.process.extras import missing_mcp
from psoup_service.process.settings import Settings
from psoup_service.web.connections import connection_of
from psoup_service.wire.call_steps import Answering

if TYPE_CHECKING:
    from psoup_service.assistants.endpoint import Endpoint

ASSISTANTS = "/mcp"
"""The path of requests of assistants."""

_ENDPOINT = "psoup_service.assistants.endpoint"
_BEARER = "bearer "


class AssistantGateway:
    """Hands requests to the endpoint. A request ends with its connection."""

    def __init__(self, endpoint: Endpoint, idle_s: float) -> None:
        """`idle_s`: the seconds after which the connection of a client that does not read its reply is cut."""
        self._endpoint = endpoint
        self._idle_s = idle_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        from psoup_service.assistants.calls import Assistant

        connection = connection_of(scope)
        client = Assistant(
            f"mcp:{connection.peer.partition(':')[2]}",
            is_loopback(connection.address),
            _token(Headers(scope=scope)),
            connection.names,
            connection.ends,
        )

        async def moving(message: Message) -> None:
            try:
                async with asyncio.timeout(self._idle_s):
                    await send(message)
            except TimeoutError:  # the client does not read
                connection.abort()
                await asyncio.Event().wait()  # the end of the connection cancels the request

        with connection.calling():
            await self._endpoint.serve(client, scope, receive, moving)

    def close(self) -> None:
        """End all requests. Idempotent."""
        self._endpoint.close()


async def opened_assistants(
    settings: Settings, answering: Answering, serving: Mapping[str, Any]
) -> AssistantGateway | None:
    """Open the endpoint if the setting `mcp` is on, else return None. Raises InvalidInput without the package mcp."""
    if not settings.mcp:
        return None
    try:
        await asyncio.to_thread(import_module, _ENDPOINT)  # 0.5 s, not on the loop
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise missing_mcp() from None
    from psoup_service.assistants.calls import Bounds
    from psoup_service.assistants.endpoint import Endpoint

    endpoint = Endpoint(answering, serving, Bounds(settings.mcp_rows, settings.mcp_kib * 1024))
    await endpoint.start()
    return AssistantGateway(endpoint, answering.limits.stream_idle_s)


def _token(headers: Headers) -> str:
    """The access token of a request; "" without one, or with several."""
    given = headers.getlist("authorization")
    text = given[0] if len(given) == 1 else ""
    return text[len(_BEARER) :].strip() if text.lower().startswith(_BEARER) else text
