"""JSON lines, read as rows. Each line has an object whose names are columns of the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from psoup_cli.files.header import FieldNames
from psoup_cli.files.json_values import json_kind, json_value
from psoup_cli.files.source import invalid_data
from psoup_client import InvalidData
from psoup_proto.csv_rows.dialect import Dialect
from psoup_proto.csv_rows.faults import CsvFault
from psoup_proto.csv_rows.records import Records, read_records

_LINES = Dialect(",", "")


@dataclass(frozen=True, slots=True)
class JsonPiece:
    """The rows of some JSON lines. `numbers`: the record of each row; `refused`: the reason for each other record."""

    records: Records
    rows: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


def json_pieces(read: Callable[[int], bytes], names: FieldNames) -> Iterator[JsonPiece]:
    """Yield the rows of JSON lines, a block at a time. A pipe gives the lines that have arrived. Blank lines are left
    out.
    """
    for records in _lines(read):
        piece = JsonPiece(records)
        for number, line in enumerate(records.texts()):
            if not line.strip():
                continue
            try:
                piece.rows.append(names.of_row(_row(line)))
                piece.numbers.append(number)
            except InvalidData as problem:
                piece.refused[number] = problem.message
        yield piece


def _lines(read: Callable[[int], bytes]) -> Iterator[Records]:
    try:
        yield from read_records(read, _LINES, header=False)
    except CsvFault as fault:
        raise invalid_data(fault) from fault


def _row(line: bytes) -> dict[str, Any]:
    row = json_value(line)
    if not isinstance(row, dict):
        raise InvalidData(f"it is {json_kind(row)}; write one object on each line")
    return row
