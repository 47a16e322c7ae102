"""Parquet files of any writer, opened so that far days keep their value.

    INT96, a time as Spark once wrote it    9999-12-31 is beyond 64 bits of nanoseconds, the reader's default: it wraps
    read in microseconds                    9999-12-31, and parts below a microsecond would be cut: they are refused

Other times are read in the unit of the file, and judged where they are converted.
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
    """Open a file, a `pyarrow.parquet.ParquetFile` with times of INT96 in microseconds."""
    import pyarrow.parquet as pq  # here, as its 14 ms are not for every command

    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


def check_int96(parquet: Any, source: Any, wanted: Collection[str]) -> None:
    """Raise InvalidData for a time of INT96 that microseconds do not hold; it names the row and the column.

    `wanted`: the columns that are to be read. Those of INT96 are read three times, in each unit that wraps or cuts.
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
    """Return the times as int64, 0 where there is none."""
    return times.cast(pa.int64()).fill_null(0).to_numpy()
