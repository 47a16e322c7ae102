"""Commands as a person at a terminal sees them."""

import os
import re
import subprocess
import sys
from pathlib import Path

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLUMNS = 110


def run_in_terminal(command: str, folder: Path, address: str) -> str:
    """The output of `bash -c command` on a terminal of 110 columns, without styles and trailing blanks."""
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PSOUP_ADDRESS": address, "PATH": search, "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    environment["TERM"] = "dumb"  # progress bars are not drawn
    ours, theirs = os.openpty()
    with subprocess.Popen(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    ):
        os.close(theirs)
        text = _read_all(ours).decode()
    return "\n".join(line.rstrip() for line in ESCAPES.sub("", text).splitlines()).strip("\n")


def _read_all(terminal: int) -> bytes:
    parts = []
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # Linux says so when the last writer has gone
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts)
        parts.append(part)
