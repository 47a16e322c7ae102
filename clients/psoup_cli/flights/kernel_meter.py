"""Progress of the compilation of kernels in the demo: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from psoup_cli.flights.show import say

_SECONDS = 10.0
"""Seconds between two lines in a file or pipe."""
_TITLE = "Compiling kernels, once for this install"


class KernelMeter:
    """A meter of kernels, for a `with` statement. Call it with the number of kernels that are done, and of all."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console) if console.is_terminal else None
        self._begun = self._told = 0.0

    def __enter__(self) -> Self:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show the progress, if it is time for it."""
        now = time.monotonic()
        first = not self._begun
        self._begun = self._begun or now
        if self._bar is not None:
            if first:
                self._bar.start()
                self._bar.add_task(_TITLE, total=total)
            self._bar.update(self._bar.task_ids[0], completed=done)
        elif first or done == total or now - self._told >= _SECONDS:
            self._told = now
            say(self._console, f"{_TITLE}: {done} of {total}, {now - self._begun:.0f} s")

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
