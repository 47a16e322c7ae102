"""Parameters of statements off the wire: the columns of an Arrow table as rows of plain values.

    table (a: int64, b: timestamp)  ->  ("a", "b"), [(7, datetime), ...]

What a value means where it stands is the binder's business; here is only what can be told as a Python value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from psoup.errors import InvalidInput
from psoup.query import Parameter


def parameter_rows(table: pa.Table) -> tuple[tuple[str, ...], list[tuple[Parameter, ...]]]:
    """The names of the columns, and the rows. Raises InvalidInput for a type that no constant has. O(values)."""
    if not table.num_columns:
        raise InvalidInput("parameters has no columns; give one for each parameter", field="parameters")
    columns = [_values(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    return tuple(table.column_names), list(zip(*columns, strict=True))


def _values(name: str, column: pa.ChunkedArray) -> list[Any]:
    t, kind = pa.types, column.type
    try:
        if t.is_dictionary(kind):
            column = column.cast(kind.value_type)
            kind = column.type
        if t.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", "UTC" if kind.tz is not None else None))
        elif t.is_float16(kind):
            column = column.cast(pa.float64())
        plain = (t.is_null, t.is_boolean, t.is_integer, t.is_floating, t.is_decimal, t.is_timestamp, t.is_date)
        text = (t.is_string, t.is_large_string, t.is_string_view)
        if any(holds(kind) for holds in plain + text):
            values: list[Any] = column.to_pylist()
            return values
    except (pa.ArrowException, ValueError, OverflowError) as problem:
        said = str(problem).splitlines()[0][:200]
        raise InvalidInput(f"column {name!r} of parameters: {said}", field="parameters", column=name) from problem
    raise InvalidInput(
        f"column {name!r} of parameters is {kind}; a parameter is a number, a text, a time, a date or a BOOLEAN",
        field="parameters",
        column=name,
    )
