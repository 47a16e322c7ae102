"""The division of rows into rows that fit a stream, and rows with a reason why they do not.

rows ──to_table──> table                          all rows fit: the usual case, and nothing else is done
  └── one does not ──> column by column, bisected ──> rows to leave out ──to_table──> table of the remaining rows
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup_client.columns.casts import ISO, TimeOptions, failing
from psoup_client.columns.convert import (
    array_of,
    columns_for,
    columns_of_rows,
    null_reason,
    to_table,
)
from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo, StreamInfo


@dataclass(frozen=True, slots=True)
class Sifted:
    """The table of the rows that fit, their positions among the given rows, and a reason for each other position."""

    table: pa.Table
    kept: Any
    refused: dict[int, str]


def sift(data: Any, stream: StreamInfo, times: TimeOptions = ISO, text_bytes: int = 0) -> Sifted:
    """Divide the rows of an Arrow table, or dicts, into fitting and refused ones.

    `text_bytes`: the greatest size of one text (`ServerInfo.text_bytes`); 0 for no limit. Raises InvalidData for a
    fault of the whole table: an unknown column, or one of another type. O(rows + refused * log(rows)).
    """
    return _without_extremes(_fitting(data, stream, times), stream, text_bytes)


def _fitting(data: Any, stream: StreamInfo, times: TimeOptions) -> Sifted:
    try:
        table = to_table(data, stream, times)
        if not _without_time(table, stream).any():
            return Sifted(table, np.arange(table.num_rows), {})
    except InvalidData as problem:
        if not problem.facts.get("row", "").isdigit():
            raise
    refused = _refused(data, stream, times)
    rows = np.setdiff1d(np.arange(len(data)), list(refused))
    good = [data[row] for row in rows] if isinstance(data, list) else data.take(pa.array(rows, pa.int64()))
    return Sifted(to_table(good, stream, times), rows, refused)


def _without_extremes(sifted: Sifted, stream: StreamInfo, text_bytes: int) -> Sifted:
    """Refuse values that have their column's type but that the service refuses: long texts, infinite times."""
    refused = dict[int, str]()
    for column in stream.columns:
        if column.name in sifted.table.column_names:
            values = sifted.table[column.name]
            refused = (_long(values, column, text_bytes) if text_bytes else {}) | _infinite(values, column) | refused
    if not refused:
        return sifted
    others = np.setdiff1d(np.arange(sifted.table.num_rows), list(refused))
    reasons = {int(sifted.kept[row]): why for row, why in refused.items()}
    return Sifted(sifted.table.take(pa.array(others)), sifted.kept[others], sifted.refused | reasons)


def _long(values: Any, column: ColumnInfo, text_bytes: int) -> dict[int, str]:
    if not pa.types.is_string(column.arrow):
        return {}
    sizes = pc.binary_length(values)
    rows = pc.indices_nonzero(pc.fill_null(pc.greater(sizes, text_bytes), False)).to_pylist()
    said = f"bytes; {text_bytes:,} is the most in one value"
    return {row: f"the text in column {column.name!r} has {sizes[row].as_py():,} {said}" for row in rows}


def _infinite(values: Any, column: ColumnInfo) -> dict[int, str]:
    """Return a message for each row whose time or date means infinity in the system that it comes from."""
    if not (pa.types.is_timestamp(column.arrow) or pa.types.is_date(column.arrow)):
        return {}
    whole = pa.int32() if pa.types.is_date(column.arrow) else pa.int64()
    counts, last = values.cast(whole), 2 ** (whole.bit_width - 1) - 1
    said = "infinity, which is not a time here; send NULL or a time"
    return {
        row: f"the {column.type} in column {column.name!r} is {sign}{said}"
        for sign, value in (("", last), ("-", -last))
        for row in pc.indices_nonzero(pc.fill_null(pc.equal(counts, value), False)).to_pylist()
    }


def _refused(data: Any, stream: StreamInfo, times: TimeOptions) -> dict[int, str]:
    columns = columns_of_rows(data) if isinstance(data, list) else zip(data.column_names, data.columns, strict=True)
    named = list(columns)
    by_name = {column.name.lower(): column for column in columns_for(stream, [name for name, _ in named])}
    refused = dict[int, str]()
    for name, values in named:
        column = by_name[str(name).lower()]
        refused = _unfit(values, column, times) | refused
        if not column.nullable or column.name == stream.time_column:
            refused = dict.fromkeys(_nulls(values), null_reason(column, stream)) | refused
    return refused


def _unfit(values: Any, column: ColumnInfo, times: TimeOptions) -> dict[int, str]:
    """Return a message for each row whose value does not fit the column."""
    reasons = dict[int, str]()

    def attempt(low: int, high: int) -> None:
        try:
            array_of(values[low:high], column, times)
        except InvalidData as problem:
            if high - low == 1:
                reasons[low] = re.sub(r"^row \d+: ", "", problem.message)
            raise ValueError(low) from problem

    failing(len(values), attempt)
    return reasons


def _nulls(values: Any) -> Sequence[int]:
    if isinstance(values, list):
        return [row for row, value in enumerate(values) if value is None]
    missing: list[int] = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
    return missing


def _without_time(table: pa.Table, stream: StreamInfo) -> Any:
    """Return a mask of the rows without a time, if the stream has a time column."""
    if stream.time_column not in table.column_names:
        return np.zeros(1, bool)
    return table.column(stream.time_column).is_null().to_numpy()
