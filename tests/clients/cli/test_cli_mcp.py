"""psoup mcp: assistants on standard input reach the tools of a service."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import types
from mcp.client.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_cli.assistant_bridge import Endpoint, Requests
from psoup_cli.commands.service.mcp import _endpoint
from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.authority import Authority
from psoup_testing.services.threaded_service import Serving, serving

_COMMAND = [sys.executable, "-m", "psoup_cli.main", "mcp"]


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    """A service with tools for assistants, and a stream of one tuple."""
    with serving(Settings(port=0, web_port=0, mcp=True)) as served:
        with Client(served.address, timeout=60) as client:
            client.create_stream("CREATE STREAM trades (sym TEXT)")
            client.push("trades", [{"sym": "A"}])
            client.wait_for(client.last_sequence)
        yield served


def carried(url: str, *lines: dict[str, Any] | Exception, headers: Any = dict) -> list[dict[str, Any]]:
    """The replies to some messages, in the order in which they come."""
    replies = list[dict[str, Any]]()

    async def write(message: types.JSONRPCMessage) -> None:
        replies.append(message.model_dump(by_alias=True, exclude_unset=True))

    async def run() -> None:
        async with httpx2.AsyncClient(trust_env=False) as web:
            requests = Requests(Endpoint(web, url, headers), write)
            for line in lines:
                if isinstance(line, Exception):
                    await requests.take(line)
                else:
                    message = types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **line})
                    await requests.take(SessionMessage(message))
            await requests.end()

    asyncio.run(run())
    return replies


def test_a_request_is_carried_to_the_endpoint_and_its_reply_back(running: Serving) -> None:
    assert running.service.gateway is not None
    url = f"{running.service.gateway.address}/mcp"
    question = {"name": "ask", "arguments": {"sql": "SELECT sym FROM trades"}}
    replies = carried(
        url,
        {"id": 7, "method": "tools/call", "params": question},
        {"method": "notifications/initialized"},
        {"method": "notifications/cancelled", "params": {"requestId": 99}},
        ValueError("not JSON"),
        {"id": "x", "method": "nosuch"},
    )
    by_id = {reply.get("id"): reply for reply in replies}
    assert by_id[7]["result"]["structuredContent"]["rows"] == [{"sym": "A"}]
    assert by_id["x"]["error"]["code"] == types.METHOD_NOT_FOUND
    assert by_id[None]["error"]["code"] == types.PARSE_ERROR
    assert len(replies) == 3


def test_a_service_that_does_not_answer_is_an_error_of_the_request() -> None:
    [reply] = carried("http://127.0.0.1:1/mcp", {"id": 1, "method": "tools/list"})
    assert reply["error"]["message"].startswith("the service does not answer: ")


def test_a_defect_is_an_error_of_the_request() -> None:
    def headers() -> dict[str, str]:
        raise KeyError("token")

    [reply] = carried("http://127.0.0.1:1/mcp", {"id": 1, "method": "tools/list"}, headers=headers)
    assert (reply["id"], reply["error"]["code"]) == (1, types.INTERNAL_ERROR)
    assert reply["error"]["message"] == "psoup mcp could not carry the request: KeyError('token')"


def test_too_many_requests_and_an_id_in_use_are_refused_at_once() -> None:
    """A request that waited for a place would keep a cancellation behind it from being read."""
    replies, ended = list[Any](), list[object]()

    class Silent(Endpoint):
        async def replies(self, request: types.JSONRPCRequest) -> AsyncIterator[types.JSONRPCMessage]:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(request.id)
            yield types.JSONRPCNotification(jsonrpc="2.0", method="never")

    async def write(message: Any) -> None:
        replies.append((message.id, message.error.code, message.error.message))

    async def run() -> None:
        async with httpx2.AsyncClient(trust_env=False) as web:
            requests = Requests(Silent(web, "http://127.0.0.1:1/mcp", dict), write)

            async def take(**line: Any) -> None:
                message = types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **line})
                await asyncio.wait_for(requests.take(SessionMessage(message)), 30)
                await asyncio.sleep(0)

            for number in range(65):
                await take(id=number, method="ping")
            await take(id=0, method="ping")
            assert replies == [
                (64, types.INTERNAL_ERROR, "64 requests have no reply yet; ask again after one of them has"),
                (0, types.INVALID_REQUEST, "the ID 0 belongs to a request without a reply; use another"),
            ]
            await take(method="notifications/cancelled", params={"requestId": 0})
            while not ended:
                await asyncio.sleep(0)
            await take(id=65, method="ping")
            assert ended == [0] and len(replies) == 2
            for number in range(1, 66):
                await take(method="notifications/cancelled", params={"requestId": number})
            await requests.end()

    asyncio.run(run())
    assert len(ended) == 65


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://[::1/mcp", "is not a URL"),
        ("http://h:99999/mcp", "is not a URL"),
        ("http://h:x/mcp", "is not a URL"),
        ("ftp://h/mcp", "is not a URL"),
        ("http://user@h/mcp", "is not a URL"),
        ("http://\u00e9..x/mcp", "is not a URL"),
    ],
)
def test_a_url_that_is_not_one_is_named(url: str, words: str) -> None:
    result = CliRunner().invoke(app, ["mcp", "--url", url])
    assert result.exit_code == 2 and words in result.stderr, result.output


def test_the_host_of_ipv6_keeps_its_brackets() -> None:
    assert _endpoint(None, "http://[::1]:7434/mcp", None) == ("http://[::1]:7434/mcp", "[::1]:7434")
    assert _endpoint(None, "https://[2001:db8::1]/mcp", None)[1] == "https://[2001:db8::1]:443"
    assert _endpoint(None, "https://psoup.example/mcp", None)[1] == "https://psoup.example:443"


@pytest.mark.long
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_starts_the_command(running: Serving, mode: str) -> None:
    async def asked() -> Any:
        started = StdioServerParameters(command=_COMMAND[0], args=[*_COMMAND[1:], "--address", running.address])
        async with McpClient(stdio_client(started), mode=mode) as client:
            assert len((await client.list_tools()).tools) == 9
            refused = await client.call_tool("ask", {"sql": "SELECT s FROM trades"})
            assert refused.structured_content["error"]["hint"] == "its columns are sym"
            return await client.call_tool("ask", {"sql": "SELECT sym FROM trades"})

    assert asyncio.run(asked()).structured_content["rows"] == [{"sym": "A"}]


@pytest.mark.long
def test_the_client_of_fastmcp_starts_the_command(running: Serving) -> None:
    import fastmcp
    from fastmcp.client.transports import StdioTransport

    async def asked() -> Any:
        transport = StdioTransport(_COMMAND[0], [*_COMMAND[1:], "--address", running.address])
        async with fastmcp.Client(transport) as client:
            return await client.call_tool("ask", {"sql": "SELECT sym FROM trades"})

    assert asyncio.run(asked()).structured_content["rows"] == [{"sym": "A"}]


@pytest.mark.long
def test_the_command_shows_its_token_over_tls_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("service")
    settings = Settings(
        listen=("127.0.0.1:0", "https://127.0.0.1:0"), web_port=0, mcp=True, tls_cert=str(certificate), tls_key=str(key)
    )
    with serving(settings, store=DurableStore(tmp_path / "data", reserve_bytes=0)) as guarded:
        with Client(guarded.address) as client:
            token = client.issue_token("ann", ["reader", "operator"], first=True).secret
        secure = f"https://localhost:{guarded.service.addresses[1].rpartition(':')[2]}"
        environment = {**os.environ, "PSOUP_TOKEN": token, "PSOUP_CA": str(authority.ca)}
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        done = subprocess.run(
            [*_COMMAND, "--address", secure],
            input=f"{line}\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=environment,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert len(json.loads(done.stdout)["result"]["tools"]) == 7
    plain = [*_COMMAND, "--url", "http://psoup.example:7434/mcp"]
    refused = subprocess.run(plain, input="", capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "in plain text, readable on the way" in refused.stderr


@pytest.mark.long
def test_lines_of_a_script_are_answered_before_the_command_ends(running: Serving) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    command = [*_COMMAND, "--address", running.address]
    done = subprocess.run(command, input=f"{line}\n", capture_output=True, text=True, check=True, timeout=60)
    assert len(json.loads(done.stdout)["result"]["tools"]) == 9
    assert done.stderr == ""


@pytest.mark.long
def test_a_service_without_assistants_is_named_at_once() -> None:
    with serving(Settings(port=0, web_port=0)) as bare:
        command = [*_COMMAND, "--address", bare.address]
        done = subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "psoup serve --mcp" in done.stderr
