"""Readers of files with rows, also from standard input, one piece at a time.

    open_rows(path, format, stream, options)  ->  pieces: rows for `Client.push`, the bytes that were read so far,
                                                  where a row is, and what was refused

The stream's schema decides how text is converted: in CSV every value, in JSON times, dates and decimals.
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from psoup_cli.files.arrow_rows import ArrowPiece, arrow_pieces, parquet_pieces
from psoup_cli.files.csv_rows import CsvColumns, CsvPiece, csv_pieces
from psoup_cli.files.header import FieldNames, HeaderRules, columns_in_order, columns_of, known_columns
from psoup_cli.files.json_rows import JsonPiece, json_pieces
from psoup_cli.files.number_form import PLAIN, NumberForm
from psoup_cli.files.options import FileOptions
from psoup_cli.files.source import COMPRESSIONS, FileSource, Text
from psoup_client import InvalidData, StreamInfo
from psoup_client.columns.convert import pushed_columns
from psoup_proto.csv_rows.field import CsvField
from psoup_proto.csv_rows.records import Records

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
"""The format for each suffix of a file's name, after the suffix of a compression."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused row: its place in the file, the reason, and its original text."""

    place: str
    reason: str
    row: str

    def __str__(self) -> str:
        return f"{self.place}{', ' if self.reason.startswith('column ') else ': '}{self.reason}"

    @property
    def number(self) -> int:
        """The number of the line or of the row."""
        return int(re.sub(r"\D", "", self.place))


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A piece of a file: rows for `Client.push`, the bytes read so far, and the place of each row (from 0).

    The place is the line of a text file, or the row of any other file, from 1. `written` returns a row's original text.
    """

    rows: Any
    position: int
    place: Callable[[int], str]
    written: Callable[[int], str]
    refused: list[Refused] = field(default_factory=list)

    def check(self) -> None:
        """Raise InvalidData for the first refused row."""
        if self.refused:
            first = self.refused[0]
            raise InvalidData(str(first), facts={"line": str(first.number)})


def format_of(path: str, choice: str | None) -> str:
    """Return the given format, or else the format for the file's name. Raises ValueError."""
    if choice:
        return choice
    if path == "-":
        raise ValueError("say what comes on standard input: --format csv, json, parquet or arrow")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a directory; name a file")
    name = Path(path)
    name = name.with_suffix("") if name.suffix.lower() in COMPRESSIONS else name
    suffix = name.suffix.lower()
    if suffix not in FORMATS:
        shown = repr(suffix) if suffix else "a name without a suffix"
        raise ValueError(f"{path}: cannot tell the format from {shown}; add --format")
    return FORMATS[suffix]


def paths_of(given: Sequence[str]) -> list[str]:
    """Find the files for names and patterns ("2024-*.csv"). The files of a pattern are sorted. Raises ValueError."""
    paths = list[str]()
    for name in given:
        matches = [name] if name == "-" or Path(name).exists() else sorted(glob.glob(name, recursive=True))
        if not matches:
            kind = "no file fits this pattern" if glob.has_magic(name) else "there is no such file"
            raise ValueError(f"{name}: {kind}")
        paths += matches
    if paths.count("-") > 1:
        raise ValueError("- is standard input, which can be read once")
    return paths


def open_rows(path: str, format: str, stream: StreamInfo, options: FileOptions) -> Iterator[FilePiece]:
    """Yield the rows of a file ("-": standard input) in pieces.

    Raises OSError, and InvalidData that names the place.
    """
    with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
        try:
            yield from _pieces(file, format, stream, options)
        except (pa.ArrowException, OSError) as problem:
            if isinstance(problem, OSError) and problem.errno is not None:
                raise  # a fault of the disk, and not of the file's content
            raise InvalidData(f"this cannot be read as {format}: {str(problem).splitlines()[0]}") from problem


def _pieces(file: BinaryIO, format: str, stream: StreamInfo, options: FileOptions) -> Iterator[FilePiece]:
    names = FieldNames(stream, rules_of(options))
    if format == "parquet":
        yield from (_of_arrow(piece) for piece in parquet_pieces(file, names, _size(file)))
        return
    source = FileSource(file)
    if format == "arrow":
        yield from (_of_arrow(piece) for piece in arrow_pieces(source, names))
        return
    text = Text(source, options.encoding)
    if format == "csv":
        for csv_piece in csv_pieces(text.read, _StreamColumns(stream, options), options):
            yield _of_csv(csv_piece, source.position)
    else:
        for json_piece in json_pieces(text.read, names):
            yield _of_json(json_piece, source.position)


def rules_of(options: FileOptions) -> HeaderRules:
    """Return the options for names."""
    return HeaderRules(options.ignore_extra, options.renames)


class _StreamColumns(CsvColumns):
    """The columns of a stream, with the types in which Arrow reads them from a CSV."""

    def __init__(self, stream: StreamInfo, options: FileOptions) -> None:
        self._stream = stream
        self._options = options
        self._renamed = [name for name, _ in options.renames]
        self._fields = {
            column.name: CsvField(column.name, self._type(column.arrow), column.type, self._form(column.arrow))
            for column in pushed_columns(stream)
        }

    def _type(self, arrow: pa.DataType) -> pa.DataType:
        """Return the type to read. Times, and dates with a format, stay text, because the SDK converts them."""
        text = pa.types.is_timestamp(arrow) or (pa.types.is_date(arrow) and self._options.times.formats)
        return pa.string() if text else arrow

    def _form(self, arrow: pa.DataType) -> NumberForm | None:
        """Return the form of a column's numbers if Arrow cannot read it."""
        t = pa.types
        number = t.is_integer(arrow) or t.is_floating(arrow) or t.is_decimal(arrow)
        return self._options.numbers if number and self._options.numbers != PLAIN else None

    def known(self, fields: Sequence[str]) -> int:
        return known_columns(fields, self._stream, self._options.header, self._renamed)

    def choose(self, fields: Sequence[str], line: int) -> list[CsvField | None]:
        if self._options.header:
            names = columns_of(fields, self._stream, rules_of(self._options), line)
        else:
            names = columns_in_order(len(fields), self._stream, line)
        return [None if name is None else self._fields[name] for name in names]


def _of_csv(piece: CsvPiece, position: int) -> FilePiece:
    return _of_text(piece.records, piece.table, piece.numbers, piece.refused, position)


def _of_json(piece: JsonPiece, position: int) -> FilePiece:
    return _of_text(piece.records, piece.rows, piece.numbers, piece.refused, position)


def _of_text(records: Records, rows: Any, numbers: Any, refused: dict[int, str], position: int) -> FilePiece:
    """Build a piece from rows of records. `numbers`: the record of each row; None if every record is a row."""
    lines, texts = cache(records.lines), cache(records.texts)  # computed at most once, and only if needed

    def number(row: int) -> int:
        return row if numbers is None else int(numbers[row])

    said = [
        Refused(f"line {lines()[at]}", why, texts()[at].decode(errors="backslashreplace"))
        for at, why in sorted(refused.items())
    ]
    return FilePiece(
        rows,
        position,
        lambda row: f"line {lines()[number(row)]}",
        lambda row: texts()[number(row)].decode(errors="backslashreplace"),
        said,
    )


def _of_arrow(piece: ArrowPiece) -> FilePiece:
    return FilePiece(piece.table, piece.position, partial(_row, piece.before), partial(_as_json, piece.table))


def _row(before: int, row: int) -> str:
    return f"row {before + row + 1:,}"


def _as_json(table: pa.Table, row: int) -> str:
    return json.dumps({name: _shown(table[name][row]) for name in table.column_names})


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value)
    except (OverflowError, ValueError):  # the year of a time or date is beyond Python's
        return str(value.value)


def _size(file: BinaryIO) -> int:
    if not file.seekable():
        return 0
    position = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(position)
    return size
