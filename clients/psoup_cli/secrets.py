"""The output of a new secret: once on standard output, or in a new file that only its owner may read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from psoup_cli.common import message

TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Write the token to this new file instead of printing it."),
]


@contextmanager
def handing_over(path: Path | None, noun: str = "token") -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a new secret, or writes it to a new file. `noun`: the word for the secret.

    The file is created before the secret is made, so that a wrong path makes none. Without a secret the file is
    removed.
    """
    if path is None:
        yield print
        return
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        message(f"psoup: {path}: {problem.strerror}; no {noun} was made: --{noun}-file must name a new file")
        raise typer.Exit(1) from None
    written = False

    def write(secret: str) -> None:
        nonlocal written
        try:
            _write(handle, secret)
        except OSError as problem:
            print(secret)
            sys.stdout.flush()
            message(
                f"psoup: {path}: {problem.strerror}; the {noun} is printed instead, because it cannot be shown again"
            )
            raise typer.Exit(1) from None
        written = True
        message(f"The {noun} is in {path}.")

    try:
        yield write
    finally:
        os.close(handle)
        if not written:
            path.unlink(missing_ok=True)


def _write(handle: int, secret: str) -> None:
    """Write a secret and a line feed."""
    with os.fdopen(handle, "w", encoding="ascii", closefd=False) as file:
        file.write(f"{secret}\n")
