"""The replay: pushes flights, arrivals and weather into their streams, flights at the pace of a replayed year."""

from __future__ import annotations

import datetime as dt
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from psoup_cli.flights.dataset import LAST_HEARTBEAT
from psoup_cli.flights.interrupt import CtrlC
from psoup_cli.flights.show import clock
from psoup_client import Client, Producer, PushResult

YEAR_SECONDS = 30.0
"""The seconds that the year takes at speed 1."""

BATCH_ROWS = 1_024


class Replay:
    """A replay of `flights` in order of departure, in steps up to given moments.

    `speed` 1 takes 30 seconds for the year, 2 half of that, 0 does not wait at all.
    """

    def __init__(self, console: Console, producer: Producer, flights: pa.Table, speed: float, ctrl_c: CtrlC) -> None:
        self._console = console
        self._producer = producer
        self._flights = flights
        self._speed = speed
        self._ctrl_c = ctrl_c
        self._done = 0
        self._busy = 0.0  # seconds of the replay, without pauses for answers

    @property
    def rate(self) -> float:
        """The flights per second so far, without pauses for answers."""
        return self._done / self._busy if self._busy else 0.0

    def until(self, moment: dt.datetime | None) -> PushResult:
        """Push all flights that left before `moment` (None: all), and wait until they are acknowledged."""
        stop = self._flights.num_rows if moment is None else self._first_at(moment)
        start_row, start = self._done, time.monotonic()
        before = self._busy
        with self._bar(stop) as (progress, task):
            while self._done < stop:
                rows = min(BATCH_ROWS, stop - self._done)
                batch = self._flights.slice(self._done, rows)
                self._ctrl_c.check()
                self._producer.push(batch)
                self._done += rows
                self._pause(start + self._due(start_row, self._done))
                self._busy = before + time.monotonic() - start
                day = clock(batch["departure"][-1].as_py())
                progress.update(task, completed=self._done, description=day, rate=f"{self.rate:,.0f} flights/s")
            result = self._producer.flush()
        self._busy = before + time.monotonic() - start
        return result

    def _first_at(self, moment: dt.datetime) -> int:
        """The first row whose departure is not before `moment`."""
        departures = self._flights["departure"]
        return bisect_left(range(len(departures)), moment, key=lambda row: departures[row].as_py())

    def _due(self, first: int, last: int) -> float:
        """The seconds for the rows `first` to `last` at this speed, in proportion to their span of departures."""
        if not self._speed or first >= last:
            return 0.0
        departures = self._flights["departure"]
        span = departures[last - 1].as_py() - departures[first].as_py()
        return span / dt.timedelta(days=365) * YEAR_SECONDS / self._speed

    @staticmethod
    def _pause(until: float) -> None:
        left = until - time.monotonic()
        if left > 0:
            time.sleep(left)

    @contextmanager
    def _bar(self, stop: int) -> Iterator[tuple[Progress, TaskID]]:
        progress = Progress(
            TextColumn("{task.description:>22}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        with progress:
            yield progress, progress.add_task("", total=self._flights.num_rows, completed=self._done, rate="")
        if not self._console.is_terminal:
            self._console.print(f"  {stop:,} of {self._flights.num_rows:,} flights, {self.rate:,.0f} flights/s")


class QuietReplay:
    """A replay of the weather or of the arrivals, in steps up to given moments, without pauses.

    `time`: the name of the column that the rows are in order of.
    """

    def __init__(self, client: Client, stream: str, rows: pa.Table, time: str) -> None:
        self._client = client
        self._stream = stream
        self._rows = rows
        self._times = rows[time]
        self._done = 0

    def until(self, moment: dt.datetime | None) -> None:
        """Push the rows before `moment` (None: before the last heartbeat), and send a heartbeat with that time."""
        end = moment or dt.datetime.fromisoformat(LAST_HEARTBEAT)
        stop = bisect_left(range(len(self._times)), end, key=lambda row: self._times[row].as_py())
        self._client.push(self._stream, self._rows.slice(self._done, stop - self._done))
        self._client.heartbeat(self._stream, end)
        self._done = stop
