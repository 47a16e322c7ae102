"""Types of callers' arguments, for editors and type checkers.

push(stream, Rows)      [{"a": 1}]   {"a": [1]}   pa.Table, pandas, Polars, DuckDB: a table that speaks Arrow
delete(table, Keys)     [7, 9]       [("a", 7)]   [{"id": 7}]
register(sql, Parameters)            [1, "x"] for ? and $1      {"name": 1} for $name
register_many(sql, ParameterRows)    [(1, "x"), (2, "y")]       [{"name": 1}]   {"name": [1, 2]}   or a table
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

import pyarrow as pa


class ArrowTable(Protocol):
    """A table of any library that exports Arrow: PyArrow, pandas, Polars, DuckDB, an answer."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows by Arrow's C stream interface."""
        ...


Row = Mapping[str, object]
"""Values by the names of columns."""

Rows = ArrowTable | Sequence[Row] | Mapping[str, Iterable[object]]
"""Rows of a stream: a table, a list of dicts, or a dict of lists."""

Keys = Rows | Iterable[object]
"""Keys of rows of a table: values, tuples for a key of several columns, or rows with the columns of the key."""

Parameters = Sequence[object] | Row | None
"""Values of a statement's parameters: a list for `?` and `$1`, a dict for `$name`."""

ParameterRows = ArrowTable | Mapping[str, Iterable[object]] | Iterable[Sequence[object] | Row]
"""Values for many queries: a row for each, in the order of the parameters or by their names."""


class PandasOptions(TypedDict, total=False):
    """The options of `pyarrow.Table.to_pandas`, all optional; PyArrow describes them."""

    memory_pool: pa.MemoryPool | None
    categories: Sequence[str] | None
    strings_to_categorical: bool
    zero_copy_only: bool
    integer_object_nulls: bool
    date_as_object: bool
    timestamp_as_object: bool
    use_threads: bool
    deduplicate_objects: bool
    ignore_metadata: bool
    safe: bool
    split_blocks: bool
    self_destruct: bool
    maps_as_pydicts: str | None
    types_mapper: Callable[[pa.DataType], Any] | None
    coerce_temporal_nanoseconds: bool
