"""A small disk of its own for a test, and files that fill it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(mounted: Path, size: int) -> Iterator[Path]:
    """An empty file system of `size` bytes, mounted there; skips the test where none can be."""
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "psoup-test", str(mounted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if done.returncode:
        pytest.skip(f"tmpfs cannot be mounted: {done.stderr.strip()}")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


def fill(path: Path, left: int) -> None:
    """A file that takes all room but `left` bytes; other processes may take some of these meanwhile."""
    for _ in range(100):
        facts = os.statvfs(path.parent)
        with path.open("wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, facts.f_bavail * facts.f_frsize - left))
            return
    raise AssertionError("the disk cannot be filled")
