"""CSV as tables, and the line of what cannot be read.

Arrow reads a piece of whole records at a time (`csv_records`); where it cannot, the first record that is at fault is
found by halving, and the message names its line, its column and its value.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv

from psoup_cli.csv_records import Records, read_records
from psoup_client import InvalidData
from psoup_client.wording import counted

_SQL_TYPES = {"int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "date32[day]": "DATE"}


@dataclass(frozen=True, slots=True)
class CsvPiece:
    """Rows, and the bytes that they were read from."""

    table: pa.Table
    records: Records


def csv_pieces(
    read: Callable[[int], bytes], options: Callable[[list[str]], pyarrow.csv.ConvertOptions]
) -> Iterator[CsvPiece]:
    """The tables of a CSV; `options` of its columns say how text is read. Raises InvalidData that names the line."""
    pieces = read_records(read)
    header = next(pieces, None)
    if header is None or not header.data.strip():
        return
    names = pyarrow.csv.read_csv(io.BytesIO(header.data.lstrip(b"\r\n") + b"\n")).column_names
    convert = options(names)
    for records in pieces:
        if not records.data.strip():
            continue
        try:
            yield CsvPiece(_table(records.data, names, convert), records)
        except pa.ArrowInvalid as problem:
            raise _refusal(records, names, convert, problem) from problem


def _table(data: bytes, names: list[str], convert: pyarrow.csv.ConvertOptions) -> pa.Table:
    read = pyarrow.csv.ReadOptions(column_names=names, block_size=len(data) + 1)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(io.BytesIO(data), read, parse, convert)


def _refusal(
    records: Records, names: list[str], convert: pyarrow.csv.ConvertOptions, problem: pa.ArrowInvalid
) -> InvalidData:
    """Say what is wrong with the first record that cannot be read."""
    starts = [int(start) for start in records.starts()]
    bounds = [*starts, len(records.data)]

    def fault(low: int, high: int) -> str:
        try:
            _table(records.data[bounds[low] : bounds[high]], names, convert)
        except pa.ArrowInvalid as refusal:
            return str(refusal)
        return ""

    low, high = 0, len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fault(low, middle) else (middle, high)
    said = fault(low, high) or str(problem)
    record = records.data[bounds[low] : bounds[low + 1]]
    return _told(records.line_of(low), said.splitlines()[0], names, record, convert)


def _told(line: int, said: str, names: list[str], record: bytes, convert: pyarrow.csv.ConvertOptions) -> InvalidData:
    said = re.sub(r"^(In CSV |CSV parse error: |Row #\d+: )+", "", said)
    match = re.match(r"column #(\d+): (?:Row #\d+: )?(.*)", said)
    counts = re.match(r"Expected (\d+) columns, got (\d+)", said)
    if counts is not None:
        wanted, there = int(counts[1]), int(counts[2])
        said = f"it has {counted(there, 'value')}, and the first line {counted(wanted, 'name')}"
        hint = "; they are separated by commas" if wanted == 1 or there == 1 else ""
        return InvalidData(f"line {line}: {said}{hint}", facts={"line": str(line)})
    if match is None:
        return InvalidData(f"line {line}: this cannot be read as csv: {said}", facts={"line": str(line)})
    name, what = names[int(match[1])], _in_sql(match[2].removesuffix("."))
    value = _table(record, names, pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())))
    shown: Any = value.column(int(match[1]))[0].as_py().decode(errors="backslashreplace")
    hint = "if that stands for NULL, name it with --null"
    if re.search("would cause data loss|precision not supported", what):
        held = convert.column_types[name]
        what, hint = f"it has more digits than DECIMAL({held.precision},{held.scale}) holds", "round it"
    return InvalidData(
        f"line {line}, column {name!r}, {shown!r}: {what}; {hint}",
        facts={"line": str(line), "column": name},
    )


def _in_sql(what: str) -> str:
    """Translate a message of Arrow about a value: the type is named as in the stream's statement."""
    match = re.match(r"CSV conversion error to (\S+): invalid value ", what)
    if match is None:
        return what.replace("decimal128", "decimal")
    return f"it is not a valid {_SQL_TYPES.get(match[1], match[1])}"
