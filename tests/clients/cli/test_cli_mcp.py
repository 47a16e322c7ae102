"""psoup mcp: assistants on standard input reach the tools of a service."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import types
from mcp.client.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage

from psoup_cli.assistant_bridge import Endpoint, Requests
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
        with Client(served.address, timeout=20) as client:
            client.create_stream("CREATE STREAM trades (sym TEXT)")
            client.push("trades", [{"sym": "A"}])
            client.wait_for(client.last_sequence)
        yield served


def carried(url: str, *lines: dict[str, Any] | Exception) -> list[dict[str, Any]]:
    """The replies to some messages, in the order in which they come."""
    replies = list[dict[str, Any]]()

    async def write(message: types.JSONRPCMessage) -> None:
        replies.append(message.model_dump(by_alias=True, exclude_unset=True))

    async def run() -> None:
        async with httpx2.AsyncClient(trust_env=False) as web:
            requests = Requests(Endpoint(web, url, dict), write)
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
