"""Answers and streams read as rows of Spark, one window at a time.

    driver:   cut the stream's time at the quantiles of its tuples       START |-------|-------|-------> NOW
    worker:   register, invoke over its own window, unregister                    each a partition

Windows that end below the watermark are final. So Spark may read partitions at different moments, or read one again.
Only the last window grows. This module does not import Spark.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from psoup.phrases import quoted
from psoup_client import Client
from psoup_client.times import to_micros
from psoup_proto.column_names import unique_names

READ_SECONDS = 86_400.0
"""The deadline of one answer in seconds. Spark may read it slowly."""


@dataclass(frozen=True, slots=True)
class QueryRead:
    """The query to invoke: a registered query, or a `statement` that is registered only for the reading."""

    address: str
    query: str = ""
    statement: str = ""
    as_of: str | None = None
    accept_truncation: bool = False

    def read(self, window: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the rows of one window in columns of `schema`; raises PSoupError. Memory: a batch."""
        with Client(self.address) as client:
            query = client.query(self.query) if self.query else client.register(self.statement)
            try:
                with query.stream(
                    as_of=self.as_of,
                    window=window,
                    accept_truncation=self.accept_truncation,
                    timeout=READ_SECONDS,
                ) as answer:
                    for batch in answer:
                        yield _fit(batch, schema)
            finally:
                if not self.query:
                    query.unregister()

    def schema(self, window: str) -> pa.Schema:
        """The columns of a registered query's answer, each with a different name."""
        with (
            Client(self.address) as client,
            client.query(self.query).stream(
                as_of=self.as_of, window=window, accept_truncation=self.accept_truncation
            ) as answer,
        ):
            schema = answer.schema
            names = unique_names(schema.names)
            return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def select(stream: str, columns: Sequence[str], condition: str = "", *, table: bool = False) -> str:
    """Write the statement that reads columns of the kept tuples, or of the rows of a `table`. A table has no window.

    `condition`: a condition in PSoup's SQL.
    """
    where = f" WHERE {condition}" if condition else ""
    window = "" if table else " BEGIN (START)"
    return f"SELECT {', '.join(map(_written, columns))} FROM {_written(stream)}{where}{window}"


def _written(name: str) -> str:
    """Quote a name for SQL. Pseudo-columns stay unquoted, because they are words of the language."""
    return name if name in ("_id", "_time") else quoted(name)


def windows(client: Client, stream: str, parts: int) -> list[str]:
    """Divide all kept tuples into `parts` windows of about equal size, disjoint and in order.

    A table has one part, without a window.
    """
    info = client.describe(stream)
    if info.primary_key:
        return [""]
    tuples = info.tuples
    query = client.register(f"SELECT _time FROM {_written(stream)}")
    try:
        backs = [tuples * (parts - part) // parts for part in range(1, parts)]
        cuts = {time for back in backs if back > 0 and (time := _time_of(query, back)) is not None}
    finally:
        query.unregister()
    bounds = [None, *sorted(cuts), None]
    return [between(begin, end) for begin, end in itertools.pairwise(bounds)]


def between(begin: int | None, end: int | None) -> str:
    """Write the window of the times begin <= t < end, in microseconds; None is unbounded."""
    start = "START" if begin is None else literal(begin)
    return f"BEGIN ({start})" if end is None else f"BEGIN ({start}) END ({literal(end - 1)})"


def literal(micros: int) -> str:
    """Write an instant as a literal for a window."""
    instant = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    return f"TIMESTAMP '{instant.isoformat(sep=' ')}'"


def _time_of(query: Any, back: int) -> int | None:
    """The time of the tuple at the `back`-th place from the end; None if there are fewer tuples."""
    end = f" END (NOW - {back - 1} ROWS)" if back > 1 else ""
    times = query.invoke(window=f"BEGIN (NOW - {back} ROWS){end}").rows()
    return to_micros(times[0][0]) if times else None


def _fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(batch.columns, schema, strict=True)], schema=schema
    )
