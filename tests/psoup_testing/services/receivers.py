"""A receiver of webhooks on a free port of loopback, with replies by script.

with Receiver() as receiver:
    receiver.script.append(replies(500))        the next request gets this reply, later ones 204
    client.add_webhook("hot", receiver.url)
    receiver.wait(2)                            all requests, once there are two
"""

from __future__ import annotations

import json
import secrets
import socket
import socketserver
import ssl
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from standardwebhooks import Webhook

PATIENCE = 60.0
Reply = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Received:
    """A request: its path, its headers in lower case, and its body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data

    def verify(self, secret: str) -> None:
        """Check the signature. Raises WebhookVerificationError."""
        Webhook(secret).verify(self.body, self.headers)


def replies(status: int, head: str = "Content-Length: 0", body: bytes = b"") -> Reply:
    """A reply with a status, lines of the head and a body, after which the connection is closed."""
    return lambda connection: connection.sendall(f"HTTP/1.1 {status} X\r\n{head}\r\n\r\n".encode() + body)


def closes(connection: socket.socket) -> None:
    """A receiver that ends the connection without a reply."""


class Receiver:
    """The receiver. `taken`: the requests that were answered with a status from 200 to 299, in order."""

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.requests = list[Received]()
        self.script = deque[Reply]()
        self._news = threading.Condition()
        self._path = ""
        receiver = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = [line.decode().rstrip() for line in iter(self.rfile.readline, b"\r\n") if line]
                if not head:
                    return
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = self.rfile.read(int(headers.get("content-length", 0)))
                receiver._note(Received(head[0].split()[1], headers, body), self.connection)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

            def finish_request(self, request: Any, client_address: Any) -> None:
                if tls is not None:
                    with suppress(OSError), tls.wrap_socket(request, server_side=True) as wrapped:
                        super().finish_request(wrapped, client_address)
                    return
                super().finish_request(request, client_address)

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.origin}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def begin(self) -> str:
        """Forget all requests. Returns a new URL; requests to earlier ones, which may be under way, count no more."""
        with self._news:
            self.requests = []
            self.script.clear()
            self._path = f"/hook/{secrets.token_hex(8)}"
            return self.origin + self._path

    def _note(self, request: Received, connection: socket.socket) -> None:
        with self._news:
            if self._path and request.path != self._path:
                connection.sendall(b"HTTP/1.1 204 X\r\n\r\n")
                return
            reply = self.script.popleft() if self.script else replies(204, "X-Y: z")
            self.requests.append(request)
            self._news.notify_all()
        reply(connection)

    def wait(self, count: int) -> list[Received]:
        """All requests, once there are at least `count`."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.requests) >= count, PATIENCE), len(self.requests)
            return list(self.requests)

    def until(self, wanted: Callable[[list[Received]], bool]) -> list[Received]:
        """All requests, once they are as wanted."""
        with self._news:
            assert self._news.wait_for(lambda: wanted(self.requests), PATIENCE), [r.body for r in self.requests]
            return list(self.requests)


def row_text(row: dict[str, Any]) -> str:
    """A row as text."""
    return json.dumps(row, sort_keys=True)


def folded(requests: list[Received]) -> Counter[str]:
    """The rows that a receiver has after some deliveries, each taken once. Rows that left must have been there."""
    rows, seen = Counter[str](), set[str]()
    for request in requests:
        if request.id in seen or json.loads(request.body)["type"] != "answer.changed":
            continue
        seen.add(request.id)
        data = request.data
        came, left = (Counter(map(row_text, data[name])) for name in ("came", "left"))
        if data["reset"]:
            rows = came
        else:
            assert left <= rows, "a row left that was not there"
            rows = rows - left + came
    return rows
