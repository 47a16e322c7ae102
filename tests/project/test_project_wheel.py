"""The content of the wheel in a user's site-packages."""

import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "psoup",
    "psoup_proto",
    "psoup_storage",
    "psoup_service",
    "psoup_client",
    "psoup_cli",
    "psoup_recharge",
    "psoup_cdc",
    "psoup_kafka",
    "psoup_spark",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.long
def test_it_holds_the_packages_of_psoup_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


def test_it_holds_what_is_not_code(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert "psoup_cli/data/flights.parquet" in names
    assert "psoup_spark/log4j2.properties" in names
    assert "psoup_proto/v1/queries.proto" in names
    assert {"index.html", "sw.js"} <= {name.removeprefix("psoup_service/web/static/") for name in names}
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def test_it_holds_no_caches_and_no_tests(wheel: zipfile.ZipFile) -> None:
    unwanted = ("__pycache__", ".nbi", ".nbc", "test_", "conftest")
    assert [name for name in wheel.namelist() if any(part in name for part in unwanted)] == []


def test_every_package_is_typed(wheel: zipfile.ZipFile) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} - set(wheel.namelist()) == set()


def test_its_metadata_is_that_of_the_project(wheel: zipfile.ZipFile) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Name"] == "psoup"
    assert metadata["Version"] == project["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    entry = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "psoup = psoup_cli.main:main" in wheel.read(entry).decode()
