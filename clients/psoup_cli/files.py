"""Files of rows, read piece by piece: CSV, JSON lines, Parquet, Arrow; also from standard input.

    open_rows(path, format, stream)  ->  pieces: rows for `Client.push`, bytes read so far, and where a row is

The stream's schema says how text is read: in CSV every value is text, in JSON times, dates and decimals are.
"""

from __future__ import annotations

import contextlib
import io
import json
import select
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from psoup_cli.csv_files import csv_pieces
from psoup_cli.csv_records import Records
from psoup_client import InvalidData, StreamInfo
from psoup_client.payload import BATCH_ROWS

FORMATS = {
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
"""Formats by the end of a file's name."""

_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Rows as `Client.push` takes them, how many bytes were read so far, and where a row (from 0) is in the file.

    Of a text that is the line, from 1, of other files the row, from 1.
    """

    rows: Any
    position: int
    place: Callable[[int], str]


def format_of(path: str, asked: str | None) -> str:
    """The format that was asked for, or the one that the name says; raises ValueError."""
    if asked:
        return asked
    if path == "-":
        raise ValueError("say what comes on standard input: --format csv, json, parquet or arrow")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a directory; name a file")
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        name = repr(suffix) if suffix else "a name without a suffix"
        raise ValueError(f"{path}: cannot tell the format from {name}; add --format")
    return FORMATS[suffix]


def open_rows(path: str, format: str, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[FilePiece]:
    """The rows of a file ("-": standard input), in pieces; raises InvalidData that names the place, or OSError."""
    reader = {"csv": _csv, "json": _json_lines, "parquet": _parquet, "arrow": _arrow}[format]
    with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
        try:
            yield from reader(file, stream, nulls)
        except UnicodeDecodeError as problem:
            raise InvalidData(f"this is not UTF-8, as {format} has to be: {problem}") from problem
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise InvalidData(f"this cannot be read as {format}: {str(problem).splitlines()[0]}") from problem


def _csv(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[FilePiece]:
    types = {column.name.lower(): _csv_type(column.arrow) for column in stream.columns}

    def options(names: list[str]) -> pyarrow.csv.ConvertOptions:
        return pyarrow.csv.ConvertOptions(
            column_types={name: types[name.lower()] for name in names if name.lower() in types},
            null_values=list(nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["true", "TRUE", "True", "t", "1"],
            false_values=["false", "FALSE", "False", "f", "0"],
        )

    for piece in csv_pieces(file.read if file.seekable() else partial(_what_has_come, file), options):
        done = piece.records.offset + len(piece.records.data)
        yield FilePiece(piece.table, done, partial(_csv_line, piece.records))


def _csv_line(records: Records, row: int) -> str:
    return f"line {records.line_of(row)}"


def _what_has_come(file: Any, size: int) -> bytes:
    """Read the bytes that a pipe has now, up to `size`; none at its end."""
    parts, count = [file.read1(size)], 0
    while parts[-1] and (count := count + len(parts[-1])) < size and _ready(file):
        parts.append(file.read1(size - count))
    return b"".join(parts)


def _csv_type(arrow: pa.DataType) -> pa.DataType:
    """Times stay text: the SDK reads them with and without a zone."""
    return pa.string() if pa.types.is_timestamp(arrow) else arrow


def _json_lines(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[FilePiece]:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    number = done = size = 0
    for line in _lines(file):
        number += bool(line)
        done += len(line)
        size += len(line)
        if line.strip():
            rows.append(_json_row(line, number))
            lines.append(number)
        if rows and (len(rows) == BATCH_ROWS or size >= _READ_BYTES or not line):
            yield FilePiece(rows, done, partial(_json_line, lines))
            rows, lines, size = [], [], 0
    if rows:
        yield FilePiece(rows, done, partial(_json_line, lines))


def _json_line(lines: list[int], row: int) -> str:
    return f"line {lines[row]}"


def _lines(file: Any) -> Iterator[bytes]:
    """The lines; an empty one where a pipe has no more for now: who tails a file wants in what has come."""
    if file.seekable():
        yield from file
        return
    rest = b""
    while block := file.read1(_READ_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in whole)
        if not _ready(file):
            yield b""
    yield rest


def _ready(file: Any) -> bool:
    """Whether reading would not wait; False where a pipe cannot be asked."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _json_row(line: bytes, number: int) -> dict[str, Any]:
    row = json_of(line, number)
    if not isinstance(row, dict):
        raise InvalidData(f"line {number} is {json_kind(row)}; write one object on each line")
    return row


def json_kind(value: Any) -> str:
    """Name the kind of a JSON value."""
    kinds = {dict: "an object", list: "an array", str: "a string", int: "a number", float: "a number"}
    return kinds.get(type(value), f"`{json.dumps(value)}`")


def json_of(line: bytes | str, number: int) -> Any:
    """Read the JSON value on a line of a file; raises InvalidData that names the line and the column of the fault."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as problem:
        what = f"{problem.msg} at column {problem.colno}"
    except ValueError as problem:
        what = str(problem)
    raise InvalidData(f"line {number} is not valid JSON: {what}; write one object on each line")


def _parquet(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[FilePiece]:
    import pyarrow.parquet as pq  # here, as its 14 ms are not for every command

    source: Any = file if file.seekable() else pa.BufferReader(file.read())  # the index is at the end
    with pq.ParquetFile(source) as parquet:
        total = _size(file)
        rows = max(1, parquet.metadata.num_rows)
        done = 0
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS):
            yield FilePiece(batch, total * (done + batch.num_rows) // rows, partial(_row, done))
            done += batch.num_rows


def _arrow(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[FilePiece]:
    done = before = 0
    with pa.ipc.open_stream(file) as batches:
        for batch in batches:
            done += batch.nbytes
            yield FilePiece(batch, _position(file, done), partial(_row, before))
            before += batch.num_rows


def _row(before: int, row: int) -> str:
    return f"row {before + row + 1:,}"


def _position(file: BinaryIO, otherwise: int) -> int:
    return file.tell() if file.seekable() else otherwise


def _size(file: BinaryIO) -> int:
    if not file.seekable():
        return 0
    position = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(position)
    return size
