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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import numba
from numba.core.dispatcher import Dispatcher

from psoup.kernel_signatures import POSTGRES, SIGNATURES, compile_listed
from psoup_service.process.kernel_cache import VARIABLE, has_folder
from psoup_service.process.kernel_progress import KernelProgress, line

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


def compile_together(
    check: Callable[[], None] = lambda: None, tell: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """Compile all kernels, or load them. A minute on two processors if none is kept, a second if all are.

    If two kernels are missing and kernels are kept in a folder, a second process helps. It ends with this one, which
    alone gets Ctrl-C. `check` is called before each kernel, and may raise. `tell` is then called after each kernel,
    with the number done, and of all.
    """
    total = len(SIGNATURES.read_text().splitlines())
    with ExitStack() as stack:
        missing, count, second = 0, 0, None

        def done(number: int, compiled: bool) -> None:
            nonlocal missing, count, second
            missing += compiled
            if missing < _WITH_HELP or count == total:  # the rest of the second process is loaded in a moment
                return
            if second is None and has_folder():
                second = stack.enter_context(_Second())
            count = min(total, number + (second.done() if second else 0))
            tell(count, total)

        compile_listed(check, done=done)


_WITH_HELP = 2
"""Kernels to compile for which a second process is started. To start it takes as long as to compile one."""


class _Second:
    """The second process, for a `with` statement, in which kernels are locked. It ends there."""

    def __enter__(self) -> Self:
        place = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        environment = {**os.environ, **({VARIABLE: place} if place else {})}
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-compiling-"))
        self._stack.enter_context(locked(Path(folder)))
        command = [sys.executable, "-P", "-m", __spec__.name, folder]
        self._done = 0
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        return self

    def done(self) -> int:
        """The number of kernels that the process is done with. It writes a byte for each."""
        assert self._process.stdout is not None
        with suppress(BlockingIOError):
            self._done += len(os.read(self._process.stdout.fileno(), _BYTES))
        return self._done

    def __exit__(self, *_: object) -> None:
        with self._stack:
            self._process.communicate()  # ends its standard input, and so the process


_BYTES = 4096


def main() -> None:
    """Compile all kernels, and show the progress. With a folder of locks as its argument, be the second process."""
    if len(sys.argv) == 1:
        compile_together(tell=KernelProgress(line))
        compile_listed(listed=POSTGRES)
        return
    Thread(target=_end_with_the_first, daemon=True).start()
    with locked(Path(sys.argv[1])):
        compile_listed(backwards=True, done=_write_a_byte)


def _write_a_byte(number: int, compiled: bool) -> None:
    os.write(sys.stdout.fileno(), b".")


def _end_with_the_first() -> None:
    """Wait for the end of standard input, which the first process holds, and end this process."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
