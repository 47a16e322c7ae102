"""PSoup beside the emulated views: it is asked for the answer, or it keeps the view as derived streams.

    asked    1,000 tuples are pushed, and the answer is invoked. Windows have rows in place of units of time
    kept     1,000 tuples are pushed, and two derived streams follow: `came` gets the rows that enter the answer, `gone`
             the rows that leave it. The view is `came` without `gone`

For `kept` a unit of time is a millisecond. A tuple leaves its window a microsecond before a unit begins. Otherwise an
equal row could enter at the same instant. Then `gone` has neither of them, but `came` of a join has the new row.

A derived stream has at most one operator with state, and no join above it. For such a query it compares the answers
EVERY 1,000 tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.reproduce.emulators.update_patterns.buffers import Array
from benchmarks.reproduce.processor_time import milliseconds
from benchmarks.reproduce.update_patterns_2005.trace import Trace
from benchmarks.tool.measure import Sample
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock

TUPLES = 1_000
"""The tuples of all links in a timed piece."""
_LOAD = 20_000
"""Units of time of a push that fills the window."""
_UNIT_US = 1_000


def asked(statement: str, links: int, tuples: Trace, window: int, repeats: int) -> tuple[float, Array]:
    """Milliseconds for 1,000 tuples and an answer, and the keys of the last answer. `statement`: with `{window}`."""
    soup = _Links(tuples, links, timed=False)
    start = soup.fill(repeats)
    query = soup.local.register(statement.format(window=f"[ROWS {window}]"))
    spent = soup.pieces(start, lambda: soup.local.invoke(query).to_table())
    return spent, soup.local.invoke(query).to_table()["key"].to_numpy()


def kept(
    statement: str, links: int, tuples: Trace, window: int, repeats: int, *, compared: bool = False
) -> tuple[float, Array]:
    """Milliseconds for 1,000 tuples and the changes that they make, and the keys of the view after the last tuple.

    `compared`: EVERY 1,000 tuples the answers are compared. The last tick is at the last tuple.
    """
    soup = _Links(tuples, links, timed=True)
    select = statement.format(window=f"[RANGE {window * _UNIT_US - 2} MICROSECONDS]")
    every = f" EVERY {soup.step} MILLISECONDS" if compared else ""
    soup.local.execute(f"CREATE STREAM came AS ISTREAM ({select}){every}")
    soup.local.execute(f"CREATE STREAM gone AS DSTREAM ({select}){every}")
    spent = soup.pieces(soup.fill(repeats), lambda: None)
    soup.close()
    view = Counter(soup.keys("came"))
    view.subtract(soup.keys("gone"))
    return spent, np.array(list(view.elements()), np.int64)


class _Links:
    """PSoup with a stream for each link. `timed`: in event time, and the last tuple comes at a multiple of `step`."""

    def __init__(self, tuples: Trace, links: int, *, timed: bool) -> None:
        self._units, self._names = tuples.sources.shape[1], [f"link{link}" for link in range(links)]
        self.step = max(TUPLES // links, 1)
        self._last = self.step * self._units * _UNIT_US
        self.local = LocalPSoup(EngineConfig(), VirtualClock(self._last))
        columns = "src BIGINT NOT NULL, pair BIGINT NOT NULL, protocol BIGINT NOT NULL"
        for name in self._names:
            self.local.execute(f"CREATE STREAM {name} ({columns}{', at TIMESTAMP) TIMESTAMP BY at' if timed else ')'}")
        self._columns = {"src": tuples.sources, "pair": tuples.pairs, "protocol": tuples.protocols}
        if timed:
            self._columns["at"] = np.tile(self._last + _UNIT_US * np.arange(1 - self._units, 1), (links, 1))

    def fill(self, repeats: int) -> int:
        """Push all tuples before the last pieces. Returns the unit of time that comes next."""
        stop = max(self._units - repeats * self.step, 0)
        for start in range(0, stop, _LOAD):
            self._push(start, min(start + _LOAD, stop))
        return stop

    def pieces(self, start: int, answer: Callable[[], object]) -> float:
        """Push the rest in pieces, with an answer after each. Returns the milliseconds of a piece (10th percentile)."""

        def piece(first: int) -> None:
            self._push(first, min(first + self.step, self._units))
            answer()

        return Sample.of([milliseconds(partial(piece, at)) for at in range(start, self._units, self.step)]).low

    def close(self) -> None:
        """Close the instant of the last tuple. Raises AssertionError if a derived stream has not all its rows."""
        for name in self._names:
            self.local.heartbeat(name, self._last + 1)
        if self.local.not_derived:
            raise AssertionError(f"streams are not derived: {self.local.not_derived}")

    def keys(self, stream: str) -> list[int]:
        """The keys of all rows of a stream."""
        keys: list[int] = self.local.ask(f"SELECT key FROM {stream}").to_table()["key"].to_pylist()
        return keys

    def _push(self, start: int, stop: int) -> None:
        for link, name in enumerate(self._names):
            table = pa.table({column: values[link, start:stop] for column, values in self._columns.items()})
            if "at" in self._columns:
                table = table.set_column(3, "at", table["at"].cast(pa.timestamp("us")))
            self.local.push(name, table)
