"""The first line of a CSV: which of the stream's columns each of its fields is.

    Order ID , PRICE,comment       the stream has order_id and price
    order_id   price  (left out)   with --ignore-extra; else an error that names the nearest column

Case and blanks around a name do not count; blanks, hyphens and underscores within are the same, if that leaves one
column.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from psoup_client import InvalidData, StreamInfo
from psoup_client.wording import counted


def columns_of(fields: Sequence[str], stream: StreamInfo, ignore_extra: bool, line: int) -> list[str | None]:
    """Return the stream's column of each field, None for one that is left out; raises InvalidData."""
    found = [_column(field, stream) for field in fields]
    extra = [at for at, column in enumerate(found) if column is None]
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
    for at, column in enumerate(found):
        if column is not None and column in found[:at]:
            before = found.index(column)
            raise _refusal(
                line,
                f"fields {before + 1} and {at + 1}, {fields[before].strip()!r} and {fields[at].strip()!r}, are both"
                f" column {column!r}; rename one",
            )
    return found


def known_columns(fields: Sequence[str], stream: StreamInfo, header: bool) -> int:
    """Count the stream's columns that the fields name; without a header, 1 if they are as many."""
    if not header:
        return int(len(fields) == len(stream.columns))
    return len({_column(field, stream) for field in fields} - {None})


def columns_in_order(count: int, stream: StreamInfo, line: int) -> list[str | None]:
    """Return the stream's columns for the fields of a file without a header; raises InvalidData."""
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


def _refusal(line: int, what: str) -> InvalidData:
    return InvalidData(f"line {line}: {what}", facts={"line": str(line)}) if line else InvalidData(what)


class Names:
    """The stream's columns for names of fields that come with the rows: in JSON, Parquet and Arrow."""

    def __init__(self, stream: StreamInfo, ignore_extra: bool) -> None:
        self._stream, self._ignore = stream, ignore_extra
        self._found: dict[str, str | None] = {}

    def wanted(self, fields: Sequence[str]) -> dict[str, str]:
        """Return the column of each field that is wanted; raises InvalidData."""
        columns = columns_of(fields, self._stream, self._ignore, 0)
        return {field: column for field, column in zip(fields, columns, strict=True) if column is not None}

    def of_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row by the stream's columns; raises InvalidData."""
        named = dict[str, Any]()
        for field, value in row.items():
            if field not in self._found:
                self._found[field] = self._column(field)
            column = self._found[field]
            if column in named:
                raise InvalidData(f"column {column!r} comes twice; give it once", facts={"column": column})
            if column is not None:
                named[column] = value
        return named

    def _column(self, field: str) -> str | None:
        column = _column(field, self._stream)
        if column is None and not self._ignore:
            raise InvalidData(_unknown(field, self._stream), facts={"column": field})
        return column
