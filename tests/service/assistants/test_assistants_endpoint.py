"""Requests that the endpoint of assistants refuses, and credentials."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from psoup_client import Client, ClientOptions
from psoup_service.assistants.endpoint import MOST_BYTES
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import Serving, serving

_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(url: str, body: bytes, method: str = "POST", **headers: str) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of a reply."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, "/mcp", body, {**_HEADERS, **named})
    reply = connection.getresponse()
    raw = reply.read()
    connection.close()
    if raw.startswith(b"event: message"):  # a reply to a client of the handshake
        raw = raw.partition(b"data: ")[2]
    return reply.status, json.loads(raw) if raw else {}


def tool_call(name: str, **arguments: Any) -> bytes:
    """The body of a call of a tool."""
    params = {"name": name, "arguments": arguments, "_meta": _META}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def called(url: str, name: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
    """The reply of a call of a tool, without a library."""
    headers = {"mcp_protocol_version": _VERSION, "mcp_method": "tools/call", "mcp_name": name}
    return request(url, tool_call(name, **arguments), **headers)


def test_a_call_needs_no_library(url: str) -> None:
    status, reply = called(url, "ask", sql="SELECT sym FROM trades")
    assert status == 200
    assert reply["result"]["structuredContent"]["rows"] == [{"sym": "A"}, {"sym": "B"}]


@pytest.mark.parametrize(
    ("method", "headers", "status", "reason"),
    [
        ("GET", {}, 405, "METHOD"),
        ("DELETE", {}, 405, "METHOD"),
        ("POST", {"content_type": "text/plain"}, 415, "CONTENT_TYPE"),
        ("POST", {"content_length": "-1"}, 400, ""),
        ("POST", {"origin": "http://evil.example"}, 403, "ORIGIN"),
        ("POST", {"host": "evil.example"}, 421, "HOST"),
        ("POST", {"sec_fetch_site": "cross-site"}, 403, "SITE"),
    ],
)
def test_requests_of_foreign_pages_and_of_other_forms_are_refused(
    url: str, method: str, headers: dict[str, str], status: int, reason: str
) -> None:
    if not reason:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.putrequest("POST", "/mcp")
        for name, value in {**_HEADERS, "content-length": "-1"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()
        return
    got, reply = request(url, b"{}", method, **headers)
    facts = reply.get("error", {}).get("data", reply)
    assert (got, facts["reason"]) == (status, reason)


def test_a_request_is_judged_by_its_declared_size(url: str) -> None:
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=60) as client:
        head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        client.sendall(f"{head}content-length: {MOST_BYTES + 1}\r\n\r\n".encode())
        assert client.recv(1_000).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"[]",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"nosuch"}',
        '{"jsonrpc":"2.0","id":1,"method":"é'.encode("latin-1"),
    ],
    ids=["empty", "open", "deep", "batch", "params", "digits", "method", "latin-1"],
)
@pytest.mark.parametrize("version", [None, _VERSION], ids=["handshake", "modern"])
def test_a_malformed_request_gets_an_error_and_the_service_serves_on(
    url: str, body: bytes, version: str | None
) -> None:
    headers = {} if version is None else {"mcp_protocol_version": version}
    status, reply = request(url, body, **headers)
    assert 400 <= status < 500 or "error" in reply
    assert called(url, "list")[0] == 200


def test_a_body_that_is_not_a_request_gets_a_sentence_and_no_dump(url: str) -> None:
    _, reply = request(url, b'{"jsonrpc": "2.0",\n "id": 1 "method": "ping"}')
    assert reply["error"]["code"] == -32700
    assert reply["error"]["message"].startswith("the body is not JSON, at line 2, column 10: ")
    _, reply = request(url, b'{"id": 1}')
    assert (reply["error"]["code"], reply["error"]["message"][:46]) == (
        -32600,
        "the body is not one request of JSON-RPC; write",
    )


def test_too_many_values_are_refused_before_they_are_read(url: str) -> None:
    labels = {f"k{number}": "v" for number in range(1_000)}
    for body in (b"[" + b"1," * 20_000 + b"1]", tool_call("register", key="k", sql="x", labels=labels)):
        status, reply = request(url, body)
        assert (status, reply["error"]["data"]["reason"]) == (429, "TOO_MANY_VALUES")
    listed = ", ".join(["1.5"] * 1_500)
    assert called(url, "ask", sql=f"SELECT sym FROM trades WHERE price IN ({listed})")[0] == 200


def test_calls_are_counted_under_the_name_of_the_protocol(url: str, running: Serving) -> None:
    called(url, "ask", sql="SELECT sym FROM trades")
    labels = {"method": "StatementService/Ask", "code": "OK", "protocol": "mcp"}
    read = running.service._metrics.registry.get_sample_value
    running.wait_until(lambda: (read("psoup_calls_total", labels) or 0) >= 1)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A service with tokens: the address of its endpoint, and the tokens by the names of their owners."""
    store = DurableStore(tmp_path_factory.mktemp("mcp") / "data", reserve_bytes=0)
    with serving(Settings(port=0, web_port=0, mcp=True), store=store) as running:
        with Client(running.address) as client:
            first = client.issue_token("ann", ["owner", "operator"], first=True).secret
        with Client(running.address, options=ClientOptions(token=first)) as owner:
            owner.create_stream("CREATE STREAM trades (n INT)")
            owner.push("trades", [{"n": 1}])
            owner.register("SELECT n FROM trades", key="mine")
            owner.create_tenant("acme")
            tokens = {
                "owner": first,
                "reader": owner.issue_token("rob", ["reader"]).secret,
                "producer": owner.issue_token("pat", ["producer"]).secret,
                "foreign": owner.issue_token("bob", ["owner"], tenant="acme").secret,
            }
            owner.wait_for(owner.last_sequence)
        assert running.service.gateway is not None
        yield f"{running.service.gateway.address}/mcp", tokens


def as_owner_of(url: str, secret: str, name: str, **arguments: Any) -> tuple[list[str], Any]:
    """The tools that the owner of an access token sees, and the result of a call."""

    async def run() -> tuple[list[str], Any]:
        headers = {"authorization": f"Bearer {secret}"}
        async with (
            httpx2.AsyncClient(headers=headers) as web,
            McpClient(streamable_http_client(url, http_client=web)) as client,
        ):
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, await client.call_tool(name, arguments)

    return asyncio.run(run())


def test_roles_decide_which_tools_there_are(guarded: tuple[str, dict[str, str]]) -> None:
    url, tokens = guarded
    names, listed = as_owner_of(url, tokens["owner"], "list")
    assert len(names) == 9
    assert [query["key"] for query in listed.structured_content["queries"]["items"]] == ["mine"]
    names, refused = as_owner_of(url, tokens["reader"], "register", key="x", sql="SELECT n FROM trades")
    assert names == ["list", "describe", "check", "ask", "invoke", "changes", "why"]
    assert refused.is_error
    assert refused.structured_content["error"]["code"] == "PERMISSION_DENIED"
    names, _ = as_owner_of(url, tokens["producer"], "describe", stream="trades")
    assert names == []


def test_another_tenants_token_sees_nothing_of_the_data(guarded: tuple[str, dict[str, str]]) -> None:
    url, tokens = guarded
    _, listed = as_owner_of(url, tokens["foreign"], "list")
    assert listed.structured_content == {"streams": {"items": []}, "queries": {"items": []}}
    _, mine = as_owner_of(url, tokens["owner"], "changes", key="mine")
    token = mine.structured_content["token"]
    _, stolen = as_owner_of(url, tokens["foreign"], "changes", key="mine", token=token)
    assert stolen.structured_content["error"]["code"] == "NOT_FOUND"


def test_a_request_without_a_valid_token_is_refused_before_its_body_is_read(
    guarded: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    url, tokens = guarded
    for authorization in ("", "Bearer wrong", "Basic eDp5", f"Bearer {tokens['owner'][:-1]}"):
        headers = {"authorization": authorization} if authorization else {}
        status, reply = request(url, tool_call("list"), **headers)
        assert (status, reply["error"]["data"]["code"]) == (401, "UNAUTHENTICATED")
