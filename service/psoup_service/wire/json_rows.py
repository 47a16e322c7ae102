"""Rows of a push in JSON: they become a record batch, as rows in Arrow IPC do.

    [{"at": "2024-05-01T12:00:00Z", "price": 1.50}, …] ── sizes ──> values ──> columns of the stream's types

The sizes are counted before the text is parsed. The contract's own code reads the values (`psoup_proto.json_rows`), as
it does for `psoup push --format json`. So both take the same values and refuse the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from psoup.errors import InvalidBatch, InvalidInput, ResourceExhausted
from psoup.model import FIRST_VERSION, PATCH, TABLE_COLUMNS, Attribute, Schema, positions
from psoup.values.kinds import arrow_type
from psoup_proto.json_rows.columns import Misfit, column, shown
from psoup_proto.json_rows.text import JsonFault, json_kind, json_value

MOST_BYTES = 1024 * 1024
"""The most bytes of rows or parameters in JSON."""

MOST_VALUES = 50_000
"""The approximate most values of rows or parameters in JSON. To read one takes a microsecond of Python."""

REASON = "JSON"
"""The reason of refusals of JSON."""


def check_size(raw: bytes, field: str, instead: str) -> int:
    """Return an upper bound of the rows in a text. Raises ResourceExhausted for a text that is too large.

    `instead`: the way for more rows. O(bytes), at a gigabyte a second.
    """
    if len(raw) > MOST_BYTES:
        raise ResourceExhausted(
            f"{field} has {len(raw):,} bytes; {MOST_BYTES:,} is the most in JSON, {instead}",
            reason="BATCH_TOO_LARGE",
            field=field,
            found=len(raw),
            limit=MOST_BYTES,
        )
    rows = raw.count(b"{")
    values = rows + raw.count(b",") + raw.count(b"[")
    if values > MOST_VALUES:
        raise ResourceExhausted(
            f"{field} has some {values:,} values; {MOST_VALUES:,} is the most in JSON, {instead}",
            reason="BATCH_TOO_LARGE",
            field=field,
            found=values,
            limit=MOST_VALUES,
        )
    return rows


def parsed(raw: bytes, field: str, kind: type[InvalidInput], *, shortest: bool = False) -> Any:
    """The value of a field in JSON. Raises `kind`, an error that names the field and the place of the fault."""
    try:
        return json_value(raw, shortest=shortest, strict=True)
    except JsonFault as problem:
        raise kind(f"{field} cannot be read: {problem}", reason=REASON, field=field) from None


def read_rows(raw: bytes, schema: Schema) -> pa.RecordBatch:
    """The rows of a push, in columns of the stream's types. A missing name is NULL. O(values).

    Raises InvalidBatch that names the row (from 0), the column and the value. All patches of a table must have the same
    columns. A name that some of them lack may mean NULL, or the value before.
    """
    if not raw:
        raise InvalidBatch("rows is empty; write an array of objects: [{…}, {…}]", reason=REASON)
    rows = parsed(raw, "rows", InvalidBatch)
    if not isinstance(rows, list):
        raise InvalidBatch(f"rows is {json_kind(rows)}; write an array of objects: [{{…}}, {{…}}]", reason=REASON)
    return columns_of(rows, schema)


def columns_of(rows: list[Any], schema: Schema) -> pa.RecordBatch:
    """Rows as parsed values of JSON, in columns of the stream's types. Raises as `read_rows` does. O(values)."""
    values = _by_column(rows, schema)
    attributes = [attribute for attribute in schema.attributes if attribute.name in values]
    if not rows:
        attributes = list(schema.shown)
    arrays = [_array(values.get(attribute.name, ()), attribute) for attribute in attributes]
    if not arrays:  # a batch without columns has no rows
        positions(schema, ())
        arrays, attributes = [pa.nulls(len(rows))], list(schema.attributes[:1])
    return pa.RecordBatch.from_arrays(arrays, [_pushed_name(attribute) for attribute in attributes])


def _pushed_name(attribute: Attribute) -> str:
    """The name of a column in a push, where `_patch` has the position of a hidden column."""
    return PATCH if attribute is FIRST_VERSION else attribute.name


def _by_column(rows: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """The values of each column that some row names, with None where a row lacks it.

    The column `_patch` has the name of the hidden column at its position.
    """
    names: dict[str, str] = {}
    columns: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise _refused(number, "", f"it is {json_kind(row)}; write an object with the values by column")
        for name, value in row.items():
            column_name = names.get(name)
            if column_name is None:
                column_name = names[name] = _column_of(name, number, schema)
            values = columns.setdefault(column_name, [])
            if len(values) > number:
                raise _refused(number, column_name, f"column {column_name!r} comes twice; give it once")
            values.extend([None] * (number - len(values)))
            values.append(value)
    for values in columns.values():
        values.extend([None] * (len(rows) - len(values)))
    if schema.takes_patches and FIRST_VERSION.name in columns:
        _check_patches(rows, columns, names)
    return columns


def _check_patches(rows: list[dict[str, Any]], columns: dict[str, list[Any]], names: dict[str, str]) -> None:
    """Raise InvalidBatch for a patch that lacks a column of another row. `names`: the column of each name."""
    needed = columns.keys() - {attribute.name for attribute in TABLE_COLUMNS}
    for number, (row, patches) in enumerate(zip(rows, columns[FIRST_VERSION.name], strict=True)):
        if patches is True and (missing := sorted(needed - {names[name] for name in row})):
            raise _refused(
                number,
                missing[0],
                f"the patch lacks {missing[0]!r}, which another row has; write null to set it to NULL, or push patches"
                " with other columns in another call",
            )


def _column_of(name: str, row: int, schema: Schema) -> str:
    place = schema.pushed_index(name)
    if place is None:
        raise _refused(
            row, name, f"the {schema.noun} has no column {shown(name)}; its columns are {', '.join(schema.names[:100])}"
        )
    return schema.attributes[place].name


def _array(values: Sequence[Any], attribute: Attribute) -> pa.Array:
    try:
        return column(values, arrow_type(attribute.type))
    except Misfit as problem:
        raise _refused(
            problem.row,
            _pushed_name(attribute),
            f"{problem.shown} in column {_pushed_name(attribute)!r} is not a valid {attribute.type}; {problem.way_out}",
        ) from None


def _refused(row: int, name: str, why: str) -> InvalidBatch:
    facts = {"column": name[:100].encode(errors="replace").decode()} if name else {}
    return InvalidBatch(f"row {row}: {why}", reason=REASON, row=row, **facts)
