"""Row `amount.activated`: pushes while 100,000 inactive queries become active in one call.

    service in memory    a stream of four chunks, the last of them half full; 100,000 inactive queries of one template
    pushers              threads that push 20 tuples each time, at a steady pace
    alone                the 99th percentile of their pushes while nothing else happens
    meanwhile            the same of the pushes that ended while the call `alter_queries(…, active=True)` lasted, or in
                         the second after it, in which old chunks are covered

A round activates all queries, and makes them inactive again, which is not measured. The pushes of all rounds are taken
together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from psoup_client import Client

CHUNK = 65_536
BATCH = 16_384
TUPLES = 3 * CHUNK + CHUNK // 2
CREATE = "CREATE STREAM trades (symbol TEXT, price BIGINT) RETENTION 262144 ROWS"
TEMPLATE = "SELECT * FROM trades WHERE symbol = $symbol AND price BETWEEN $low AND $high"
SYMBOLS, PRICES = 10_000, 1_000
GROUP = {"group": "all"}
PUSHERS = 20
PUSHES = 20.0
"""Pushes a second of each pusher."""
ROWS = 20
AFTER_S = 1.0
"""The time after a call that belongs to its round."""


class _Push(NamedTuple):
    """The times of a push, in seconds of the monotonic clock."""

    begin: float
    end: float


def rows(run: Run) -> Iterator[Row]:
    """The row of the table."""
    yield from run.part(lambda: _measured(run), "amount.activated")


def _measured(run: Run) -> Iterator[Row]:
    count, rounds = run.of(100_000, 100_000, 200), run.of(8, 4, 1)
    with processes.service() as address, Client(address) as client:
        client.create_stream(CREATE)
        for number in range(run.of(TUPLES, TUPLES, BATCH) // BATCH):
            client.push("trades", _trades(BATCH, number))
        client.register_many(TEMPLATE, _values(count), labels=["group"], active=False)
        with _Pushers(address) as pushers:
            calls, alone = list[float](), list[_Push]()
            meanwhile = list[_Push]()
            for number in range(rounds + 1):
                before = pushers.during(run.of(2 * AFTER_S, 2 * AFTER_S, 0.1))
                begin = time.monotonic()
                altered = client.alter_queries(labels=GROUP, active=True)
                spent = time.monotonic() - begin
                pushers.during(run.of(AFTER_S, AFTER_S, 0.1))
                if altered.changed != count:
                    raise AssertionError(f"{altered.changed} of {count} queries were changed")
                if number:  # the first round is warm-up
                    calls.append(spent)
                    alone += before
                    meanwhile += pushers.since(begin)
                client.alter_queries(labels=GROUP, active=False)
                pushers.during(run.of(2 * AFTER_S, 2 * AFTER_S, 0.1))
    ours, theirs = _p99(meanwhile), _p99(alone)
    note = (
        f"amount.activated: the call takes {1e3 * float(np.median(calls)):,.0f} ms; the slowest push meanwhile"
        f" {ours.high:,.0f} ms, alone {theirs.high:,.0f} ms"
    )
    yield Row("amount.activated", ours, "ms", "pushes alone", theirs, Target(at_most=2), note, {"calls": calls})


def _values(count: int) -> pa.Table:
    numbers = np.arange(count)
    low = numbers // SYMBOLS
    columns = {"symbol": _symbols(numbers % SYMBOLS), "low": low, "high": low + PRICES // 4}
    return pa.table({**columns, "group": ["all"] * count})


def _symbols(numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array([f"S{number}" for number in numbers.tolist()])


def _trades(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    symbols = _symbols(random.integers(0, SYMBOLS, count))
    return pa.table({"symbol": symbols, "price": random.integers(0, PRICES, count)})


def _p99(pushes: list[_Push]) -> Sample:
    """The 99th percentile in milliseconds, beside the median and the slowest."""
    spent = [1e3 * (push.end - push.begin) for push in pushes]
    return Sample(float(np.percentile(spent, 99)), float(np.median(spent)), max(spent), len(spent))


class _Pushers:
    """Threads that push until the end of the context."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ended = threading.Event()
        self._pushes: list[_Push] = []
        self._errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._push, args=(number,)) for number in range(PUSHERS)]

    def __enter__(self) -> _Pushers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def during(self, seconds: float) -> list[_Push]:
        """Wait, and return the pushes of this time."""
        begin = time.monotonic()
        self._ended.wait(seconds)
        return self.since(begin)

    def since(self, begin: float) -> list[_Push]:
        """The pushes that ended after a moment."""
        return [push for push in self._pushes if push.end >= begin]

    def _push(self, number: int) -> None:
        table = _trades(ROWS, number)
        due = time.monotonic() + number / PUSHES / PUSHERS
        try:
            with Client(self._address) as client:
                while not self._ended.wait(max(due - time.monotonic(), 0)):
                    due = max(due + 1 / PUSHES, time.monotonic())
                    begin = time.monotonic()
                    client.push("trades", table)
                    self._pushes.append(_Push(begin, time.monotonic()))
        except Exception as error:  # a push that is refused is an error of the row
            self._errors.append(error)
