"""Pathway's part of the comparison of joins. Runs in Pathway's own Python, without PSoup; see `pathway.py`.

    python -m benchmarks.peers.pathway_join WORK.npz

`WORK.npz` has `tuples` (int64[k, n]) and `batch`, the number of tuples in a batch. For a join of tuples with queries it
has `bounds` (int64[Q, p]) and `equal`: whether the first column is joined by equality. For a join of two streams it has
`near`, and the rows of `tuples` are the stream and the time.

Prints {"seconds": [...], "matches": [...]}, with one number for each batch. The queries are a table that is complete
before the first tuple. Tuples are joined with them by the symbol, or with all of them if there is no symbol.
"""

import json
import sys
from typing import Any

import numpy as np
import pandas as pd
import pathway as pw

from benchmarks.peers.pathway_batches import run_batches


def main() -> None:
    """Join all batches and print how long each took."""
    work = np.load(sys.argv[1])
    names = [f"t{k}" for k in range(len(work["tuples"]))]
    rows = [dict(zip(names, values, strict=True)) for values in work["tuples"].T.tolist()]
    schema = pw.schema_from_types(**dict.fromkeys(names, int))

    def matches(stream: Any) -> Any:
        return banded(stream, int(work["near"])) if "near" in work else bounded(stream, names, work)

    seconds, counts = run_batches(rows, int(work["batch"]), schema, matches)
    print(json.dumps({"seconds": seconds, "matches": np.diff(counts, prepend=0).tolist()}))


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
