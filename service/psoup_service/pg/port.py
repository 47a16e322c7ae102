"""The port of PostgreSQL's protocol: it is opened when the service takes calls, and closed when calls have ended.

accepted ─> `PgConnection` ─> its session ─> calls
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from psoup.errors import InvalidInput
from psoup_service.gate.certificates import Certificates
from psoup_service.gate.listeners import Listener
from psoup_service.pg.calls import Calls
from psoup_service.pg.channel import Channel
from psoup_service.pg.connection import PgConnection
from psoup_service.pg.session import PgSession
from psoup_service.process.settings import Settings
from psoup_service.wire.call_steps import Answering

_BACKLOG = 256


class PgPort:
    """Serves clients of PostgreSQL once started. `address`: its host and port."""

    def __init__(self, answering: Answering, serving: Mapping[str, Any]) -> None:
        self._answering = answering
        self._serving = serving
        self._server: asyncio.Server | None = None
        self._open = set[asyncio.Task[Any]]()
        self.address = ""

    async def start(self, place: Listener, certificates: Certificates | None) -> None:
        """Listen. Raises InvalidInput if the port cannot be opened."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: Channel(self._begin, self._answering.limits.stream_idle_s),
                place.host.strip("[]"),
                place.port,
                backlog=_BACKLOG,
            )
        except OSError as problem:
            raise InvalidInput(
                f"{place.host}:{place.port} cannot be listened on for PostgreSQL's protocol ({problem.strerror});"
                " choose another --pg-port, 0 for a free one, or -1 for none",
                reason="ADDRESS_IN_USE",
            ) from problem
        self.address = f"{place.host}:{self._server.sockets[0].getsockname()[1]}"

    def drain(self) -> None:
        """Take no connections any more."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Cut all connections. Idempotent."""
        self.drain()
        for task in self._open:
            task.cancel()

    def _begin(self, channel: Channel) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(channel))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, channel: Channel) -> None:
        await PgConnection(channel, self._answering, self._session).serve()

    def _session(self, connection: PgConnection, options: dict[str, str]) -> PgSession:
        return PgSession(Calls(self._answering, self._serving, connection), options)


async def opened_port(
    settings: Settings, answering: Answering, serving: Mapping[str, Any], certificates: Certificates | None
) -> PgPort | None:
    """The port of the settings; None if it is off. Raises InvalidInput if it cannot be opened."""
    place = settings.pg_listener()
    if place is None:
        return None
    port = PgPort(answering, serving)
    await port.start(place, certificates)
    return port
