"""Row `derived.equal`: a hundred derived streams with one SELECT, beside one such stream.

Each stream has the counts and means of the last minute by key, each second. A push has the tuples of a second. The
steps of the pumps follow, in process, on one thread. Equal streams share the evaluation and the state. Each has its own
pushes. The rows of all streams are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Target, in_turns
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock

NAME = "derived.equal"
KEYS = 100
DAY = 86_400 * SECOND
SOURCE = "CREATE STREAM s (k BIGINT, v BIGINT, moment TIMESTAMP) TIMESTAMP BY moment RETENTION 2 MINUTES"
SELECT = "SELECT k, count(*) AS n, avg(v) AS mean FROM s [RANGE 1 MINUTE] GROUP BY k"


class Sizes(NamedTuple):
    """Tuples of a second, derived streams, and measured seconds."""

    rate: int
    streams: int
    samples: int


def rows(run: Run) -> Iterator[Row]:
    """The row."""
    yield from run.part(partial(_measured, run.of(Sizes(8_192, 100, 60), Sizes(8_192, 100, 10), Sizes(64, 5, 2))), NAME)


class Engine:
    """An engine with so many equal streams over one source."""

    def __init__(self, streams: int, rate: int) -> None:
        self.local = LocalPSoup(clock=VirtualClock(DAY))
        self.local.execute(SOURCE)
        self.names = [f"x{number}" for number in range(streams)]
        for name in self.names:
            self.local.execute(f"CREATE STREAM {name} AS ({SELECT}) EVERY 1 SECOND")
        self._rate, self._draw, self._second = rate, np.random.default_rng(48), 0
        for _ in range(2):  # the windows have tuples, and the streams have their positions
            self.turn()

    def turn(self) -> None:
        """Push the tuples of the next second, and derive from them."""
        begin = self._second * SECOND
        times = pa.array(begin + np.sort(self._draw.integers(0, SECOND, self._rate)), pa.timestamp("us"))
        values = {"k": self._draw.integers(0, KEYS, self._rate), "v": self._draw.integers(0, 1_000, self._rate)}
        self.local.push("s", pa.table({**values, "moment": times}))
        self._second += 1

    def answers(self) -> list[pa.Table]:
        """The rows of each stream."""
        return [self.local.ask(f"SELECT * FROM {name} ORDER BY _id").to_table() for name in self.names]


def _measured(sizes: Sizes) -> Iterator[Row]:
    many, single = Engine(sizes.streams, sizes.rate), Engine(1, sizes.rate)
    ours, theirs = in_turns([many.turn, single.turn], [sizes.rate] * 2, sizes.samples)
    (expected,) = single.answers()
    if any(not answer.equals(expected) for answer in many.answers()):
        raise AssertionError(f"{NAME}: the rows of equal streams differ")
    yield Row(NAME, ours.wall, "tuples/s", "one stream", theirs.wall, Target(at_least=0.05))
