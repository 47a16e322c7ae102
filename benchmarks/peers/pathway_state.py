"""Pathway's part of `derived.distinct` and `derived.absent`. Runs in Pathway's own Python; see `pathway.py`.

    python -m benchmarks.peers.pathway_state WORK.npz

`WORK.npz` has `values` (int64[n]), `batch`, the number of tuples in a batch, and `band`. Prints {"seconds": [...],
"sizes": [...]}: for each batch its seconds, and the number of rows of the result after it.

If `band` is 0, the result is the distinct values. Otherwise it is the tuples at even places that have no partner: a
tuple of the same value at an odd place, at most `band` places before.
"""

import json
import sys
from typing import Any

import numpy as np
import pathway as pw

from benchmarks.peers.pathway_batches import run_batches


class Tuple(pw.Schema):
    """A value, and the place of the tuple."""

    v: int
    t: int


def main() -> None:
    """Give all batches to Pathway, and print how long each took."""
    work = np.load(sys.argv[1])
    rows, band = [{"v": v, "t": t} for t, v in enumerate(work["values"].tolist())], int(work["band"])

    def size(stream: Any) -> Any:
        result = without_partner(stream, band) if band else stream.groupby(stream.v).reduce(stream.v)
        return result.reduce(size=pw.reducers.count())

    seconds, sizes = run_batches(rows, int(work["batch"]), Tuple, size)
    print(json.dumps({"seconds": seconds, "sizes": sizes}))


def without_partner(stream: Any, band: int) -> Any:
    """The even tuples without a partner."""
    left, right = stream.filter(stream.t % 2 == 0), stream.filter(stream.t % 2 == 1)
    near = pw.temporal.interval(-band, 0)
    joined = left.interval_join_left(right, left.t, right.t, near, left.v == right.v)
    paired = joined.select(partner=right.t)
    return paired.filter(paired.partner.is_none())


if __name__ == "__main__":
    main()
