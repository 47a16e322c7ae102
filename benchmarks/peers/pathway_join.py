"""Pathway's part of the comparison, run by an interpreter of its own: its packages cannot stand beside ours.

    python pathway_join.py WORK.npz    bounds int64[Q, p], tuples int64[k, n], batch (tuples at a time), equal (whether
                                       the first column is joined by equality)
                                       or, of a band, tuples (which stream, time) and near
    prints {"seconds": [...], "matches": [...]}, one of each for each batch

The queries are a table that is there from the start. A connector gives the tuples batch by batch and waits until one is
done. They are joined with the queries by the symbol, or with all queries if there is none. What matches is counted by
the engine: a callback in Python for each pair would take most of the time.
"""

import json
import logging
import sys
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pathway as pw


class Batches(pw.io.python.ConnectorSubject):
    """Gives a batch, waits for its count, gives the next."""

    def __init__(self, tuples: Any, batch: int) -> None:
        super().__init__()
        names = [f"t{k}" for k in range(len(tuples))]
        rows = [dict(zip(names, values, strict=True)) for values in tuples.T.tolist()]
        self.batches = [rows[at : at + batch] for at in range(0, len(rows), batch)]
        self.seconds: list[float] = []
        self.matches: list[int] = []
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
        """A new count; each batch of a benchmark matches something."""
        if is_addition:
            self.matches.append(row["matches"])
            self.counted.release()


def main() -> None:
    """Join all batches and print how long each took."""
    logging.disable(logging.INFO)
    work = np.load(sys.argv[1])
    subject = Batches(work["tuples"], int(work["batch"]))
    names = [f"t{k}" for k in range(len(work["tuples"]))]
    schema = pw.schema_from_types(**dict.fromkeys(names, int))
    left = pw.io.python.read(subject, schema=schema, autocommit_duration_ms=None)
    counted = banded(left, int(work["near"])) if "near" in work else bounded(left, names, work)
    pw.io.subscribe(counted, subject.change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"seconds": subject.seconds, "matches": np.diff(subject.matches, prepend=0).tolist()}))


def banded(both: Any, near: int) -> Any:
    """Pairs of tuples of two streams (t0: which, t1: its time) whose times are near."""
    left, right = both.filter(both.t0 == 0), both.filter(both.t0 == 1)
    joined = left.interval_join(right, left.t1, right.t1, pw.temporal.interval(-near, near))
    return joined.select(time=left.t1).reduce(matches=pw.reducers.count())


def bounded(left: Any, names: list[str], work: Any) -> Any:
    """Pairs of a tuple and a query that it satisfies."""
    bounds = work["bounds"]
    right = pw.debug.table_from_pandas(pd.DataFrame(bounds, columns=[f"q{k}" for k in range(bounds.shape[1])]))
    equal = int(work["equal"])
    joined = left.join(right, left.t0 == right.q0) if equal else left.join(right)
    inside: Any = True
    for k in range(equal, len(names)):
        low, high = right[f"q{2 * k - equal}"], right[f"q{2 * k - equal + 1}"]
        inside = (low <= left[f"t{k}"]) & (left[f"t{k}"] < high) & inside
    return joined.filter(inside).reduce(matches=pw.reducers.count())


if __name__ == "__main__":
    main()
