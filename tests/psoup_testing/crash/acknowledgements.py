"""The checker of crash tests. It knows how batches look and which were acknowledged, and nothing of PSoup.

    batch n of producer k in its epoch e has the rows (k, e, n, 0) … (k, e, n, size_of(n) - 1)
    found   for each k, in the order of the stream: epochs ascending; in each the batches 0 … m, whole, once, in order;
            and all that were acknowledged

    python -m psoup_testing.crash.acknowledgements acknowledged.json rows.csv    prints what is wrong; exit code 1 if
    anything is

`acknowledged.json` is a list of [producer, epoch, batches]; `rows.csv` has four integers a line.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

Row = tuple[int, int, int, int]


def size_of(number: int) -> int:
    """The number of rows of batch `number`."""
    return 1 + number * 7919 % 6


def batch_rows(producer: int, epoch: int, number: int) -> list[Row]:
    """The rows of a batch."""
    return [(producer, epoch, number, part) for part in range(size_of(number))]


def problems(acknowledged: Mapping[tuple[int, int], int], rows: Iterable[Row]) -> list[str]:
    """The faults of the rows in the stream, a sentence each; none if all is well.

    `acknowledged`: by producer and epoch, how many batches (the first ones) were.
    """
    said: list[str] = []
    present: dict[int, list[Row]] = {}
    for row in rows:
        present.setdefault(row[0], []).append(row)
    for producer in sorted(present.keys() | {k for k, _ in acknowledged}):
        mine = present.get(producer, [])
        epochs = {e for _, e, _, _ in mine} | {e for k, e in acknowledged if k == producer}
        counts = {e: 1 + max((n for _, at, n, _ in mine if at == e), default=-1) for e in epochs}
        whole = [row for e in sorted(epochs) for n in range(counts[e]) for row in batch_rows(producer, e, n)]
        if mine != whole:
            said.append(f"producer {producer}: {_difference(mine, whole)}")
        for epoch in sorted(epochs):
            acknowledged_count = acknowledged.get((producer, epoch), 0)
            if counts[epoch] < acknowledged_count:
                said.append(
                    f"producer {producer}, epoch {epoch}: {acknowledged_count} acknowledged,"
                    f" {counts[epoch]} batches found"
                )
    return said


def _difference(mine: list[Row], whole: list[Row]) -> str:
    twice, lost = len(mine) - len(set(mine)), sorted(set(whole) - set(mine))
    if lost:
        return f"{len(lost)} rows are lost, the first is {lost[0]}"
    return f"{twice} rows are there twice" if twice else "its rows are out of order"


def main(acknowledged: str, rows: str) -> int:
    """Run the program; returns its exit code."""
    counts = {(k, e): count for k, e, count in json.loads(Path(acknowledged).read_text())}
    with Path(rows).open() as lines:
        found = [(int(k), int(e), int(n), int(part)) for k, e, n, part in csv.reader(lines)]
    said = problems(counts, found)
    print("\n".join(said) or f"{len(found)} rows, all as acknowledged")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
