"""A real service for the tests of clients, one for each file, and the psoup command; streams get names of their own."""

import io
import json
import sys
from pathlib import Path

import pytest

from psoup_cli.main import main
from psoup_testing.services import fixtures
from psoup_testing.services.command import COLUMNS, ROWS, Psoup, Ran
from psoup_testing.services.threaded_service import Serving

running, client, make_stream = fixtures.running, fixtures.client, fixtures.make_stream
kept_port = fixtures.kept_port


@pytest.fixture
def psoup(
    running: Serving, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Psoup:
    monkeypatch.setenv("PSOUP_ADDRESS", running.address)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: bytes | None = None) -> Ran:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capfd.readouterr()
        return Ran(ended.value.code if isinstance(ended.value.code, int) else 0, out, err)

    return run


@pytest.fixture
def stream(psoup: Psoup) -> str:
    name = f"cli{next(fixtures.numbers)}"
    assert psoup("stream", "create", f"CREATE STREAM {name} {COLUMNS}").code == 0
    return name


@pytest.fixture
def filled(psoup: Psoup, stream: str, tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert psoup("push", stream, str(path)).code == 0
    return stream
