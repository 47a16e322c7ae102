"""The program in docs/async.md runs unchanged, and prints the output that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from psoup_testing.services.threaded_service import serving

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "async.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)


@pytest.mark.long
def test_the_program_prints_what_the_document_shows(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(blocks("python")[0])
    with serving() as service:
        done = subprocess.run(
            [sys.executable, "-W", "error", "program.py"],
            cwd=tmp_path,
            env={**os.environ, "PSOUP_ADDRESS": service.address, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == blocks("text")[0]


def test_the_web_service_is_python() -> None:
    """FastAPI is not among the packages of the tests, so the example is only compiled."""
    compile(blocks("python")[1], "web.py", "exec")
