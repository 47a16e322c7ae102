"""Object storage of a test: a server of S3 (moto), behind a proxy that fails when the test says so.

obstore ──> StorageProxy ──one request at a time──> moto
               └─ before: 403, 409, 500, 503, 501, a cut     after: the reply is lost, torn or a 500
"""

from __future__ import annotations

import http.client
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch

CUT, LOST, TORN, UNSURE, PLAIN = "cut", "lost", "torn", "unsure", "plain"
"""Faults: the connection ends before anything is done, after it was done, or within the reply. `UNSURE`: a 500 comes
after it was done. `PLAIN`: the request is done without its condition. A number: the reply has that status, and nothing
is done.
"""
Fault = Callable[[str, str], str]
"""Says of a method and a path how a request fails; "" if it does not."""


class StorageProxy(ThreadingHTTPServer):
    """A proxy in front of the server at `upstream`, "host:port". `fails`: see `Fault`. `done`: the requests."""

    daemon_threads = True
    fails: Fault

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fails = lambda method, path: ""
        self.done: list[tuple[str, str]] = []
        self._upstream = upstream
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, bytes]:
        """The status, headers and content of the server's reply. One at a time: moto's conditions need that."""
        with self._lock:
            self.done.append((method, path))
            connection = http.client.HTTPConnection(self._upstream, timeout=60)
            try:
                connection.request(method, path, body, headers)
                reply = connection.getresponse()
                return reply.status, reply.headers, reply.read()
            finally:
                connection.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has ended a connection, as it may."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each reply would take 40 ms
    server: StorageProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self.server.fails(self.command, self.path)
        if fault == CUT:
            self.close_connection = True
        elif fault.isdigit():
            self._reply(int(fault), {"content-type": "application/xml"}, b"<Error><Code>Test</Code></Error>")
        else:
            passed = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            if fault == PLAIN:
                passed = {name: value for name, value in passed.items() if not name.lower().startswith("if-")}
            status, headers, content = self.server.pass_on(self.command, self.path, passed, body)
            if fault == LOST:
                self.close_connection = True
            elif fault == UNSURE:
                self._reply(500, {}, b"")
            else:
                self._reply(status, headers, content, torn=fault == TORN)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def _reply(self, status: int, headers: Any, content: bytes, *, torn: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        size = headers.get("content-length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("content-length", size)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if torn else content)
        self.close_connection |= torn

    def log_message(self, *values: Any) -> None:
        """Nothing is printed."""


@contextmanager
def object_storage() -> Iterator[StorageProxy]:
    """A server with the bucket `bucket`, and its proxy. The environment leads clients to the proxy."""
    from moto.server import ThreadedMotoServer  # takes a second
    from werkzeug.serving import WSGIRequestHandler

    WSGIRequestHandler.disable_nagle_algorithm = True
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    with urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")):
        pass
    proxy = StorageProxy(f"{host}:{port}")
    thread = threading.Thread(target=proxy.serve_forever, args=(0.01,), name="storage-proxy")
    thread.start()
    settings = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1", "ALLOW_HTTP": "true"}
    environ = {f"AWS_{name}": value for name, value in (settings | {"ENDPOINT_URL": proxy.url}).items()}
    try:
        with patch.dict("os.environ", environ):
            yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
        moto.stop()
