"""Progress of the compilation of kernels, for the operator of a first start.

    a terminal     one line, written anew: compiling kernels, once for this install: 57 of 210, 23 s
    otherwise      an entry of the log every few seconds, with the same numbers

Nothing is written while kernels are only loaded. Not for: the demo, which shows the numbers itself
(`psoup_cli.flights.kernel_meter`).
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress

_SECONDS = 5.0
"""Seconds between two entries of the log."""
_log = logging.getLogger(__name__)


def _entry(done: int, total: int, seconds: int) -> None:
    facts = {"done": done, "total": total, "seconds": seconds}
    _log.info("kernels are compiled, once for this install", extra=facts)


def line(done: int, total: int, seconds: int) -> None:
    """Write a line on standard error, for a program that has no log."""
    sys.stderr.write(f"{_text(done, total, seconds)}\n")
    sys.stderr.flush()


class KernelProgress:
    """Writer of progress. Call it with the number of kernels that are done, and of all.

    `write`: takes these numbers and the seconds since the first call, every few seconds, if there is no terminal.
    """

    def __init__(self, write: Callable[[int, int, int], None] = _entry) -> None:
        self._terminal = sys.stderr.isatty()
        self._write = write
        self._begun = self._told = -1.0

    def __call__(self, done: int, total: int) -> None:
        """Write the progress, if it is time for it."""
        now = time.monotonic()
        first = self._begun < 0
        if first:
            self._begun = now
        seconds = round(now - self._begun)
        with suppress(OSError):  # the program that has started the service may not read any more
            if self._terminal:
                sys.stderr.write(_text(done, total, seconds) + ("\n" if done == total else "\r"))
                sys.stderr.flush()
            elif first or done == total or now - self._told >= _SECONDS:
                self._told = now
                self._write(done, total, seconds)


def _text(done: int, total: int, seconds: int) -> str:
    return f"compiling kernels, once for this install: {done} of {total}, {seconds} s"
