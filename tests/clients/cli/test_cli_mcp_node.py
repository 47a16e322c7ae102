"""Clients of the official SDK in TypeScript reach the tools, by HTTP and by psoup mcp."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import serving

_PACKAGE = "@modelcontextprotocol/sdk@1.32.2"
_FOLDER = Path(__file__).resolve().parents[3] / "build" / "mcp-node"
_SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [url, command, ...args] = process.argv.slice(2);
for (const transport of [
  new StreamableHTTPClientTransport(new URL(url)),
  new StdioClientTransport({ command, args }),
]) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const answer = await client.callTool({ name: "ask", arguments: { sql: "SELECT sym FROM trades" } });
  const refused = await client.callTool({ name: "ask", arguments: { sql: "SELECT nosuch FROM trades" } });
  console.log(JSON.stringify([tools.length, answer.structuredContent.rows, refused.structuredContent.error.column]));
  await client.close();
}
"""


@pytest.fixture(scope="module")
def script() -> Path:
    """The script beside the SDK, which npm installs once."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the machine has no Node")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if not (_FOLDER / "node_modules" / "@modelcontextprotocol").exists():
        install = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(_FOLDER), _PACKAGE]
        if subprocess.run(install, capture_output=True, check=False, timeout=120).returncode:
            pytest.skip("npm does not give the SDK")
    path = _FOLDER / "clients.mjs"
    path.write_text(_SCRIPT)
    return path


@pytest.mark.long
def test_clients_in_typescript_call_the_tools_and_check_errors(script: Path) -> None:
    with serving(Settings(port=0, web_port=0, mcp=True)) as running:
        with Client(running.address) as client:
            client.create_stream("CREATE STREAM trades (sym TEXT)")
            client.push("trades", [{"sym": "A"}])
            client.wait_for(client.last_sequence)
        assert running.service.gateway is not None
        command = [sys.executable, "-m", "psoup_cli.main", "mcp", "--address", running.address]
        arguments = ["node", str(script), f"{running.service.gateway.address}/mcp", *command]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=100)
    assert done.stderr == ""
    expected = [9, [{"sym": "A"}], 8]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [expected, expected]
