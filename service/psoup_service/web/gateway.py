"""The gateway: a second port, for pages, with the event loop and the gate that gRPC uses.

    connection ─> guard ─┬─ /api/psoup.v1.<Service>/<Method>   a call
                         ├─ /api/streams/<name>/rows …         rows, in and out (`row_paths`)
                         ├─ /follow                            matches of a stream, as an event stream
                         ├─ /mcp                               tools for assistants, if they are on
                         ├─ /healthz                           whether the service serves
                         └─ /…                                 a file of the page

It is opened when the service takes calls, and closed when calls have ended.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from psoup.errors import InvalidInput, PSoupError
from psoup_service.gate.certificates import HTTP, Certificates
from psoup_service.gate.client_sockets import BACKLOG, opened_socket
from psoup_service.gate.listeners import TLS, Listener
from psoup_service.process.settings import Settings
from psoup_service.web.assistant_gateway import ASSISTANTS, AssistantGateway, opened_assistants
from psoup_service.web.calls import DESCRIPTION_BYTES, WebCalls, defect, refused
from psoup_service.web.connections import HEAD_BYTES, IDLE_S, PageConnection, most_connections
from psoup_service.web.follow_events import METHOD, FollowEvents
from psoup_service.web.foreign_pages import FOREIGN, ForeignPages, is_preflight, preflight
from psoup_service.web.guard import CALLS, EVENTS, HEADERS, RequestGuard, check_head
from psoup_service.web.methods import methods_of
from psoup_service.web.pages import Site
from psoup_service.web.row_answers import RowAnswers
from psoup_service.web.row_paths import OPENAPI, rows_path
from psoup_service.web.row_requests import RowRequests
from psoup_service.wire.call_steps import Answering

_log = logging.getLogger(__name__)


class Gateway:
    """Serves pages once started. `address`: its URL. `state`: returns the state of the host."""

    def __init__(
        self,
        calls: WebCalls,
        serving: Mapping[str, Any],
        hosts: Iterable[str],
        state: Callable[[], str],
        assistants: AssistantGateway | None = None,
        origins: Iterable[str] = (),
    ) -> None:
        self._calls = calls
        self._assistants = assistants
        self._row_requests = RowRequests(calls, serving["psoup.v1.IngestService"])
        self._row_answers = RowAnswers(calls, serving)
        self._guard = RequestGuard(hosts)
        self._foreign = ForeignPages(origins)
        self._site = Site()
        self._description: bytes | None = None
        self._state = state
        self._connections = ServerState()
        self._server: asyncio.Server | None = None
        self.address = ""

    async def start(self, place: Listener, certificates: Certificates | None, head_s: float) -> None:
        """Listen. `head_s`: seconds for a handshake, and for the head of a request. Raises InvalidInput."""
        config = Config(
            self._app(),
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=IDLE_S,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        config.load()
        opened, limit = opened_socket(place, "the page", "--web-port"), most_connections()
        secured: ssl.SSLContext | None = None
        if place.tls:
            assert certificates is not None, "settings without a certificate have no listener with TLS"
            secured = certificates.context(HTTP)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: PageConnection(config, self._connections, head_s, limit),
            sock=opened,
            ssl=secured,
            ssl_handshake_timeout=head_s if secured else None,
            backlog=BACKLOG,
        )
        port = opened.getsockname()[1]
        host = f"[{place.host}]" if ":" in place.host and not place.host.startswith("[") else place.host
        self.address = f"{TLS if place.tls else 'http://'}{host}:{port}"

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._connections.connections)

    def drain(self) -> None:
        """Take no connections any more, and end those without a call."""
        if self._server is not None:
            self._server.close()
            for connection in list(self._connections.connections):
                connection.shutdown()

    def close(self) -> None:
        """Cut all connections, and end the threads. Idempotent."""
        self.drain()
        for connection in list(self._connections.connections):
            connection.transport.abort()
        self._server = None
        self._calls.close()
        if self._assistants is not None:
            self._assistants.close()

    def _app(self) -> ASGIApp:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            called = scope["path"].startswith(CALLS) or scope["path"] == EVENTS
            origin = self._foreign.origin(scope["scheme"], Headers(scope=scope)) if called else ""

            async def guarded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = MutableHeaders(scope=message)
                    headers.update(HEADERS)
                    if called:
                        self._foreign.add_headers(origin, headers)
                await send(message)

            scope[FOREIGN] = bool(origin)
            try:
                await self._serve(scope, receive, guarded)
            except PSoupError as problem:
                await refused(problem)(scope, receive, guarded)
            except Exception as problem:
                await defect(problem)(scope, receive, guarded)

        return app

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path, headers = scope["method"], scope["path"], Headers(scope=scope)
        check_head(scope, HEAD_BYTES)
        if scope[FOREIGN]:
            if is_preflight(method, headers):
                self._guard.check_host(headers)
                await preflight()(scope, receive, send)
                return
            self._foreign.check_token(headers, self._calls.answering.calls.is_open)
        self._guard.check(method, path, scope["scheme"], headers, foreign=scope[FOREIGN])
        if path.startswith(CALLS):
            await self._called(scope, receive, send)
            return
        if path == EVENTS:
            method_of_events = self._calls.method(METHOD)
            assert method_of_events is not None, "the list of methods has it"
            events = FollowEvents(self._calls, method_of_events, scope, receive, send)
            await self._calls.serve(method_of_events, events, scope)
            return
        if path == ASSISTANTS and self._assistants is not None:
            await self._assistants(scope, receive, send)
            return
        response = self._health() if path == "/healthz" else self._site.response(method, path, headers)
        await response(scope, receive, send)

    async def _called(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == OPENAPI:
            await (await self._described())(scope, receive, send)
            return
        rows = rows_path(scope["raw_path"].decode("ascii", "replace"))
        if rows is None:
            await self._calls(scope, receive, send)
        elif rows.kind == "streams":
            await self._row_requests(rows.name, scope, receive, send)
        else:
            await self._row_answers(rows, scope, receive, send)

    async def _described(self) -> Response:
        """The description of the calls. It is made at the first request, on a thread."""
        if self._description is None:
            self._description = await self._calls.decoders.run("", DESCRIPTION_BYTES, self._calls.described)
        return Response(self._description, media_type="application/json", headers={"cache-control": "no-cache"})

    def _health(self) -> Response:
        state = self._state()
        return PlainTextResponse(f"{state}\n", 503 if state == "failed" else 200, {"cache-control": "no-store"})


async def opened_gateway(
    settings: Settings,
    answering: Answering,
    serving: Mapping[str, Any],
    certificates: Certificates | None,
    state: Callable[[], str],
) -> Gateway | None:
    """Open the gateway if the settings have one, else return None. `serving`: the servicer of each service.

    If another program has the default port, the gateway is left out, with a message in the log. Raises InvalidInput if
    a port of the settings, or the port of assistants, cannot be opened.
    """
    place = settings.web_listener()
    if place is None:
        return None
    methods = {
        path: method for name, servicer in serving.items() for path, method in methods_of(name, servicer).items()
    }
    calls = WebCalls(answering, methods)
    assistants = await opened_assistants(settings, answering, serving)
    hosts = (*settings.web_hosts, settings.host)
    gateway = Gateway(calls, serving, hosts, state, assistants, settings.web_origins)
    try:
        await gateway.start(place, certificates, answering.limits.handshake_s)
    except InvalidInput as problem:
        gateway.close()
        if settings.web_port is not None or settings.mcp:
            raise
        _log.warning("there is no page", extra={"problem": problem.message})
        return None
    return gateway
