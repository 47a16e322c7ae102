"""The progress and the lag of a feed from Kafka: a line on a terminal, else a message each minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from psoup_cli.common import message
from psoup_cli.feed_options import TOLD_SECONDS
from psoup_client.phrases import counted

_SHOWN_SECONDS = 0.5
"""The least seconds between two changes of the line."""

_SHOWN = 4
"""The most partitions whose lag is shown."""

Tell = Callable[[Callable[[], Any]], None]
"""The function that a feed calls after each read. It gets a function that computes a `psoup_kafka.Figures`."""


@contextmanager
def meter(stream: str) -> Iterator[Tell]:
    """Show rows, rows a second and the lag by partition, on standard error."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    terminal = sys.stderr.isatty()
    every = _SHOWN_SECONDS if terminal else TOLD_SECONDS
    with Bars(*columns, console=Console(file=sys.stderr), transient=True, disable=not terminal) as bar:
        task = bar.add_task(f"{stream}: waiting for records")
        line, due, shown = Line(stream), time.monotonic() + every, -1

        def tell(figures: Callable[[], Any]) -> None:
            nonlocal due, shown
            if time.monotonic() < due:
                return
            due, now = time.monotonic() + every, figures()
            if terminal:
                bar.update(task, description=line.text(now))
            elif now.rows != shown or now.lag or now.waiting:
                shown = now.rows
                message(f"{line.text(now)}.")

        yield tell


class Line:
    """The text of a line. The rate counts from the line before."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._before: tuple[int, float] = (0, 0.0)

    def text(self, figures: Any) -> str:
        """Write the line for a `psoup_kafka.Figures`."""
        (rows, seconds), self._before = self._before, (figures.rows, figures.seconds)
        rate = (figures.rows - rows) / max(figures.seconds - seconds, 1e-3)
        parts = [f"{self._stream}: {counted(figures.rows, 'row')}", f"{rate:,.0f} rows/s", behind(figures.lags)]
        return ", ".join([*parts, *_others(figures), *[figures.waiting] * bool(figures.waiting)])


def behind(lags: Any) -> str:
    """Write the lag, and the partitions that have the most of it."""
    late = sorted((each for each in lags if each.lag), key=lambda each: -each.lag)
    if not late:
        return "no lag"
    shown = ", ".join(f"partition {each.partition}: {each.lag:,}" for each in late[:_SHOWN])
    more = f", {len(late) - _SHOWN} more" if len(late) > _SHOWN else ""
    return f"{counted(sum(each.lag for each in late), 'record')} behind ({shown}{more})"


def summary(figures: Any, folder: object) -> str:
    """Write the sentence at the end of a feed."""
    parts = [f"{counted(figures.rows, 'row')} taken", *_others(figures, f" in {folder}" if folder else "")]
    return f"{', '.join(parts)}; {behind(figures.lags)}."


def _others(figures: Any, where: str = "") -> list[str]:
    parts = [(figures.poison, f"set aside{where}"), (figures.late, "too late"), (figures.ahead, "too far ahead")]
    return [f"{count:,} {words}" for count, words in parts if count]
