"""Values of PostgreSQL in text form, and the columns of a table that take them.

    int2 int4 int8 oid     BIGINT         timestamp timestamptz   TIMESTAMP
    float4 float8          DOUBLE         date                    DATE
    numeric(p, s)          DECIMAL(p,s)   bool                    BOOLEAN
    any other type         TEXT, in PostgreSQL's text form

A column may also have a wider type: each type of PostgreSQL goes into TEXT. Nothing is rounded: a value that does not
fit is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from psoup_cdc.pgoutput import SourceColumn
from psoup_client.errors import FailedPrecondition, InvalidData
from psoup_client.schema import ColumnInfo

_BOOL, _NUMERIC, _DATE = 16, 1700, 1082
_INTEGERS = frozenset({20, 21, 23, 26})
_FLOATS = frozenset({700, 701})
_WITH_ZONE = 1184
_TIMESTAMPS = frozenset({1114, _WITH_ZONE})
MOST_DIGITS = 18
"""The most digits of a DECIMAL."""


def type_of(column: SourceColumn) -> str:
    """The type of the table's column that takes a column of PostgreSQL without loss.

    Raises FailedPrecondition for a NUMERIC that no DECIMAL holds.
    """
    kind = column.type_id
    if kind == _NUMERIC:
        precision, scale = (column.modifier - 4) >> 16, (column.modifier - 4) & 0x7FF
        if column.modifier < 0 or precision > MOST_DIGITS or scale > precision:
            raise FailedPrecondition(
                f"column {column.name!r} is a NUMERIC that no DECIMAL of up to {MOST_DIGITS} digits holds; create the"
                " table first, and choose DECIMAL, DOUBLE or TEXT for it",
                reason="SOURCE_TYPE",
                facts={"column": column.name},
            )
        return f"DECIMAL({precision},{scale})"
    for kinds, name in ((_INTEGERS, "BIGINT"), (_FLOATS, "DOUBLE"), (_TIMESTAMPS, "TIMESTAMP")):
        if kind in kinds:
            return name
    return {_BOOL: "BOOLEAN", _DATE: "DATE"}.get(kind, "TEXT")


def fits(column: SourceColumn, target: ColumnInfo) -> bool:
    """Whether values of a column of PostgreSQL may go into a column of the table."""
    kind, name = column.type_id, target.type.partition("(")[0]
    if name == "TEXT":
        return True
    if name in ("BIGINT", "DECIMAL"):
        return kind in _INTEGERS or kind == _NUMERIC
    if name == "DOUBLE":
        return kind in _INTEGERS or kind in _FLOATS or kind == _NUMERIC
    if name == "TIMESTAMP":
        return kind in _TIMESTAMPS or kind == _DATE
    return kind == (_BOOL if name == "BOOLEAN" else _DATE)


def to_column(values: pa.Array, type_id: int, target: ColumnInfo) -> pa.Array:
    """Convert values in text form, an array of strings, to the type of a column. O(bytes).

    `type_id`: the OID of their type in PostgreSQL. The session's zone is UTC.
    Raises InvalidData, which names the column and the first value that does not fit.
    """
    try:
        return _cast(values, type_id, target)
    except pa.ArrowException:
        for value in values:
            try:
                _cast(pa.array([value.as_py()], pa.string()), type_id, target)
            except pa.ArrowException as problem:
                raise InvalidData(
                    f"the value {value.as_py()!r} of column {target.name!r} is not a valid {target.type}; change it"
                    " before the first copy, or begin anew with a table that has TEXT there",
                    reason="SOURCE_VALUE",
                    facts={"column": target.name, "value": str(value.as_py())},
                ) from problem
        raise


def texts(cells: Sequence[bytes | None]) -> pa.Array:
    """Make an array of strings of values in text form. O(bytes)."""
    return pa.array(cells, pa.binary()).cast(pa.string())


def _cast(values: pa.Array, type_id: int, target: ColumnInfo) -> pa.Array:
    if target.arrow == pa.string():
        return values
    if target.arrow == pa.bool_():
        return pc.equal(values, "t")
    if target.type == "TIMESTAMP" and type_id != _WITH_ZONE:  # without a zone the time is taken as UTC
        values = values.cast(pa.timestamp("us"))
    return values.cast(target.arrow)
