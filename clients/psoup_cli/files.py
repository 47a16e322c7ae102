"""Files of rows, read piece by piece: CSV, JSON lines, Parquet, Arrow; also from standard input.

    open_rows(path, format, stream)  ->  pieces: (rows for `Client.push`, bytes read so far)

The stream's schema says how text is read: in CSV every value is text, in JSON times, dates and decimals are.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from psoup_client import InvalidData, StreamInfo

FORMATS = {
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
"""Formats by the end of a file's name."""

PIECE_ROWS = 65_536
_READ_BYTES = 8 * 1024 * 1024

Piece = tuple[Any, int]


def format_of(path: str, asked: str | None) -> str:
    """The format that was asked for, or the one that the name says; raises ValueError."""
    if asked:
        return asked
    if path == "-":
        raise ValueError("say what comes on standard input: --format csv, json, parquet or arrow")
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path}: cannot tell the format from {suffix or 'a name without a suffix'!r}; add --format")
    return FORMATS[suffix]


def open_rows(path: str, format: str, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[Piece]:
    """The rows of a file ("-": standard input), in pieces; raises InvalidData that names the place, or OSError."""
    reader = {"csv": _csv, "json": _json_lines, "parquet": _parquet, "arrow": _arrow}[format]
    with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
        try:
            yield from reader(file, stream, nulls)
        except UnicodeDecodeError as problem:
            raise InvalidData(f"this is not UTF-8, as {format} has to be: {problem}") from problem
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise InvalidData(f"this cannot be read as {format}: {str(problem).splitlines()[0]}") from problem


def _csv(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[Piece]:
    header = file.readline()
    if not header.strip():
        return
    types = {column.name.lower(): _csv_type(column.arrow) for column in stream.columns}
    names = pyarrow.csv.read_csv(io.BytesIO(header + b"\n")).column_names
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: types[name.lower()] for name in names if name.lower() in types},
        null_values=list(nulls),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["true", "TRUE", "True", "t", "1"],
        false_values=["false", "FALSE", "False", "f", "0"],
    )
    read = pyarrow.csv.ReadOptions(column_names=names, block_size=_READ_BYTES)
    done = len(header)
    try:
        with pyarrow.csv.open_csv(_Unclosed(file), read_options=read, convert_options=convert) as batches:
            for batch in batches:
                done += batch.nbytes
                yield batch, _position(file, done)
    except pa.ArrowInvalid as problem:
        if "Empty CSV file" not in str(problem):  # rows are what is missing, not the header
            raise InvalidData(_csv_problem(str(problem), names, file, convert)) from problem


def _csv_problem(message: str, names: list[str], file: BinaryIO, convert: pyarrow.csv.ConvertOptions) -> str:
    """Arrow's message, with the column by its name, the row, and the way out if the value stands for NULL."""
    first = message.splitlines()[0].removeprefix("In CSV ")
    found = re.match(r"column #(\d+): (.*)", first)
    if found is None:
        return f"this cannot be read as csv: {first}"
    name = names[int(found[1])]
    place, said = f"column {name!r}", found[2].removesuffix(".")
    if file.seekable():
        row, value = _bad_value(file, names, name, convert)
        place = f"row {row:,} (the first below the header is row 1), {place}, {value!r}"
    return f"{place}: {said}; if that stands for NULL, name it with --null"


def _bad_value(file: BinaryIO, names: list[str], name: str, convert: pyarrow.csv.ConvertOptions) -> tuple[int, str]:
    """The first row whose value in a column cannot be read, from 1, and the value. Reads the file again."""
    file.seek(0)
    file.readline()
    read = pyarrow.csv.ReadOptions(column_names=names, block_size=_READ_BYTES)
    texts = pyarrow.csv.ConvertOptions(column_types={name: pa.string()}, include_columns=[name])
    before = 0
    with pyarrow.csv.open_csv(_Unclosed(file), read_options=read, convert_options=texts) as batches:
        for batch in batches:
            values = batch.column(0)
            if not _readable(values, name, convert):
                low, high = 0, len(values)
                while high - low > 1:
                    middle = (low + high) // 2
                    bad = not _readable(values.slice(low, middle - low), name, convert)
                    low, high = (low, middle) if bad else (middle, high)
                return before + low + 1, values[low].as_py()
            before += len(values)
    return before, ""


def _readable(values: pa.Array, name: str, convert: pyarrow.csv.ConvertOptions) -> bool:
    """Whether values can be read as the column's type: written as a CSV of this column, and read as before."""
    sink = io.BytesIO()
    pyarrow.csv.write_csv(pa.table({name: values}), sink)
    own = pyarrow.csv.ConvertOptions(
        column_types={name: convert.column_types[name]},
        null_values=convert.null_values,
        strings_can_be_null=True,
        true_values=convert.true_values,
        false_values=convert.false_values,
    )
    try:
        pyarrow.csv.read_csv(io.BytesIO(sink.getvalue()), convert_options=own)
    except pa.ArrowInvalid:
        return False
    return True


class _Unclosed(io.RawIOBase):
    """A file that a reader may close without its owner losing it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """From the file."""
        return self._file.read(size)


def _csv_type(arrow: pa.DataType) -> pa.DataType:
    """Times stay text: the SDK reads them with and without a zone."""
    return pa.string() if pa.types.is_timestamp(arrow) else arrow


def _json_lines(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[Piece]:
    rows: list[dict[str, Any]] = []
    number = done = size = 0
    for line in _lines(file):
        number += bool(line)
        done += len(line)
        size += len(line)
        if line.strip():
            rows.append(_json_row(line, number))
        if rows and (len(rows) == PIECE_ROWS or size >= _READ_BYTES or not line):
            yield rows, done
            rows, size = [], 0
    if rows:
        yield rows, done


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
    """Whether reading would not wait; unknown (where pipes cannot be asked) is no."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _json_row(line: bytes, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as problem:
        raise InvalidData(f"line {number} is no JSON: {problem}; write one object on each line") from None
    if not isinstance(row, dict):
        raise InvalidData(f"line {number} is a JSON {type(row).__name__}; write one object on each line")
    return row


def _parquet(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[Piece]:
    source: Any = file if file.seekable() else pa.BufferReader(file.read())  # the index is at the end
    with pq.ParquetFile(source) as parquet:
        total = _size(file)
        rows = max(1, parquet.metadata.num_rows)
        done = 0
        for batch in parquet.iter_batches(batch_size=PIECE_ROWS):
            done += batch.num_rows
            yield batch, total * done // rows


def _arrow(file: BinaryIO, stream: StreamInfo, nulls: tuple[str, ...]) -> Iterator[Piece]:
    done = 0
    with pa.ipc.open_stream(file) as batches:
        for batch in batches:
            done += batch.nbytes
            yield batch, _position(file, done)


def _position(file: BinaryIO, otherwise: int) -> int:
    return file.tell() if file.seekable() else otherwise


def _size(file: BinaryIO) -> int:
    if not file.seekable():
        return 0
    position = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(position)
    return size


# Queries in bulk -----------------------------------------------------------------------------------------


def read_lines(path: str) -> list[str]:
    """The lines of a text ("-": standard input), without empty ones."""
    with contextlib.nullcontext(sys.stdin) if path == "-" else open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]


def read_statements(path: str) -> list[str]:
    """One statement a line ("-": standard input), without empty lines and lines of comment."""
    found = [line for line in read_lines(path) if not line.startswith("--")]
    if not found:
        raise ValueError(f"{path} holds no statements; write one on each line")
    return found


def read_parameters(path: str) -> Any:
    """Rows of parameters: a table, or of JSON lines a list of objects or arrays. Text of a CSV stays text."""
    format = format_of(path, None)
    if format == "json":
        with open(path, encoding="utf-8") as lines:
            return [_json_values(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    try:
        if format == "parquet":
            return pq.read_table(path)
        if format == "arrow":
            with open(path, "rb") as file, pa.ipc.open_stream(file) as batches:
                return batches.read_all()
        with open(path, "rb") as file:
            names = pyarrow.csv.read_csv(io.BytesIO(file.readline())).column_names
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return pyarrow.csv.read_csv(path, convert_options=convert)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise ValueError(f"{path} cannot be read as {format}: {str(problem).splitlines()[0]}") from problem


def _json_values(line: str, number: int) -> Any:
    try:
        row = json.loads(line)
    except ValueError as problem:
        raise ValueError(f"line {number} is no JSON: {problem}") from None
    if not isinstance(row, dict | list):
        raise ValueError(f"line {number} is a JSON {type(row).__name__}; write an object or an array on each line")
    return row
