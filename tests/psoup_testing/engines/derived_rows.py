"""Rows of a source in event time, and the rows that a stream over it has."""

from __future__ import annotations

import pyarrow as pa

from psoup.local import LocalPSoup
from psoup_testing.oracles.questions import again

SECOND = 1_000_000
TIMED = "(k BIGINT, at TIMESTAMP) TIMESTAMP BY at"


def rows(*values: tuple[int, float]) -> pa.Table:
    """Rows of k and at, in seconds."""
    times = pa.array([int(at * SECOND) for _, at in values], pa.timestamp("us"))
    return pa.table({"k": [k for k, _ in values], "at": times})


def shown(soup: LocalPSoup, name: str, columns: str = "*") -> list[tuple[object, ...]]:
    """The rows of a stream with their times in microseconds."""
    answer = again(soup.ask, f"SELECT {columns}, epoch_us(_time) AS instant FROM {name}").to_table().to_pylist()
    return [tuple(row.values()) for row in answer]
