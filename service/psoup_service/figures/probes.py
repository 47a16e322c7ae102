"""Probes over HTTP, on a port and threads of their own: metrics, and whether the service lives and is ready.

    GET /metrics    Prometheus text
    GET /healthz    200 while the process does its work, 503 once it has failed: restart it
    GET /readyz     200 while it takes calls, 503 while it starts, drains or has failed: send clients elsewhere

The answers are those of gRPC's health service. The body is the state as a word, and the reason of a failure. While the
service serves, the body also has notices: a full disk, background tasks that keep failing, a clock that was set.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from psoup.errors import InvalidInput
from psoup_service.figures.metrics import Metrics

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MOST = 64
"""The most connections at once. Each holds a thread until its client has asked."""
_POLL_S = 0.05
"""The most seconds until the server notices that it is to end."""

State = Callable[[], tuple[str, str]]
"""Returns the host's state, and the reason of its failure or the notices for the operator. Called on a thread of the
HTTP server."""


class Probes:
    """An HTTP server of the probes.

    `port`: the port to listen on; if it is 0, a free one. Raises OSError if it cannot listen.
    """

    def __init__(self, metrics: Metrics, state: State, host: str, port: int) -> None:
        self._metrics = make_wsgi_app(metrics.registry)
        self._state = state
        self._server = make_server(host, port, self._reply, _Server6 if ":" in host else _Server, _Handler)
        self.port: int = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, args=(_POLL_S,), name="psoup-probes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and end the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _reply(self, request: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = request["PATH_INFO"]
        if path == "/metrics":
            return self._metrics(request, start)
        state, failure = self._state()
        if path == "/healthz":
            good = state != "failed"
        elif path == "/readyz":
            good = state == "serving"
        else:
            return _text(start, "404 Not Found", "here are /metrics, /healthz and /readyz")
        return _text(
            start, "200 OK" if good else "503 Service Unavailable", f"{state}: {failure}" if failure else state
        )


def opened_probes(metrics: Metrics, state: State, host: str, port: int) -> Probes:
    """The server of the probes. Raises InvalidInput, reason ADDRESS_IN_USE, if it cannot listen."""
    try:
        return Probes(metrics, state, host, port)
    except OSError as problem:
        raise InvalidInput(
            f"{host}:{port} cannot be listened on for /metrics ({problem.strerror}); choose another --metrics-port, 0"
            " for a free one, or -1 for none",
            reason="ADDRESS_IN_USE",
        ) from problem


class _Server(ThreadingWSGIServer):
    """A server with a thread for each request, so that a slow scrape does not delay a probe. Connections beyond `MOST`
    are closed.
    """

    daemon_threads = True
    request_queue_size = 2 * MOST

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._free = BoundedSemaphore(MOST)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread of its own, unless `MOST` requests are being answered."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give back the place among the `MOST`."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Server6(_Server):
    """The server on an IPv6 address."""

    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    """Gives up on a client that sends nothing, and logs no requests."""

    timeout = 10.0

    def log_message(self, format: str, *arguments: object) -> None:
        """Do nothing: the log has only what is out of the ordinary."""


def _text(start: StartResponse, status: str, text: str) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [f"{text}\n".encode()]
