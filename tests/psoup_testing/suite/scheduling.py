"""In which order tests run, and which process takes which: by file, those that take longest first.

    tests/spark/*              one unit: one session (a Java, its Python workers) serves all of them
    tests/oracle/test_….py     a unit each
    …

A file that takes long and comes last leaves one process alone with it; xdist itself begins with the files that have the
most tests, and those with the fewest take longest here.
"""

from __future__ import annotations

TOGETHER = ("tests/spark/",)
"""Folders that are one unit."""
LONG = (
    *TOGETHER,
    "tests/web/test_web_application",
    "tests/web/test_web_registered",
    "tests/service/queries/test_service_copies.py",
    "tests/oracle/",
    "tests/crash/",
    "tests/engine/expressions/test_expressions_duckdb.py",
    "tests/engine/answer/test_engine_table.py",
    "tests/service/host/test_service_functions.py",
    "tests/service/process/test_service_process.py",
    "tests/clients/cli/test_cli_commands.py",
    "tests/e2e/",
    "tests/project/",
    "tests/storage/",
    "tests/clients/",
    "tests/service/",
    "tests/web/",
    "tests/kernels/",
    "tests/engine/joins/",
    "tests/engine/sql/",
    "tests/engine/engine/",
    "tests/engine/answer/",
    "tests/engine/matching/",
)
"""Folders and files that take long, the longest first; what begins with one of these names has its place. What is left
for the end are files of a few seconds."""


def rank(nodeid: str) -> int:
    """The place of a test among those that take long; the others come after all of them."""
    return next((place for place, path in enumerate(LONG) if nodeid.startswith(path)), len(LONG))


def unit(nodeid: str) -> str:
    """The unit that one process runs: a folder, or a file."""
    return next((path for path in TOGETHER if nodeid.startswith(path)), nodeid.split("::", 1)[0])
