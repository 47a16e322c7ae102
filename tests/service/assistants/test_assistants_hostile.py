"""Clients that leave, stall, or ask too much at once, and a service that ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from psoup.errors import InvalidInput
from psoup_client import Client
from psoup_service.assistants import tools
from psoup_service.process.settings import Settings
from psoup_service.servicers.statements import StatementServicer
from psoup_service.web import assistant_gateway
from psoup_testing.services.threaded_service import Serving, serving

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_STREAM = {"name": "answer_changed", "arguments": {"key": "all"}, "_meta": _META}
_HEAD = (
    "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\n"
    "accept: application/json, text/event-stream\r\nmcp-method: events/stream\r\n"
)


@contextmanager
def watched(**settings: Any) -> Iterator[tuple[Serving, Client, str, int]]:
    """A service with a query of all notes: itself, a client of it, and the host and port of the endpoint."""
    with serving(Settings(port=0, web_port=0, mcp=True, **settings)) as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM notes (t TEXT)")
        client.register("SELECT t FROM notes", key="all")
        client.wait_for(client.last_sequence)
        assert running.service.gateway is not None
        place = urlsplit(running.service.gateway.address)
        assert place.hostname is not None
        assert place.port is not None
        yield running, client, place.hostname, place.port


def opened(host: str, port: int, *, receive_bytes: int = 0) -> socket.socket:
    """A connection with a stream of events, whose first notification is read."""
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(60)
    client.connect((host, port))
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "events/stream", "params": _STREAM}).encode()
    client.sendall(f"{_HEAD}content-length: {len(body)}\r\n\r\n".encode() + body)
    seen = b""
    while b"notifications/events/active" not in seen:
        part = client.recv(1_000)
        assert part, seen
        seen += part
    return client


def test_a_stream_ends_with_its_connection_and_its_place_is_free() -> None:
    with watched(watchers=1) as (running, _, host, port):
        under_way = running.service._answering.calls.under_way
        for _ in range(3):
            with opened(host, port):
                running.wait_until(lambda: under_way.watching == 1)
            running.wait_until(lambda: under_way.watching == 0)
            running.wait_until(lambda: under_way.open == 0)


def test_a_service_that_ends_lets_a_stream_go_on_elsewhere() -> None:
    with watched() as (running, _, host, port), opened(host, port) as client:
        running.wait_until(lambda: running.service._answering.calls.under_way.watching == 1)
        running.stop()
        rest = b""
        while part := client.recv(10_000):
            rest += part
        assert b"terminated" not in rest
        assert b'"resultType":"complete"' in rest


def test_a_body_that_stalls_is_refused_with_the_status_of_other_requests() -> None:
    with watched(receive_s=0.2) as (_, _, host, port), socket.create_connection((host, port), 60) as client:
        client.sendall(f"{_HEAD}content-length: 10\r\n\r\n{{".encode())
        reply = client.recv(10_000)
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b"RECEIVE_DEADLINE" in reply + client.recv(10_000)


@pytest.mark.long
def test_a_client_that_does_not_read_is_cut_and_the_service_serves_on() -> None:
    with (
        watched(stream_idle_s=0.5) as (running, client, host, port),
        opened(host, port, receive_bytes=2_048),
    ):
        assert running.service.gateway is not None
        gateway = running.service.gateway
        for _ in range(2_000):
            client.push("notes", [{"t": "x" * 900} for _ in range(20)])
            if not gateway.connections:
                break
        running.wait_until(lambda: gateway.connections == 0)
        running.wait_until(lambda: running.service._answering.calls.under_way.watching == 0)
        assert len(client.ask("SELECT count(*) FROM notes")) == 1


def test_a_service_without_the_package_says_which_one_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'mcp'", name="mcp.server")

    monkeypatch.setattr(assistant_gateway, "import_module", missing)
    with pytest.raises(InvalidInput, match=r"pip install 'psoup\[server,mcp\]'"), watched():
        pass


def called(host: str, port: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The reply to a call of a tool."""
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    params = {"name": tool, "arguments": arguments, "_meta": _META}
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request(
        "POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}), headers
    )
    reply: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return reply


def test_an_answer_of_too_many_rows_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    endless, places = asyncio.Event(), list[Any]()

    async def whole(servicer: StatementServicer, request: Any, caller: Any) -> Any:
        reply = await at_once(servicer, request, caller)
        (answering,) = places
        monkeypatch.setattr(answering, "limits", replace(answering.limits, default_deadline_s=0.1))
        return reply

    async def slow(servicer: StatementServicer, request: Any, caller: Any) -> AsyncIterator[Any]:
        async for reply in pieces(servicer, request, caller):
            yield reply
            await endless.wait()

    at_once, pieces = StatementServicer.Ask, StatementServicer.AskStream
    monkeypatch.setattr(StatementServicer, "Ask", whole)
    monkeypatch.setattr(StatementServicer, "AskStream", slow)
    with watched() as (running, client, host, port):
        places.append(running.service._answering)
        client.push("notes", [{"t": "x" * 1_000} for _ in range(2_000)])
        client.wait_for(client.last_sequence)
        reply = called(host, port, "ask", {"sql": "SELECT t FROM notes"})
        error = reply["result"]["structuredContent"]["error"]
        assert error["reason"] == "DEADLINE_EXCEEDED"
        assert "add LIMIT" in error["message"]
        running.wait_until(lambda: running.service._answering.calls.under_way.open == 0)


def test_a_defect_of_a_tool_is_an_error_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(calls: object, given: object) -> None:
        raise ZeroDivisionError

    with watched() as (running, _, host, port):
        monkeypatch.setitem(tools.BY_NAME, "list", replace(tools.BY_NAME["list"], run=failing))
        reply = called(host, port, "list", {})
        assert reply["error"] == {"code": -32603, "message": "the request failed by a defect (ZeroDivisionError)"}
        assert running.service.host.state == "serving"
