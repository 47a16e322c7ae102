"""Pathway's part of `derived.lookup`, run by an interpreter of its own: its packages cannot stand beside ours.

    python pathway_lookup.py WORK.npz    table int64[2, keys], tuples int64[2, n], each keys and values; batch; below
    prints {"seconds": [...], "sums": [...]}, one of each for each batch

The table is there from the start. A connector gives the tuples batch by batch, and waits until a batch is done. Those
whose value is less than `below` are joined with the present row of their key. The engine adds up what they meet.
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


class Tuple(pw.Schema):
    """A tuple of the stream."""

    k: int
    v: int


class Batches(pw.io.python.ConnectorSubject):
    """Gives a batch, waits for its sum, gives the next."""

    def __init__(self, tuples: Any, batch: int) -> None:
        super().__init__()
        rows = [{"k": k, "v": v} for k, v in tuples.T.tolist()]
        self.batches = [rows[at : at + batch] for at in range(0, len(rows), batch)]
        self.seconds: list[float] = []
        self.sums: list[int] = []
        self.added = threading.Semaphore(0)

    def run(self) -> None:
        """Called by the engine, on a thread."""
        for rows in self.batches:
            start = time.perf_counter()
            for row in rows:
                self.next(**row)
            self.commit()
            self.added.acquire()
            self.seconds.append(time.perf_counter() - start)

    def change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """A new sum; each batch of a benchmark adds something."""
        if is_addition:
            self.sums.append(row["total"])
            self.added.release()


def main() -> None:
    """Look up all batches, and print how long each took."""
    logging.disable(logging.INFO)
    work = np.load(sys.argv[1])
    subject = Batches(work["tuples"], int(work["batch"]))
    stream = pw.io.python.read(subject, schema=Tuple, autocommit_duration_ms=None)
    table = pw.debug.table_from_pandas(pd.DataFrame(work["table"].T, columns=["k", "p"]))
    selected = stream.filter(stream.v < int(work["below"]))
    joined = selected.asof_now_join(table, selected.k == table.k).select(table.p)
    pw.io.subscribe(joined.reduce(total=pw.reducers.sum(joined.p)), subject.change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"seconds": subject.seconds, "sums": np.diff(subject.sums, prepend=0).tolist()}))


if __name__ == "__main__":
    main()
