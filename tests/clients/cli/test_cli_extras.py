"""A command or an import without its extra names the extra, and the command of pip that brings it."""

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from psoup_cli.extras import OF_EXTRAS, lacking
from psoup_client import Answer
from psoup_proto.v1 import types_pb2
from psoup_testing.suite.sweeps import swept

CLI = ("typer", "rich")
SPARK = ("pyspark", "py4j", "pandas")
ENGINE_AND_SERVER = tuple(OF_EXTRAS - {*CLI, *SPARK, "pydantic"})  # typer brings pydantic
_RUN = """
import sys
sys.modules |= dict.fromkeys({missing!r})
from psoup_cli.main import main
main({arguments!r})
"""


def run(missing: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    source = _RUN.format(missing=missing, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    swept(
        [
            (
                CLI,
                ["push", "ads", "rows.csv"],
                "psoup push needs typer, which is not installed: pip install 'psoup[cli]'",
            ),
            (
                ENGINE_AND_SERVER,
                ["serve", "--port", "0"],
                "psoup serve needs numba, which is not installed: pip install 'psoup[server]'",
            ),
        ],
        fast=1,
    ),
)
def test_a_command_names_the_extra_that_it_lacks(missing: tuple[str, ...], arguments: list[str], said: str) -> None:
    done = run(missing, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"psoup: {said}\n")


@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    [
        ("typer", ["--help"], "the command psoup needs typer, which is not installed: pip install 'psoup[cli]'"),
        ("typer", ["serve"], "psoup serve needs typer, which is not installed: pip install 'psoup[server]'"),
        ("starlette", ["serve"], "psoup serve needs starlette, which is not installed: pip install 'psoup[server]'"),
        ("numba", ["doctor", "x"], "psoup doctor needs numba, which is not installed: pip install 'psoup[server]'"),
        (
            "numba.core",
            ["spark", "feed"],
            "psoup spark needs numba, which is not installed: pip install 'psoup[cli,spark]'",
        ),
        (
            "psycopg2",
            ["cdc", "customers"],
            "psoup cdc needs psycopg2, which is not installed: pip install 'psoup[cli,postgres]'",
        ),
        (
            "confluent_kafka",
            ["kafka", "feed", "orders"],
            "psoup kafka needs confluent_kafka, which is not installed: pip install 'psoup[cli,kafka]'",
        ),
        ("fraud", ["serve", "--functions", "fraud"], None),
        (None, ["serve"], None),
    ],
)
def test_the_sentence_is_about_the_command(missing: str | None, arguments: list[str], said: str | None) -> None:
    assert lacking(ModuleNotFoundError("x", name=missing), arguments) == said


@pytest.mark.long
def test_commands_of_clients_need_no_engine() -> None:
    done = run((*ENGINE_AND_SERVER, "pyspark"), "invoke", "q-1", "--address", "unix:/nowhere/psoup.sock")
    assert (done.returncode, done.stdout) == (3, "")
    assert "/nowhere/psoup.sock" in done.stderr


@pytest.mark.parametrize(
    ("module", "missing", "said"),
    swept(
        [
            (
                "psoup.local",
                "numba",
                "the engine of PSoup needs numba, which is not installed: pip install 'psoup[engine]'",
            ),
            ("psoup_service.main", "starlette", "the service of PSoup needs starlette, which is not installed: pip"),
            ("psoup_spark", "pyspark", "psoup_spark needs PySpark, which is not installed: pip install 'psoup[spark]'"),
        ],
        fast=1,
    ),
)
def test_an_import_names_the_extra_that_it_lacks(module: str, missing: str, said: str) -> None:
    source = f"import sys\nsys.modules[{missing!r}] = None\nimport {module}"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert f"ModuleNotFoundError: {said}" in done.stderr


@pytest.mark.parametrize(("library", "options"), [("pandas", {}), ("pandas", {"nullable": True}), ("polars", {})])
def test_a_frame_names_the_library_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch, library: str, options: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    answer = Answer(pa.table({"a": [1]}), types_pb2.Completeness())
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'psoup\[{library}\]'") as caught:
        getattr(answer, f"to_{library}")(**options)
    assert caught.value.name == library
