"""Compilation of all kernels by two processes into the folder of kernels: half the time on two processors.

    python -m psoup_service.process.kernel_compiler
        this process   in the order of their list
        a second one   from the end of the list on

One process compiles a kernel while the other one waits for it, and then loads it. Numba keeps an index of a kernel's
types, which would lose one of two simultaneous entries.
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

from psoup.kernel_signatures import compile_listed
from psoup_service.process.kernel_cache import VARIABLE

_OURS = "psoup."
"""Prefix of the modules whose kernels are kept. Numba's own kernels are compiled into them."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A context in which no two processes with the same folder of locks compile one kernel at the same time."""
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
    """Compile all kernels, by this process and a second one, which ends with it. A minute on two processors.

    `check` is called before each kernel, and may raise. Only this process gets Ctrl-C, because the second one would
    print a traceback.
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
            second.communicate()  # ends its standard input, and so the second process


def main() -> None:
    """Compile all kernels. With a folder of locks as its argument, the process is the second one."""
    if len(sys.argv) == 1:
        compile_together()
        return
    Thread(target=_end_with_the_first, daemon=True).start()
    with locked(Path(sys.argv[1])):
        compile_listed(backwards=True)


def _end_with_the_first() -> None:
    """Wait for the end of standard input, which the first process holds, and end this process."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
