"""The end of the process: Ctrl-C, its exit code, and the loss of the output's reader.

Its imports take no time, because `main` loads this file before all other files.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells give it."""


def discard_output() -> None:
    """Discard the rest of the output. A reader that has left, as `| head` does, is not an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_AGAIN_S = 0.05
"""Seconds after which a lost interrupt comes again. By then the code that lost it has returned."""


@contextmanager
def repeating_interrupts() -> Iterator[None]:
    """Inside the `with` block, an interrupt that Python ignores comes again.

    Ctrl-C raises KeyboardInterrupt wherever the main thread is. In a finalizer, or in a callback of a C library, Python
    passes the exception to `sys.unraisablehook` and goes on. Without a repetition the command would not end.
    """
    before, repeated = sys.unraisablehook, _Repeated()

    def note(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            repeated.note()
        else:
            before(lost)

    sys.unraisablehook = note
    try:
        yield
    finally:
        sys.unraisablehook = before


class _Repeated:
    """Interrupts the main thread once more, from another thread, after an interrupt was lost.

    It waits until `note` has returned: Python would lose an exception in `note`, too.
    """

    def __init__(self) -> None:
        self._noting = False

    def note(self) -> None:
        """Repeat an interrupt that was lost just now, in the main thread."""
        self._noting = True
        try:
            self._start()
        finally:
            self._noting = False

    def _start(self) -> None:
        import threading

        timer = threading.Timer(_AGAIN_S, self._repeat)
        timer.daemon = True
        with suppress(RuntimeError):  # the interpreter ends anyway
            timer.start()

    def _repeat(self) -> None:
        if self._noting:
            self._start()
        else:
            _interrupt()


def _interrupt() -> None:
    import threading

    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)  # it also ends a wait of the main thread
    else:
        signal.raise_signal(signal.SIGINT)
