"""The header of a CSV: the stream's column for each field.

    Order ID , PRICE,comment       the stream has order_id and price
    order_id   price  (left out)   with --ignore-extra; else an error that names the nearest column

Case and blanks around a name are ignored. Blanks, hyphens and underscores within a name are equal, if only one column
then fits.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from psoup_cli.files.json_values import double
from psoup_client import InvalidData, StreamInfo
from psoup_client.phrases import counted
from psoup_proto.json_rows.numbers import double_of_text, whole_of_text


def columns_of(fields: Sequence[str], stream: StreamInfo, ignore_extra: bool, line: int) -> list[str | None]:
    """Return the stream's column for each field, or None for a field that is left out. Raises InvalidData."""
    columns = [_column(field, stream) for field in fields]
    extra = [at for at, column in enumerate(columns) if column is None]
    names = ", ".join(column.name for column in stream.columns)
    if fields and len(extra) == len(fields):
        raise _refusal(
            line,
            f"{_shown(fields)} names none of the columns of stream {stream.name!r}, which are {names}"
            + ("; if the first line is a row, say --no-header" if line else ""),
        )
    if extra and not ignore_extra:
        field = fields[extra[0]].strip()
        missing = f"field {extra[0] + 1} has no name; name it, or leave it out with --ignore-extra"
        raise _refusal(line, _unknown(field, stream) if field else missing)
    for at, column in enumerate(columns):
        if column is not None and column in columns[:at]:
            before = columns.index(column)
            raise _refusal(
                line,
                f"fields {before + 1} and {at + 1}, {fields[before].strip()!r} and {fields[at].strip()!r}, are both"
                f" column {column!r}; rename one",
            )
    return columns


def known_columns(fields: Sequence[str], stream: StreamInfo, header: bool) -> int:
    """Count the stream's columns that the fields name. Without a header, returns 1 if their number is right, else 0."""
    if not header:
        return int(len(fields) == len(stream.columns))
    return len({_column(field, stream) for field in fields} - {None})


def columns_in_order(count: int, stream: StreamInfo, line: int) -> list[str | None]:
    """Return the stream's columns for the fields of a file without a header. Raises InvalidData for a wrong number."""
    if count != len(stream.columns):
        raise _refusal(
            line,
            f"it has {counted(count, 'value')}, and stream {stream.name!r}"
            f" {counted(len(stream.columns), 'column')}; without a header they have to be as many",
        )
    return [column.name for column in stream.columns]


def _column(field: str, stream: StreamInfo) -> str | None:
    names = [column.name for column in stream.columns]
    for fold in (str.strip, _folded, _loose):
        same = [name for name in names if fold(name) == fold(field)]
        if len(same) == 1:
            return same[0]
    return None


def _folded(name: str) -> str:
    return name.strip().casefold()


def _loose(name: str) -> str:
    return re.sub(r"[\s_\-]+", "_", _folded(name))


def _unknown(field: str, stream: StreamInfo) -> str:
    names = [column.name for column in stream.columns]
    near = difflib.get_close_matches(_folded(field), [_folded(name) for name in names], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"stream {stream.name!r} has no column {field!r}; {hint}its columns: {', '.join(names)};"
        " --ignore-extra leaves others out"
    )


def _shown(fields: Sequence[str]) -> str:
    text = ", ".join(field.strip() for field in fields)
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _refusal(line: int, problem: str) -> InvalidData:
    return InvalidData(f"line {line}: {problem}", facts={"line": str(line)}) if line else InvalidData(problem)


_EXACT = ("BIGINT", "DECIMAL", "TIMESTAMP")
"""Types of columns with exact numbers. A conversion to doubles could change these."""


_SHAPES = 256
"""The greatest number of distinct lists of names whose columns are cached."""


@dataclass(frozen=True, slots=True)
class _NameColumns:
    """The columns for the names of a JSON object. `columns` is None if each name is its column.

    `doubles`: the columns whose numbers become doubles. `texts`: the columns whose texts may be numbers.
    """

    columns: list[str | None] | None
    doubles: list[str]
    texts: list[tuple[str, Callable[[str], float]]]


_TEXTS: dict[str, Callable[[str], float]] = {"BIGINT": whole_of_text, "DOUBLE": double_of_text}
"""Types of columns whose numbers JSON may write as texts, and the functions that read those."""


def _double(value: Decimal, column: str) -> float:
    try:
        return double(value)
    except InvalidData as problem:
        raise InvalidData(f"column {column!r}: {problem.message}", facts={"column": column}) from None


class FieldNames:
    """The mapping from field names in JSON, Parquet and Arrow to the stream's columns."""

    def __init__(self, stream: StreamInfo, ignore_extra: bool) -> None:
        self._stream = stream
        self._ignore = ignore_extra
        self._shapes = dict[tuple[str, ...], _NameColumns]()
        self._exact = {column.name for column in stream.columns if column.type.startswith(_EXACT)}
        self._texts = {column.name: _TEXTS[column.type] for column in stream.columns if column.type in _TEXTS}

    def wanted(self, fields: Sequence[str]) -> dict[str, str]:
        """Return the column of each field that is not left out. Raises InvalidData."""
        columns = columns_of(fields, self._stream, self._ignore, 0)
        return {field: column for field, column in zip(fields, columns, strict=True) if column is not None}

    def of_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Rename the fields of a JSON row to the stream's columns, and drop ignored fields. Raises InvalidData.

        A Decimal becomes a double, except in the columns of exact types. The digits of a BIGINT, and NaN and infinity
        of a DOUBLE, may be texts.
        """
        names = tuple(row)
        shape = self._shapes.get(names) or self._shape(names)
        if shape.columns is not None:
            pairs = zip(shape.columns, row.values(), strict=True)
            row = {column: value for column, value in pairs if column is not None}
        for column in shape.doubles:
            if type(row[column]) is Decimal:
                row[column] = _double(row[column], column)
        for column, read in shape.texts:
            if type(row[column]) is str:
                with suppress(ValueError):  # the SDK refuses the text, and names the row
                    row[column] = read(row[column])
        return row

    def _shape(self, names: tuple[str, ...]) -> _NameColumns:
        """Find the columns for the names of a JSON object. Raises InvalidData."""
        columns = list[str | None]()
        for name in names:
            column = self._column(name)
            if column is not None and column in columns:
                raise InvalidData(f"column {column!r} comes twice; give it once", facts={"column": column})
            columns.append(column)
        doubles = [column for column in columns if column is not None and column not in self._exact]
        texts = [(column, self._texts[column]) for column in columns if column in self._texts]
        shape = _NameColumns(None if columns == [*names] else columns, doubles, texts)
        if len(self._shapes) < _SHAPES:
            self._shapes[names] = shape
        return shape

    def _column(self, field: str) -> str | None:
        column = _column(field, self._stream)
        if column is None and not self._ignore:
            raise InvalidData(_unknown(field, self._stream), facts={"column": field})
        return column
