"""The port of PostgreSQL's protocol. The service opens it when it takes calls, and closes it when calls have ended.

accepted ─> `PgConnection` ─> its session ─> calls
   └── too many: refused with 53300, or cut
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psoup.errors import ResourceExhausted
from psoup_service.figures.pg_connections import PgConnections
from psoup_service.gate.addresses import opened_unix_socket
from psoup_service.gate.certificates import POSTGRESQL, Certificates
from psoup_service.gate.client_sockets import BACKLOG, bounded_by_files, opened_socket
from psoup_service.gate.listeners import Listener
from psoup_service.pg.calls import Calls
from psoup_service.pg.cancellation import Cancelling
from psoup_service.pg.channel import Channel
from psoup_service.pg.connection import PgConnection, Surroundings
from psoup_service.pg.contract import Session
from psoup_service.pg.session import PgSession
from psoup_service.pg.startup import Encryption
from psoup_service.pg.statements.catalogue_reads import Catalogues
from psoup_service.pg.versions import CatalogueSource
from psoup_service.process.settings import Settings
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.decoders import Decoders

MOST_CONNECTIONS = 4_096
"""The most connections at once, as for pages. At most a quarter of the files that the process may open."""

REFUSED = 64
"""The most connections above the limit that get an error with the reason. Further ones are cut at once."""


class PgPort:
    """Serves clients of PostgreSQL once started. `address`: its host and port."""

    def __init__(
        self,
        answering: Answering,
        serving: Mapping[str, Any],
        idle_in_transaction_s: float,
        source: CatalogueSource,
    ) -> None:
        """`idle_in_transaction_s`: the longest pause of a client within a transaction. `source`: see `Catalogues`."""
        self._answering = answering
        self._serving = dict(serving)
        self._idle_s = idle_in_transaction_s
        self._most = bounded_by_files(MOST_CONNECTIONS)
        self._encoders = Decoders()
        self._catalogues = Catalogues(source)
        self._servers = list[asyncio.Server]()
        self._path: Path | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._open = set[PgConnection]()
        self._around: Surroundings
        self.figures = PgConnections(self._states)
        self.address = ""

    async def start(self, place: Listener, certificates: Certificates | None, *, needs_certificate: bool) -> None:
        """Listen. `needs_certificate`: clients must show one. Raises InvalidInput if the port cannot be opened."""
        context = None if certificates is None else certificates.context(POSTGRESQL)
        encryption = Encryption(context, needed=place.outside or needs_certificate)
        self._around = Surroundings(
            self._answering, self._serving, encryption, Cancelling(), self._encoders, self._idle_s, self._session
        )
        opened = opened_socket(place, "PostgreSQL's protocol", "--pg-port")
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(self._channel, sock=opened, backlog=BACKLOG))
        host = f"[{place.host}]" if ":" in place.host and not place.host.startswith("[") else place.host
        self.address = f"{host}:{opened.getsockname()[1]}"

    async def start_socket(self, folder: str, mode: int) -> None:
        """Listen on a Unix socket as well, in a directory where clients of PostgreSQL look for it.

        `mode`: the permissions of the socket. Raises InvalidInput if that is impossible.
        """
        path = Path(folder).absolute() / f".s.PGSQL.{self.address.rpartition(':')[2]}"
        opened = opened_unix_socket(str(path), mode, "pg_socket")
        self._path = path
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_unix_server(self._channel, sock=opened, backlog=BACKLOG))

    @property
    def socket_folder(self) -> str:
        """The directory of the Unix socket; "" without one."""
        return "" if self._path is None else str(self._path.parent)

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._tasks)

    def drain(self) -> None:
        """Take no new connections, and end each open one when no statement runs on it."""
        if self._servers:
            for server in self._servers:
                server.close()
            self._servers.clear()
            if self._path is not None:
                self._path.unlink(missing_ok=True)
            for connection in list(self._open):
                connection.drain()

    def close(self) -> None:
        """Cut all connections, and end the threads. Idempotent."""
        self.drain()
        for task in self._tasks:
            task.cancel()
        self._encoders.close()
        self._catalogues.close()

    def _session(self, calls: Calls, connection: PgConnection, parameters: dict[str, str]) -> Session:
        """The session of a client that is let in. `parameters`: of its start-up packet. Raises InvalidInput."""
        return PgSession(calls, parameters, connection, self._catalogues)

    def _channel(self) -> Channel:
        return Channel(self._begin, self._answering.limits.stream_idle_s)

    def _begin(self, channel: Channel) -> None:
        if len(self._tasks) >= self._most + REFUSED:
            self.figures.refuse("limit")
            channel.abort()
            return
        refusal = _too_many(self._most) if len(self._tasks) >= self._most else None
        task = asyncio.get_running_loop().create_task(self._serve(channel, refusal))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _states(self) -> Counter[str]:
        """The number of open connections by state. Any thread may call it."""
        return Counter(connection.state for connection in list(self._open))

    async def _serve(self, channel: Channel, refusal: ResourceExhausted | None) -> None:
        connection = PgConnection(channel, self._around)
        self._open.add(connection)
        try:
            await connection.serve(refusal)
            if connection.refused:
                self.figures.refuse(connection.refused)
        finally:
            self._open.discard(connection)


async def opened_port(
    settings: Settings,
    answering: Answering,
    serving: Mapping[str, Any],
    certificates: Certificates | None,
    source: CatalogueSource,
) -> PgPort | None:
    """The port of the settings; None if it is off. `source`: for catalogues. Raises InvalidInput if it cannot be
    opened.
    """
    place = settings.pg_listener()
    if place is None:
        return None
    port = PgPort(answering, serving, settings.pg_idle_in_transaction_s, source)
    await port.start(place, certificates, needs_certificate=bool(settings.tls_client_ca))
    if settings.pg_socket:
        try:
            await port.start_socket(settings.pg_socket, int(settings.socket_mode, 8))
        except BaseException:
            port.close()
            raise
    return port


def _too_many(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{limit:,} clients are connected to this port, which is the limit; close connections, or try again later",
        reason="TOO_MANY_CONNECTIONS",
        limit=limit,
    )
