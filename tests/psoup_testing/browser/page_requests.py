"""Requests made by hand: those that a page in a browser sends to the gateway, and those that no such page sends.

page = Page(service)
page.call("QueryService/Register", {"statement": "SELECT …"})       its reply, or WebRefusal
page.send("POST", "/api/…", headers={"host": "evil.example"})       its status, headers and body
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from psoup_service.service import Service

CALL = {"content-type": "application/json", "x-psoup": "1"}
"""The headers of a call."""


@dataclass(frozen=True)
class Response:
    """A response; `headers` by their names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class WebRefusal(Exception):
    """A call that was refused: its status, and what was told."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status, response.body)
        self.status, self.told = response.status, response.json


class Page:
    """Sends requests to a gateway, each over a connection of its own. `headers` go with each call."""

    def __init__(self, service: Service | str, *, secured: ssl.SSLContext | None = None, **headers: str) -> None:
        address = service if isinstance(service, str) else _address(service)
        self.place = address.partition("//")[2]
        self.host, _, port = self.place.rpartition(":")
        self.port = int(port)
        self._headers, self._secured = headers, secured

    def opened(self) -> http.client.HTTPConnection:
        """A connection, not connected yet."""
        if self._secured is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=60, context=self._secured)
        return http.client.HTTPConnection(self.host, self.port, timeout=60)

    def send(
        self, method: str, path: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
    ) -> Response:
        """Send one request with just these headers, beside Host and Content-Length."""
        connection = self.opened()
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return Response(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def post(self, call: str, body: bytes | str, headers: dict[str, str] | None = None) -> Response:
        """Send a call as a page sends it; `headers` replace its own, those that are empty are left out."""
        sent = {**CALL, **self._headers, **(headers or {})}
        return self.send("POST", path_of(call), body, {name: value for name, value in sent.items() if value})

    def call(self, name: str, request: dict[str, Any] | None = None) -> Any:
        """The reply of a call; raises WebRefusal."""
        response = self.post(name, json.dumps(request or {}))
        if response.status != 200:
            raise WebRefusal(response)
        return response.json

    @contextmanager
    def events(self, name: str, request: dict[str, Any]) -> Iterator[Events]:
        """The events of a call; it is left at the end."""
        connection = self.opened()
        try:
            connection.request("POST", path_of(name), json.dumps(request), {**CALL, **self._headers})
            yield Events(connection.getresponse())
        finally:
            connection.close()

    @contextmanager
    def raw(self) -> Iterator[socket.socket]:
        """A connection for bytes that no browser sends."""
        with socket.create_connection((self.host, self.port), timeout=60) as opened:
            yield opened

    @contextmanager
    def answered(self, request: bytes) -> Iterator[socket.socket]:
        """A connection whose first request was answered with 200 OK; the reply is not read to its end.

        On a busy machine a connection may be cut before its request has come. Then there is another one.
        """
        for _ in range(100):
            with self.raw() as opened:
                status = b""
                with suppress(OSError):
                    opened.sendall(request)
                    status = opened.recv(15)
                if status:
                    assert status == b"HTTP/1.1 200 OK", status
                    yield opened
                    return
        raise AssertionError("each connection was cut before its first request")


class Events:
    """Reads a stream of events. `response`: its head."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """The events, as (kind, data), to the end of the stream."""
        kind = "message"
        while line := self.response.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)
                kind = "message"


def path_of(call: str) -> str:
    """The path of a call, "Service/Method"."""
    return f"/api/psoup.v1.{call}"


def _address(service: Service) -> str:
    assert service.gateway is not None, "the settings have no web_port"
    return service.gateway.address
