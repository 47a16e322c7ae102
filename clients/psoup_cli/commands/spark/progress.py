"""The progress of a Spark job on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from psoup_cli.common import message
from psoup_client.phrases import counted, verb

Tell = Callable[[int, Any], None]
"""The function that receives the number of a finished batch, and its result."""


@contextmanager
def meter(stream: str, count: Callable[[Any], int]) -> Iterator[Tell]:
    """Show a line for an endless job: batches, rows, and rows a second. Refused rows are told without a terminal, too.

    `count` returns the rows of a batch's result.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(file=sys.stderr)
    with Bars(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"{stream}: waiting for rows")
        rows, refused, shown, start = 0, 0, 0, time.monotonic()

        def tell(number: int, result: Any) -> None:
            nonlocal rows, refused, shown
            rows += count(result)
            refused += result.late + result.ahead
            rate = rows / max(time.monotonic() - start, 1e-3)
            lost = f", {refused:,} refused" if refused else ""
            bar.update(task, description=f"{stream}: batch {number}, {counted(rows, 'row')}{lost}, {rate:,.0f} rows/s")
            if refused and refused >= 2 * shown:  # a line for each doubling
                shown = refused
                said = f"{counted(refused, 'row')} {verb(refused, 'was', 'were')} refused up to batch {number}"
                message(f"{stream}: {said}, too late or too far ahead; --refused raise would end the job")

        yield tell


@contextmanager
def job_meter(name: str) -> Iterator[Callable[[Any], None] | None]:
    """Show a bar for a job with an end: its rows of all rows, chunks, rows a second. Yields None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        task, shown = bars.add_task(f"{name}: starting", total=None), Meter(name)
        yield lambda progress: bars.update(
            task, description=shown.text(progress), completed=progress.rows, total=progress.total or None
        )


class Meter:
    """The text of a progress line. The rate counts from the moment at which the first rows were written."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def text(self, progress: Any) -> str:
        """Write the line for a `psoup_spark.Progress`."""
        now, (ended, tasks) = self._clock(), progress.tasks
        parts = [f"{self._name}: {progress.phase}"]
        if progress.total:
            parts.append(f"{progress.rows:,} of {counted(progress.total, 'row')}")
        if progress.rows and self._first is None:
            self._first = now, progress.rows
        if self._first is not None:
            start, rows = self._first
            rate = (progress.rows - rows) / (now - start) if now > start else 0.0
            parts.append(f"{counted(progress.chunks, 'chunk')}" + (f", {rate:,.0f} rows/s" if rate else ""))
        elif tasks:
            parts.append(f"{ended} of {counted(tasks, 'task')}")
        return ", ".join(parts)
