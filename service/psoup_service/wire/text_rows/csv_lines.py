"""CSV as columns of the stream's types. `psoup_proto.csv_rows` reads it, as for `psoup push`.

at,name,price                          the header: columns in any case and order; , ; tab or | between fields
2024-05-01T12:00:00Z,"a, b",1.50       an empty field is NULL
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.model import FIRST_AT, PATCH, Schema, StreamSpec
from psoup.values.kinds import arrow_type
from psoup_proto.csv_rows.faults import CsvFault, encoding_of
from psoup_proto.csv_rows.field import CsvField
from psoup_proto.csv_rows.pieces import CsvColumns, CsvOptions, CsvRules, dialect_of
from psoup_proto.csv_rows.records import Records, end_of_records
from psoup_service.wire.text_rows.faults import MOST_LISTED, Faults

_SHOWN = 80
_PLACE = re.compile(r"^line \d+: ")
_MARK = "\0"
"""Separates the column's name from the message in a reason."""

Array = Any


class CsvLines:
    """The reader of CSV for the stream `spec`."""

    def __init__(self, spec: StreamSpec, options: CsvOptions) -> None:
        self._columns = _PushedColumns(spec)
        self._options = options
        self._dialect: Any = None
        self._rules: CsvRules | None = None
        self._skipped = 0

    def cut(self, data: bytes, line: int, *, last: bool) -> int:
        """See `LineReader`."""
        if self._dialect is None:
            self._dialect, self._skipped = dialect_of(data, self._columns, self._options)
        return end_of_records(data, line, self._dialect, last=last)

    def starts(self, data: bytes, line: int) -> Array:
        """See `LineReader`."""
        return Records(data, line, self._dialect).starts()

    def most_rows(self, data: bytes, line: int) -> int:
        """See `LineReader`."""
        return len(self.starts(data, line))

    def read(self, data: bytes, line: int, schema: Schema, faults: Faults) -> tuple[pa.RecordBatch, Array]:
        """See `LineReader`."""
        if self._rules is None:
            data, line = self._headed(data, line)
        assert self._rules is not None, "the header makes them"
        if not data.strip():
            return pa.RecordBatch.from_pylist([]), np.zeros(0, np.int64)
        piece = self._rules.piece(Records(data, line, self._dialect))
        lines = np.array(piece.records.lines(), np.int64)
        for number, reason in sorted(piece.refused.items()):
            column, _, message = reason.rpartition(_MARK)
            faults.add(int(lines[number]), advised(message), column)
        places = lines if piece.numbers is None else lines[piece.numbers]
        batches = piece.table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], piece.table.schema)]
        return batches[0], places

    def _headed(self, data: bytes, line: int) -> tuple[bytes, int]:
        """Read the header. Returns the bytes after it, and their line."""
        if self._skipped:
            data, line = data[self._skipped :], line + 1
            if not data.strip():
                raise CsvFault("the body has no header: the first line has to name the columns, such as at;name;price")
        end = end_of_records(data, line, self._dialect, header=True, last=True)
        self._rules = CsvRules(
            self._columns,
            Records(data[:end], line, self._dialect),
            self._dialect,
            self._options,
            _reason_of,
            MOST_LISTED,
        )
        return data[end:], line + data.count(b"\n", 0, end)


class _PushedColumns(CsvColumns):
    """The columns of a stream that a CSV may have."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec

    def known(self, fields: Sequence[str]) -> int:
        """See `CsvColumns`."""
        return len({self._place(field) for field in fields} - {None})

    def choose(self, fields: Sequence[str], line: int) -> list[CsvField | None]:
        """See `CsvColumns`."""
        chosen, names, spec = list[CsvField | None](), set[str](), self._spec
        for field in fields:
            place = self._place(field)
            if place is None:
                raise CsvFault(f"line {line}: {self._unknown(field)}", line=line)
            attribute = spec.schema.attributes[place]
            name, kind = PATCH if place == FIRST_AT and spec.table is not None else attribute.name, attribute.type
            if name in names:
                raise CsvFault(f"line {line}: column {name!r} comes twice; give it once", line=line)
            names.add(name)
            chosen.append(CsvField(name, arrow_type(kind), str(kind)))
        return chosen

    def _place(self, field: str) -> int | None:
        """The position of a column by its name, or by the same name with blanks or hyphens for underscores."""
        name = field.strip()
        place = self._spec.schema.pushed_index(name)
        return self._spec.schema.pushed_index(re.sub(r"[ -]", "_", name)) if place is None else place

    def _unknown(self, field: str) -> str:
        names = [attribute.name for attribute in self._spec.schema.shown]
        near = difflib.get_close_matches(field.strip().lower()[:100], names[:256], 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return (
            f"the first line names {_shown(field.strip())}, and the {self._spec.noun} has no such column; {hint}its"
            f" columns are {', '.join(names[:100])}"
        )


def advised(message: str) -> str:
    """A message of the contract's reader without its place, and without options of the command."""
    message = re.sub(r"; say what the file is in, for instance --encoding (\S+)", r"; send it in UTF-8", message)
    message = re.sub(r", or say (what quotes are with --quote|--no-header)", "", message)
    message = re.sub(r"; --delimiter names another character|; if the file is UTF-16.*", "", message)
    return _PLACE.sub("", message)


def _reason_of(value: bytes, field: CsvField) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as problem:
        byte = value[problem.start : problem.end]
        why = f"byte {byte.hex(' ')} in column {field.name!r} is not utf-8; send the body in UTF-8"
        return f"{field.name}{_MARK}{why} (iconv -f {encoding_of(byte[0])} -t utf-8)"
    way_out = "write 2013-07-04T12:00:00Z" if pa.types.is_timestamp(field.arrow) else "leave NULL empty"
    return f"{field.name}{_MARK}{_shown(text)} in column {field.name!r} is not a valid {field.sql}; {way_out}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
