"""Parquet files of any writer, opened without a change of very late times.

    INT96, a time as Spark once wrote it    in nanoseconds, the reader's default, 9999-12-31 overflows 64 bits and wraps
    read in microseconds                    9999-12-31 is right, and parts below a microsecond would be cut: refused

Other times are read in the unit of the file, and checked at their conversion.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from psoup_client import InvalidData
from psoup_client.payload import BATCH_ROWS

_UNITS = ("us", "ns", "s")

_FINER = "has nanoseconds, and a TIMESTAMP microseconds: round it"
_FARTHER = "is of a year that a TIMESTAMP cannot hold"


def open_parquet(source: Any) -> Any:
    """Open a file as `pyarrow.parquet.ParquetFile`, with INT96 times in microseconds."""
    import pyarrow.parquet as pq  # imported here: it takes 14 ms, and most commands do not need it

    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


def check_int96(parquet: Any, source: Any, wanted: Collection[str]) -> None:
    """Raise InvalidData for an INT96 time that microseconds cannot hold. The error names the row and the column.

    `wanted`: the columns to read. INT96 columns are read three times: in microseconds, nanoseconds and seconds.
    """
    import pyarrow.parquet as pq

    kinds = {column.path: column.physical_type for column in map(parquet.schema.column, range(len(parquet.schema)))}
    columns = [name for name in wanted if kinds.get(name) == "INT96"]
    if not columns:
        return
    # Without threads, because several readers of one Python file would change its position for each other.
    files = [pq.ParquetFile(source, coerce_int96_timestamp_unit=unit, pre_buffer=False) for unit in _UNITS]
    readers = [file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False) for file in files]
    before = 0
    for batches in zip(*readers, strict=True):
        for name in columns:
            micros, nanos, seconds = (_counts(batch.column(name)) for batch in batches)
            bad = (nanos != micros * 1_000) | (seconds != micros // 1_000_000)  # both sides wrap alike
            if bad.any():
                row = int(bad.argmax())
                finer = seconds[row] == micros[row] // 1_000_000
                raise InvalidData(
                    f"row {before + row + 1:,}: the time in column {name!r} {_FINER if finer else _FARTHER}",
                    facts={"column": name, "row": str(before + row)},
                )
        before += batches[0].num_rows


def _counts(times: pa.Array) -> Any:
    """Return the times as int64, with 0 for NULL."""
    return times.cast(pa.int64()).fill_null(0).to_numpy()
