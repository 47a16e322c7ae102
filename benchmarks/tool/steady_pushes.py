"""Pushes at a steady pace on a thread, and the time until each is read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pyarrow as pa

from psoup_client import Client, Query


class SteadyPushes:
    """A thread that pushes to a stream every `pace_s` seconds until it is ended. `rows`: makes the rows of a push,
    from the number of pushes before it."""

    def __init__(self, client: Client, stream: str, pace_s: float, rows: Callable[[int], pa.Table]) -> None:
        self._client, self._stream, self._pace_s, self._make = client, stream, pace_s, rows
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pushes")
        self.last = (0, 0.0)
        """The sequence of the last push, and the time of its acknowledgement."""
        self._count = self._rows = 0
        self._begun = time.monotonic()

    def __enter__(self) -> SteadyPushes:
        self._begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def rate(self) -> float:
        """Tuples a second so far."""
        return self._rows / (time.monotonic() - self._begun)

    def _run(self) -> None:
        while not self._ending.wait(max(0.0, self._begun + self._pace_s * self._count - time.monotonic())):
            rows = self._make(self._count)
            sequence = self._client.push(self._stream, rows).sequence
            self._count, self._rows = self._count + 1, self._rows + len(rows)
            self.last = sequence, time.monotonic()


def delays_of(pushes: SteadyPushes, query: Query, live_s: float, warm_up: int) -> list[float]:
    """Milliseconds from an acknowledgement to the reply of a read that waits for it, for the newest push each time.

    `warm_up`: the number of first reads that are not counted.
    """
    delays, seen, until = list[float](), 0, time.monotonic() + live_s
    while time.monotonic() < until or len(delays) <= warm_up:
        sequence, acknowledged = pushes.last
        if sequence == seen:
            time.sleep(0.0002)
            continue
        seen = sequence
        query.invoke(wait_for=sequence)
        delays.append(1e3 * (time.monotonic() - acknowledged))
    return delays[warm_up:]
