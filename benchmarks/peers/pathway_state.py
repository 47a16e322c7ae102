"""Pathway's part of `derived.distinct` and `derived.absent`, run by an interpreter of its own.

    python pathway_state.py WORK.npz    values int64[n], batch (tuples at a time), band (0: DISTINCT)
    prints {"seconds": [...], "sizes": [...]}, one of each for each batch

A connector gives the tuples batch by batch, and waits until a batch is done. Without a band, the distinct values are
counted. With one, even tuples have no odd one of their value up to so many places before them. The engine counts.
"""

import json
import logging
import sys
import threading
import time
from typing import Any

import numpy as np
import pathway as pw


class Tuple(pw.Schema):
    """A value, and the place of the tuple."""

    v: int
    t: int


class Batches(pw.io.python.ConnectorSubject):
    """Gives a batch, waits for its count, gives the next."""

    def __init__(self, values: Any, batch: int) -> None:
        super().__init__()
        rows = [{"v": v, "t": t} for t, v in enumerate(values.tolist())]
        self.batches = [rows[at : at + batch] for at in range(0, len(rows), batch)]
        self.seconds: list[float] = []
        self.sizes: list[int] = []
        self.counted = threading.Semaphore(0)

    def run(self) -> None:
        """Called by the engine, on a thread."""
        for rows in self.batches:
            start = time.perf_counter()
            for row in rows:
                self.next(**row)
            self.commit()
            self.counted.acquire()
            self.seconds.append(time.perf_counter() - start)

    def change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """A new count; each batch of a benchmark changes it."""
        if is_addition:
            self.sizes.append(row["size"])
            self.counted.release()


def main() -> None:
    """Take in all batches, and print how long each took."""
    logging.disable(logging.INFO)
    work = np.load(sys.argv[1])
    subject, band = Batches(work["values"], int(work["batch"])), int(work["band"])
    stream = pw.io.python.read(subject, schema=Tuple, autocommit_duration_ms=None)
    result = without_partner(stream, band) if band else stream.groupby(stream.v).reduce(stream.v)
    pw.io.subscribe(result.reduce(size=pw.reducers.count()), subject.change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"seconds": subject.seconds, "sizes": subject.sizes}))


def without_partner(stream: Any, band: int) -> Any:
    """The even tuples without a partner."""
    left, right = stream.filter(stream.t % 2 == 0), stream.filter(stream.t % 2 == 1)
    near = pw.temporal.interval(-band, 0)
    joined = left.interval_join_left(right, left.t, right.t, near, left.v == right.v)
    paired = joined.select(partner=right.t)
    return paired.filter(paired.partner.is_none())


if __name__ == "__main__":
    main()
