"""Rows that fit a stream, and the reason for each that does not.

rows ──to_table──> table                          they fit: the usual case, and nothing else is done
  └── one does not ──> column by column, halved ──> rows to leave out ──to_table──> table of the others
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from psoup_client.casts import ISO, TimeOptions, failing
from psoup_client.convert import array_of, columns_of_rows, to_table
from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo, StreamInfo


@dataclass(frozen=True, slots=True)
class Sifted:
    """The table of the rows that fit, their places among those given, and a reason for each other place."""

    table: pa.Table
    kept: Any
    refused: dict[int, str]


def sift(data: Any, stream: StreamInfo, times: TimeOptions = ISO) -> Sifted:
    """Part the rows of an Arrow table, or dicts, into those that fit `stream` and the others.

    Raises InvalidData for what is not the fault of single rows: a column that the stream does not have, or of another
    type. O(rows + refused * log(rows)).
    """
    try:
        table = to_table(data, stream, times)
        if not _without_time(table, stream).any():
            return Sifted(table, np.arange(table.num_rows), {})
    except InvalidData as problem:
        if not problem.facts.get("row", "").isdigit():
            raise
    refused = _refused(data, stream, times)
    kept = np.setdiff1d(np.arange(len(data)), list(refused))
    good = [data[row] for row in kept] if isinstance(data, list) else data.take(pa.array(kept, pa.int64()))
    return Sifted(to_table(good, stream, times), kept, refused)


def _refused(data: Any, stream: StreamInfo, times: TimeOptions) -> dict[int, str]:
    columns = columns_of_rows(data) if isinstance(data, list) else zip(data.column_names, data.columns, strict=True)
    known = {column.name.lower(): column for column in stream.columns}
    refused = dict[int, str]()
    for name, values in columns:
        column = known[str(name).lower()]
        refused = _unfit(values, column, times) | refused
        if not column.nullable or column.name == stream.time_column:
            why = "the stream says NOT NULL" if not column.nullable else "it is the stream's TIMESTAMP BY"
            nulls = dict.fromkeys(_nulls(values), f"{column.name!r} is NULL, but {why}")
            refused = nulls | refused
    return refused


def _unfit(values: Any, column: ColumnInfo, times: TimeOptions) -> dict[int, str]:
    """Say why values do not fit a column, by their rows."""
    found = dict[int, str]()

    def attempt(low: int, high: int) -> None:
        try:
            array_of(values[low:high], column, times)
        except InvalidData as problem:
            if high - low == 1:
                found[low] = re.sub(r"^row \d+: ", "", problem.message)
            raise ValueError(low) from problem

    failing(len(values), attempt)
    return found


def _nulls(values: Any) -> Sequence[int]:
    if isinstance(values, list):
        return [row for row, value in enumerate(values) if value is None]
    missing: list[int] = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
    return missing


def _without_time(table: pa.Table, stream: StreamInfo) -> Any:
    """Find the rows without a time, if the stream has one of its own."""
    if stream.time_column not in table.column_names:
        return np.zeros(1, bool)
    return table.column(stream.time_column).is_null().to_numpy()
