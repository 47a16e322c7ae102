"""The help of every command, pinned; PSOUP_TEST_WRITE=1 writes it anew, for a reviewer to read."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from psoup_cli.app import app

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cli_help.txt"


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


def test_help_is_as_pinned() -> None:
    shown = "".join(f"$ {' '.join(('psoup', *path))} --help\n{help_of(path)}\n" for path in commands(get_command(app)))
    if os.environ.get("PSOUP_TEST_WRITE"):
        GOLDEN.write_text(shown)
    assert shown == GOLDEN.read_text()


@pytest.mark.parametrize(
    "path", [path for path in commands(get_command(app)) if path not in {("stream",), ("config",), ("spark",)}]
)
def test_help_begins_with_examples(path: tuple[str, ...]) -> None:
    lines = [line for line in help_of(path).splitlines() if line.strip()]
    assert lines[0].startswith("Usage: psoup")
    assert lines[1].strip() == "Examples:"
    assert "psoup " in lines[2] or "PSOUP_" in lines[2]
