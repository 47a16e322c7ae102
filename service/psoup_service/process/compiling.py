"""All kernels compiled by two processes at once, into the folder of kernels: half the time, given two processors.

    python -m psoup_service.process.compiling
        this process   in the order of their list
        a second one   from the end of the list on

A kernel is compiled by one of them while the other waits for it, and then loads it: the index that Numba keeps of a
kernel's types would lose one of two that are written at once.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numba
from numba.core.dispatcher import Dispatcher

from psoup.compiled import compile_listed
from psoup_service.process.kernel_cache import VARIABLE

_OURS = "psoup."
"""Kernels of these modules are kept; those of Numba itself are parts of them."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within, no two processes with the same folder of locks compile a kernel at the same time."""
    unlocked, under_way = Dispatcher.compile, set[str]()

    def compile_one(self: Any, sig: Any) -> Any:
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        if not name.startswith(_OURS) or name in under_way:
            return unlocked(self, sig)
        with (folder / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            under_way.add(name)
            try:
                return unlocked(self, sig)
            finally:
                under_way.discard(name)

    Dispatcher.compile = compile_one  # type: ignore[method-assign]
    try:
        yield
    finally:
        Dispatcher.compile = unlocked  # type: ignore[method-assign]


def compile_together(check: Callable[[], None] = lambda: None) -> None:
    """Compile them all, by this process and a second one, which ends with it. A minute on two processors.

    `check` is called before each, and may raise. Ctrl-C is for this process alone: the other would show a traceback.
    """
    place = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    environment = {**os.environ, **({VARIABLE: place} if place else {})}
    with tempfile.TemporaryDirectory(prefix="psoup-compiling-") as folder, locked(Path(folder)):
        command = [sys.executable, "-P", "-m", __spec__.name, folder]
        second = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            compile_listed(check)
        finally:
            second.communicate()  # its standard input ends: what it is at is there by then


def main() -> None:
    """Compile them all; given a folder of locks: as the second process."""
    if len(sys.argv) == 1:
        compile_together()
        return
    Thread(target=_end_with_the_first, daemon=True).start()
    with locked(Path(sys.argv[1])):
        compile_listed(backwards=True)


def _end_with_the_first() -> None:
    """Wait for the end of standard input, and end."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
