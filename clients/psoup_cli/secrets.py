"""Where a command puts a new access token: on standard output once, or in a new file that its owner alone may read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from psoup_cli.common import message

TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Write the token to this new file instead of printing it."),
]


def hand_over(secret: str, path: Path | None) -> None:
    """Print a token, or write it to a file that is not there yet. A file that cannot be made does not lose it."""
    if path is None:
        print(secret)
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        print(secret)
        sys.stdout.flush()
        message(f"psoup: {path}: {problem.strerror}; the token is printed instead, as nothing says it again")
        raise typer.Exit(1) from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{secret}\n")
    message(f"The token is in {path}.")
