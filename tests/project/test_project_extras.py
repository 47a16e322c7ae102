"""The packages that each part of PSoup imports, beside the extras that bring them."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from psoup_cli.extras import OF_EXTRAS
from psoup_testing.suite.sweeps import swept

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = {
    "psoup_proto": "protos",
    "psoup_client": "clients",
    "psoup_recharge": "clients",
    "psoup_cdc": "clients",
    "psoup_cli": "clients",
    "psoup_kafka": "clients",
    "psoup_spark": "clients",
    "psoup": "",
    "psoup_storage": "storage",
    "psoup_service": "service",
}
ALSO = {"py4j": "pyspark", "llvmlite": "numba", "pydantic-core": "pydantic"}
"""Packages that another one always brings."""


def of_extras(*extras: str) -> set[str]:
    """Names of the packages of the project itself and of these extras, with the extras that they name."""
    texts, ahead = list(PROJECT["dependencies"]), list(extras)
    while ahead:
        for text in PROJECT["optional-dependencies"][ahead.pop()]:
            if inner := re.fullmatch(r"psoup\[(.*)\]", text):
                ahead += inner[1].split(",")
            else:
                texts.append(text)
    return {re.split(r"[\[<>=~! ;]", text)[0] for text in texts}


_distributions = cache(packages_distributions)


def unknown(modules: Iterable[str]) -> set[str]:
    """Top names of modules that are neither Python's nor ours."""
    return {module.split(".")[0] for module in modules} - sys.stdlib_module_names - set(FOLDERS)


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of imported modules, without those for the type checker alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from imports(node)


_IMPORT = re.compile(r"^\s*(?:from|import) ([a-z]\w*(?:\.\w+)*)", re.MULTILINE)


@cache
def imported(package: str) -> set[str]:
    """Names of the packages that the modules of a package of ours import, at once or late."""
    modules = set[str]()
    for path in (ROOT / FOLDERS[package] / package).rglob("*.py"):
        source = path.read_text()
        if unknown(_IMPORT.findall(source)):  # most files import nothing of interest, and their trees take seconds
            modules |= set(imports(ast.parse(source)))
    named = set[str]()
    for module in modules:
        top = module.split(".")[0]
        if top == "google":  # a namespace of several packages
            named.add("protobuf" if module.startswith("google.protobuf") else "googleapis-common-protos")
        elif top == "opentelemetry":
            named.add("-".join(module.split(".")[:2]))
        elif unknown([top]):
            named.add(_distributions()[top][0].lower().replace("_", "-"))
    return {ALSO.get(name, name) for name in named}


@pytest.mark.parametrize(
    ("package", "extras"),
    swept(
        [
            ("psoup_proto", []),
            ("psoup_client", ["pandas", "polars"]),
            ("psoup_recharge", []),
            ("psoup_cdc", ["postgres"]),
            ("psoup_cli", ["cli", "mcp"]),
            ("psoup_kafka", ["kafka"]),
            ("psoup_spark", ["spark"]),
            ("psoup", ["engine"]),
            ("psoup_storage", ["engine", "replicate"]),
            ("psoup_service", ["server", "oidc", "otel", "pg", "mcp"]),
        ],
        fast=(0, 1, 4, 7),
    ),
)
def test_a_package_imports_what_its_extras_bring(package: str, extras: list[str]) -> None:
    assert imported(package) - of_extras(*extras) == set()


def test_the_client_needs_no_package_of_the_engine_or_the_service() -> None:
    assert of_extras() == {
        "apsw",
        "bitarray",
        "googleapis-common-protos",
        "greenlet",
        "grpcio",
        "numpy",
        "protobuf",
        "pyarrow",
        "tzdata",
    }


def test_every_package_of_the_server_is_imported() -> None:
    """A package without a user is weight for each install."""
    used = set().union(*map(imported, FOLDERS)) | {"tzdata"}
    assert of_extras("server", "oidc", "kafka", "postgres", "spark") - used - {"pandas"} == set()


def test_a_command_knows_the_modules_of_the_extras() -> None:
    """A module of an extra that is missing leads to the sentence about the extra."""
    brought = of_extras("cli", "engine", "kafka", "mcp", "postgres", "server", "spark") - of_extras()
    assert {_distributions()[module][0].lower().replace("_", "-") for module in OF_EXTRAS} == brought


def requirements(lock: str) -> list[str]:
    return [line for line in (ROOT / lock).read_text().splitlines() if line and not line.startswith((" ", "#"))]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-run.lock"])
def test_a_lock_pins_every_package_with_hashes_and_names_no_place(name: str) -> None:
    lock, lines = (ROOT / name).read_text(), requirements(name)
    assert len(lines) > 40
    assert [line for line in lines if not re.match(r"[a-z0-9-]+==[^ ]+ (; .* )?\\$", line)] == []
    assert not re.search(r"https?://|file:|--index|--find-links|(^|\s)/", lock)
    assert all("--hash=sha256:" in part for part in re.split(r"\n(?=[a-z])", lock) if "==" in part.split("\n")[0])


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("requirements.lock", ["dev", "bench", "server", "cli", "engine", "spark", "oidc", "pandas", "polars"]),
        ("requirements-run.lock", ["server", "cli"]),
    ],
)
def test_a_lock_has_every_dependency_of_its_extras(lock: str, extras: list[str]) -> None:
    """After a change of pyproject.toml: make lock."""
    assert of_extras(*extras) - {line.split("==")[0] for line in requirements(lock)} == set()


def test_what_runs_is_a_part_of_what_develops() -> None:
    """`make setup` after `make run` replaces no package. Spark, tests and benchmarks are not needed to run."""
    running, developing = (
        {line.split(" ")[0] for line in requirements(name)} for name in ("requirements-run.lock", "requirements.lock")
    )
    assert running - developing == set()
    assert {line.split("==")[0] for line in running} & {"pyspark", "pytest", "duckdb", "pandas", "playwright"} == set()


@pytest.mark.parametrize(
    ("target", "lock", "stamps"),
    [
        ("run", "requirements-run.lock", ["touch .venv/.running"]),
        ("setup", "requirements.lock", ["touch .venv/.running .venv/.complete"]),
    ],
)
def test_a_target_installs_one_lock(target: str, lock: str, stamps: list[str]) -> None:
    """`make run` after `make setup` installs nothing, as that has made its stamp as well."""
    command = ["make", "--dry-run", "--always-make", "--directory", str(ROOT), target]
    steps = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    splits = [step for step in steps if 'print > ("build/" out ".txt")' in step]
    assert [step.split("}'")[-1].strip() for step in splits] == [lock]
    assert [step for step in steps if step in ("touch .venv/.running", *stamps)] == stamps
