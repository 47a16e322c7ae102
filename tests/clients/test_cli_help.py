"""docs/cli.md is the help of every command; `make golden` writes it anew, for a reviewer to read."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from psoup_cli.app import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
INTRODUCTION = """# The command line

The help of every command, as `psoup COMMAND --help` prints it. Data goes to standard output, messages to standard
error; on a terminal answers and lists are tables, in a pipe they are CSV. The exit code is 0 if all is well, and else
says what is not:

| code | |
|---|---|
| 1 | an error |
| 2 | the command was not understood |
| 3 | no service answers |
| 4 | there is no such stream, query or tuple, or what is given is not an ID |
| 5 | it conflicts with what is there |
| 6 | some rows were refused, or would be |

"""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def help_of(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(
        app, [*path, "--help"], prog_name="psoup", env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    )
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_of_the_command_line_is_its_help() -> None:
    page = INTRODUCTION
    for path in commands(get_command(app)):
        page += f"## {' '.join(('psoup', *path))}\n\n```text\n{help_of(path).strip()}\n```\n\n"
    page = page.rstrip() + "\n"
    if os.environ.get("PSOUP_TEST_WRITE"):
        PAGE.write_text(page)
    assert page == PAGE.read_text(), "if the change is meant: make golden"


@pytest.mark.parametrize("path", list(commands(get_command(app))))
def test_help_begins_with_examples(path: tuple[str, ...]) -> None:
    lines = [line for line in help_of(path).splitlines() if line.strip()]
    assert lines[0].startswith("Usage: psoup")
    assert lines[1].strip() == "Examples:"
    assert "psoup " in lines[2] or "PSOUP_" in lines[2]
