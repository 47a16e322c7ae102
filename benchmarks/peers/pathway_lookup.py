"""Pathway's part of `derived.lookup`. Runs in Pathway's own Python, without PSoup; see `pathway.py`.

    python -m benchmarks.peers.pathway_lookup WORK.npz

`WORK.npz` has `table` (int64[2, keys]) and `tuples` (int64[2, n]), each with keys and values. It also has `below`, and
`batch`, the number of tuples in a batch. Prints {"seconds": [...], "sums": [...]}, with one number for each batch.

The table is complete before the first tuple. Tuples with a value less than `below` are joined with the row that their
key has at that moment. Pathway adds up the values of these rows.
"""

import json
import sys
from typing import Any

import numpy as np
import pandas as pd
import pathway as pw

from benchmarks.peers.pathway_batches import run_batches


class Tuple(pw.Schema):
    """A tuple of the stream."""

    k: int
    v: int


def main() -> None:
    """Look up all batches, and print how long each took."""
    work = np.load(sys.argv[1])
    rows = [{"k": k, "v": v} for k, v in work["tuples"].T.tolist()]

    def total(stream: Any) -> Any:
        table = pw.debug.table_from_pandas(pd.DataFrame(work["table"].T, columns=["k", "p"]))
        selected = stream.filter(stream.v < int(work["below"]))
        joined = selected.asof_now_join(table, selected.k == table.k).select(table.p)
        return joined.reduce(total=pw.reducers.sum(joined.p))

    seconds, totals = run_batches(rows, int(work["batch"]), Tuple, total)
    print(json.dumps({"seconds": seconds, "sums": np.diff(totals, prepend=0).tolist()}))


if __name__ == "__main__":
    main()
