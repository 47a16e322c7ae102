"""The header of a CSV: the stream's column for each field.

    Order ID , PRICE,comment       the stream has order_id and price
    order_id   price  (left out)   with --ignore-extra; else an error that names the nearest column

Case and blanks around a name are ignored. Blanks, hyphens and underscores within a name are equal, if only one column
then fits. `--rename` names the column of a field, before these rules.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from psoup_cli.files.json_values import double
from psoup_client import InvalidData, StreamInfo
from psoup_client.columns.convert import columns_for, pushed_columns
from psoup_client.phrases import counted
from psoup_proto.csv_rows.dialect import DELIMITERS
from psoup_proto.json_rows.numbers import double_of_text, whole_of_text


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """The options for names: whether unknown fields are left out, and the column of each renamed field."""

    ignore_extra: bool = False
    renames: tuple[tuple[str, str], ...] = ()

    def columns(self, fields: Sequence[str], stream: StreamInfo) -> list[str | None]:
        """Return the column for each field; None for an unknown field. Raises InvalidData for a wrong rename."""
        renamed = {_named(fields, field): self._target(column, stream) for field, column in self.renames}
        return [renamed.get(field) or _column(field, stream) for field in fields]

    def column(self, field: str, stream: StreamInfo) -> str | None:
        """Return the column for one field of a JSON object, which may lack renamed fields. Raises InvalidData."""
        for name, column in self.renames:
            if _named([field], name, strict=False) is not None:
                return self._target(column, stream)
        return _column(field, stream)

    def _target(self, column: str, stream: StreamInfo) -> str:
        name = _column(column, stream)
        if name is None:
            raise InvalidData(f"--rename: {_unknown(column, stream)}", facts={"column": column})
        return name


def _named(fields: Sequence[str], name: str, *, strict: bool = True) -> str | None:
    """Find the field that an option names. Raises InvalidData if `strict` and there is none."""
    for fold in (str.strip, _folded, _loose):
        same = [field for field in fields if fold(field) == fold(name)]
        if len(same) == 1:
            return same[0]
    if not strict:
        return None
    folded = {_folded(field): field.strip() for field in fields}
    near = difflib.get_close_matches(_folded(name), folded, 1)
    hint = f"; did you mean {folded[near[0]]!r}?" if near else f", only {_shown(fields)}"
    raise InvalidData(f"--rename: the file has no {name!r}{hint}", facts={"field": name})


def columns_of(fields: Sequence[str], stream: StreamInfo, rules: HeaderRules, line: int) -> list[str | None]:
    """Return the stream's column for each field, or None for a field that is left out. Raises InvalidData."""
    columns = rules.columns(fields, stream)
    extra = [at for at, column in enumerate(columns) if column is None]
    names = ", ".join(column.name for column in stream.columns)
    if fields and len(extra) == len(fields):
        raise _refusal(
            line,
            f"{_shown(fields)} names none of the columns of {stream.kind} {stream.name!r}, which are {names}"
            + (_header_advice(fields, stream) if line else "; say --rename 'NAME=COLUMN' for each name"),
        )
    if extra and not rules.ignore_extra:
        field = fields[extra[0]].strip()
        missing = f"field {extra[0] + 1} has no name; name it, or leave it out with --ignore-extra"
        free = [column.name for column in stream.columns if column.name not in columns]
        raise _refusal(line, _unknown(field, stream) + _extra_advice(field, free) if field else missing)
    for at, column in enumerate(columns):
        if column is not None and column in columns[:at]:
            before = columns.index(column)
            raise _refusal(
                line,
                f"fields {before + 1} and {at + 1}, {fields[before].strip()!r} and {fields[at].strip()!r}, are both"
                f" column {column!r}; give one another column: --rename {shlex.quote(fields[at].strip() + '=COLUMN')}",
            )
    _check_complete(fields, columns, stream, line)
    return columns


def _check_complete(fields: Sequence[str], columns: Sequence[str | None], stream: StreamInfo, line: int) -> None:
    """Raise InvalidData if no field gives a column that needs a value."""
    given = columns_for(stream, columns)
    absent = [column for column in given if column.name not in columns]
    needed = [column for column in absent if not column.nullable or column.name == stream.time_column]
    if not needed:
        return
    missing = needed[0].name
    unused = next((field for field, column in zip(fields, columns, strict=True) if column is None and field), None)
    named = f"{stream.kind} {stream.name!r}"
    why = f"it is the {stream.kind}'s TIMESTAMP BY" if needed[0].nullable else f"{named} says NOT NULL"
    said = f"column {missing!r} is missing, and {why}"
    way = f"if {unused.strip()!r} is it, say --rename {_shell(unused, missing)}" if unused else "add it to the file"
    raise _refusal(line, f"{said}; {way}")


def _shell(field: str, column: str) -> str:
    return shlex.quote(f"{field.strip()}={column}")


def _header_advice(fields: Sequence[str], stream: StreamInfo) -> str:
    """Describe how a first line that names no column can be read."""
    if len(fields) == 1:
        for mark in DELIMITERS:
            if any(_column(part, stream) for part in fields[0].split(mark)[1:]):
                shown = "\\t" if mark == "\t" else mark
                return f"; if {shown!r} separates the fields, say --delimiter '{shown}'"
    return (
        "; if the first line is a row, say --no-header; if it has other names, --rename 'NAME=COLUMN' for each name;"
        " if the names come later, remove the lines before them"
    )


def _extra_advice(field: str, free: Sequence[str]) -> str:
    """Describe the options for a field that is not a column. `free`: the columns that no field names."""
    near = difflib.get_close_matches(_folded(field), [_folded(name) for name in free], 1)
    column = next((name for name in free if near and _folded(name) == near[0]), free[0] if len(free) == 1 else "")
    renamed = f"; --rename {_shell(field, column or 'COLUMN')} gives it a column" if free else ""
    return f"; --ignore-extra leaves others out{renamed}"


def known_columns(fields: Sequence[str], stream: StreamInfo, header: bool, renames: Sequence[str] = ()) -> int:
    """Count the stream's columns and the renamed fields that the fields name.

    Without a header, returns 1 if their number is right, else 0.
    """
    if not header:
        return int(len(fields) == len(stream.columns))
    renamed = sum(_named(fields, name, strict=False) is not None for name in renames)
    return renamed + len({_column(field, stream) for field in fields} - {None})


def columns_in_order(count: int, stream: StreamInfo, line: int) -> list[str | None]:
    """Return the stream's columns for the fields of a file without a header. Raises InvalidData for a wrong number."""
    if count != len(stream.columns):
        raise _refusal(
            line,
            f"it has {counted(count, 'value')}, and {stream.kind} {stream.name!r}"
            f" {counted(len(stream.columns), 'column')}; without a header they have to be as many",
        )
    return [column.name for column in stream.columns]


def _column(field: str, stream: StreamInfo) -> str | None:
    names = [column.name for column in pushed_columns(stream)]
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
    return f"{stream.kind} {stream.name!r} has no column {field!r}; {hint}its columns: {', '.join(names)}"


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
    texts: list[str]


_TEXTS: dict[str, Callable[[str], float]] = {"BIGINT": whole_of_text, "DOUBLE": double_of_text}
"""Types of columns whose numbers JSON may write as texts, and the functions that read those."""


def _double(value: Decimal, column: str) -> float:
    try:
        return double(value)
    except InvalidData as problem:
        raise InvalidData(f"column {column!r}: {problem.message}", facts={"column": column}) from None


class FieldNames:
    """The mapping from field names in JSON, Parquet and Arrow to the stream's columns."""

    def __init__(self, stream: StreamInfo, rules: HeaderRules) -> None:
        self._stream = stream
        self._rules = rules
        self._shapes = dict[tuple[str, ...], _NameColumns]()
        self._exact = {column.name for column in stream.columns if column.type.startswith(_EXACT)}
        self._texts = {column.name: _TEXTS[column.type] for column in stream.columns if column.type in _TEXTS}

    def wanted(self, fields: Sequence[str]) -> dict[str, str]:
        """Return the column of each field that is not left out. Raises InvalidData."""
        columns = columns_of(fields, self._stream, self._rules, 0)
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
        for column in shape.texts:
            if type(row[column]) is str:
                with suppress(ValueError):  # the SDK refuses the text, and names the row
                    row[column] = self._texts[column](row[column])
        return row

    def _shape(self, names: tuple[str, ...]) -> _NameColumns:
        """Find the columns for the names of a JSON object. Raises InvalidData."""
        columns = list[str | None]()
        for name in names:
            column = self.column(name)
            if column is not None and column in columns:
                raise InvalidData(f"column {column!r} comes twice; give it once", facts={"column": column})
            columns.append(column)
        doubles = [column for column in columns if column is not None and column not in self._exact]
        texts = [column for column in columns if column in self._texts]
        shape = _NameColumns(None if columns == [*names] else columns, doubles, texts)
        if len(self._shapes) < _SHAPES:
            self._shapes[names] = shape
        return shape

    def column(self, field: str) -> str | None:
        """The column of a field; None for one that is left out. Raises InvalidData for an unknown one."""
        column = self._rules.column(field, self._stream)
        if column is None and not self._rules.ignore_extra:
            free = [column.name for column in self._stream.columns]
            raise InvalidData(_unknown(field, self._stream) + _extra_advice(field, free), facts={"column": field})
        return column
