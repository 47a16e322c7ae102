"""psoup-client for browsers and Node: its files, its size, and its own tests against a service."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_service.process.settings import Settings
from psoup_testing.services.npm_package import SOURCES, built_package, ran
from psoup_testing.services.threaded_service import serving

pytestmark = pytest.mark.long
MOST_BYTES = 40_000


@pytest.fixture(scope="module")
def package() -> Path:
    """The folder of the built package."""
    return built_package()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the page's port of a service."""
    with serving(Settings(port=0, web_port=0)) as service:
        assert service.service.gateway is not None
        yield service.service.gateway.address


def test_the_package_has_what_its_exports_name_and_nothing_of_its_sources(package: Path) -> None:
    (packed,) = json.loads((package / "out" / "pack.json").read_text())
    files = {file["path"] for file in packed["files"]}
    described = json.loads((package / "package.json").read_text())
    exported = [
        path.removeprefix("./")
        for target in described["exports"].values()
        for path in (target.values() if isinstance(target, dict) else [target])
    ]
    assert set(exported) <= files and {"LICENSE", "README.md"} <= files
    beside = {file for file in files if not file.startswith("dist/")}
    assert beside == {"LICENSE", "README.md", "package.json"}
    assert all(file.endswith((".js", ".d.ts")) for file in files - beside)
    assert (described["type"], described["sideEffects"], described["license"]) == ("module", False, "Apache-2.0")
    assert described["peerDependenciesMeta"]["react"]["optional"] is True


def test_the_whole_package_is_small(package: Path) -> None:
    """The bundle has all but the hook, with every library in it."""
    size = len(gzip.compress((package / "dist" / "bundle.js").read_bytes(), 9))
    assert 10_000 < size <= MOST_BYTES
    outside = [name for name in ("@bufbuild", "apache-arrow", "flatbuffers", '"idb"') if name in _imports(package)]
    assert outside == []


def _imports(package: Path) -> str:
    """The beginnings of the lines of the bundle that import something."""
    lines = (package / "dist" / "bundle.js").read_text().splitlines()
    return "\n".join(line[:200] for line in lines if line.startswith("import"))


def test_its_version_is_that_of_the_project() -> None:
    described = json.loads((SOURCES / "package.json").read_text())
    project = (SOURCES.parents[1] / "pyproject.toml").read_text()
    assert f'\nversion = "{described["version"]}"\n' in project


def test_its_tests_pass_against_a_service(package: Path, url: str) -> None:
    done = ran(package / "tests" / "service.mjs", package, url, "--test", "--test-reporter=spec")
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "pass 9" in done.stdout
