"""Programs that read the description of the calls: schemathesis calls each one, openapi-typescript makes types."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from psoup_service.process.settings import Settings
from psoup_testing.browser.page_requests import Page
from psoup_testing.services.threaded_service import serving

_ENDLESS = ("/api/psoup.v1.FollowService/Follow", "/api/psoup.v1.SyncService/Watch")
"""The calls that end with their client."""
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
)
"""The checks of schemathesis, but not `negative_data_rejection`: protobuf's JSON takes null for a missing field."""
_PACKAGES = ("openapi-typescript@7.13.0", "typescript@5.9.3")
_FOLDER = Path(__file__).resolve().parents[2] / "build" / "openapi-node"
_CLIENT = """
import type { components, paths } from "./psoup";

type Body<Path extends keyof paths> = NonNullable<paths[Path]["post"]["requestBody"]>["content"];

export const question: Body<"/api/ask">["application/json"] = { sql: "SELECT 1", parameters: [1], minSequence: "7" };
export const created: Body<"/api/psoup.v1.StatementService/Execute">["application/json"] = { statement: "SELECT 1" };
export const key: paths["/api/streams/{stream}/rows"]["post"]["parameters"]["header"]["Idempotency-Key"] = "one";
export const rows = (answer: components["schemas"]["RowsAnswer"]): number => answer.rowCount + answer.rows.length;
// @ts-expect-error: a question has a text
export const wrong: Body<"/api/ask">["application/json"] = { sql: 1 };
"""


@pytest.mark.long
def test_requests_made_from_the_description_get_described_replies(tmp_path: Path) -> None:
    """Some two thousand requests, half of them invalid, in half a minute."""
    command = [Path(sys.executable).with_name("schemathesis"), "run", "--no-color", "--warnings=off", "--no-shrink"]
    if not Path(command[0]).exists():
        pytest.skip("run: make setup")
    command += ["--phases=coverage,fuzzing", "--max-examples=15", f"--checks={','.join(_CHECKS)}"]
    command += ["--generation-deterministic", "--continue-on-failure", "--suppress-health-check=all"]
    command += ["--request-timeout=30", "--header=X-Psoup: 1", *(f"--exclude-path={path}" for path in _ENDLESS)]
    with serving(Settings(port=0, web_port=0)) as running:
        assert running.service.gateway is not None
        address = f"{running.service.gateway.address}/api/openapi.json"
        with urllib.request.urlopen(address, timeout=30) as reply:
            described = sum(len(path.keys() & {"get", "post"}) for path in json.load(reply)["paths"].values())
        command.append(address)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert f"{described - len(_ENDLESS)} selected / {described} total" in done.stdout


@pytest.fixture(scope="module")
def typescript() -> Path:
    """The folder of npm packages, which are installed once."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the machine has no Node")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if not (_FOLDER / "node_modules" / "openapi-typescript").exists():
        install = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(_FOLDER), *_PACKAGES]
        if subprocess.run(install, capture_output=True, check=False, timeout=120).returncode:
            pytest.skip("npm does not give the packages")
    return _FOLDER / "node_modules" / ".bin"


@pytest.mark.long
def test_a_client_in_typescript_compiles(page: Page, typescript: Path, tmp_path: Path) -> None:
    def run(name: str, *arguments: Any) -> None:
        command = ["node", typescript / name, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=150)
        assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]

    (tmp_path / "openapi.json").write_bytes(page.send("GET", "/api/openapi.json").body)
    (tmp_path / "client.ts").write_text(_CLIENT)
    run("openapi-typescript", "openapi.json", "--output", "psoup.d.ts")
    run("tsc", "--strict", "--noEmit", "--skipLibCheck", "false", "--target", "es2022", "client.ts", "psoup.d.ts")
