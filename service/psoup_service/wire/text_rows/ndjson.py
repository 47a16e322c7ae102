"""NDJSON: each line is an object with the values of a row. The rows become columns of the stream's types.

    {"at": "2024-05-01T12:00:00Z", "price": 1.5}       lines of plain form ──Arrow──> columns
                                                         └── any other line: as PushRows reads it, row by row

Arrow accepts or rounds some values that PushRows refuses. If a piece may have such a value, the reader of PushRows
reads the whole piece. So both accept the same values, and have the same messages.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.errors import InvalidBatch
from psoup.model import FIRST_AT, PATCH, Attribute, Schema
from psoup.values.kinds import arrow_type
from psoup_proto.json_rows.plain_lines import count_plain, read_plain
from psoup_proto.json_rows.text import FAULTS, JsonFault, decoder, fault, json_kind
from psoup_service.wire.json_rows import columns_of
from psoup_service.wire.text_rows.faults import Faults

_MOST_COLUMNS = 64
"""Up to this number of columns, Arrow also reads names that the first line lacks. Each of them costs time."""
_MOST_VALUES = 16_384
"""The most values of a line. A line of 4 MiB may have two million. No other thread runs while Python parses a line."""
_VALUES = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[,\[{]', re.DOTALL)
"""Matches whole texts, and the signs before values outside of texts."""
_ROW = re.compile(r"^row (\d+): ")
_DECODE = decoder(strict=True)

Array = Any


def read_lines(data: bytes, line: int, schema: Schema, faults: Faults) -> tuple[pa.RecordBatch, Array]:
    """The rows of whole lines, and the line of each row. `line`: the line of the first byte. O(bytes).

    Adds bad rows to `faults`, and leaves them out.
    """
    count = count_plain(data)
    batch = _read_fast(data, count, schema) if count else None
    if batch is not None:
        return batch, np.arange(line, line + count)
    return _read_slowly(data, line, schema, faults)


def _read_fast(data: bytes, count: int, schema: Schema) -> pa.RecordBatch | None:
    """The rows as Arrow reads them; None if PushRows might read a value differently."""
    fields = _fields_of(data, schema)
    if fields is None:
        return None
    arrays = read_plain(data, count, {name: arrow_type(attribute.type) for name, attribute in fields.items()})
    given = {name: array for name, array in (arrays or {}).items() if array.null_count < count}
    if not given:
        return None
    return pa.RecordBatch.from_arrays(list(given.values()), [fields[name].name for name in given])


def _has_too_many_values(line: bytes) -> bool:
    """Whether a line has more than `_MOST_VALUES` values. O(bytes); only a long line is looked at."""
    if len(line) <= 2 * _MOST_VALUES or line.count(b",") + line.count(b"[") + line.count(b"{") <= _MOST_VALUES:
        return False
    values = 0
    for sign in _VALUES.finditer(line):
        values += not sign[0].startswith(b'"')
        if values > _MOST_VALUES:
            return True
    return False


def _fields_of(data: bytes, schema: Schema) -> dict[str, Attribute] | None:
    """The column of each name that lines may have; None if the first line has an unknown name, or `_patch`."""
    line = data[: data.find(b"\n") + 1 or None]
    if _has_too_many_values(line):
        return None
    try:
        first = _DECODE(line.decode())
    except FAULTS:
        return None
    fields, places = dict[str, Attribute](), set[int]()
    for name in first:
        place = schema.pushed_index(name)
        if place is None or place in places or (place == FIRST_AT and name.lower() == PATCH):
            return None
        places.add(place)
        fields[name] = schema.attributes[place]
    unnamed = [
        attribute for attribute in schema.attributes if schema.pushed_index(attribute.name) not in (*places, None)
    ]
    if len(schema.attributes) <= _MOST_COLUMNS:
        fields |= {attribute.name: attribute for attribute in unnamed if attribute.name not in fields}
    return fields


def _read_slowly(data: bytes, line: int, schema: Schema, faults: Faults) -> tuple[pa.RecordBatch, Array]:
    rows, lines = list[dict[str, Any]](), list[int]()
    for number, text in enumerate(data.split(b"\n"), line):
        if not text.strip():
            continue
        if _has_too_many_values(text):
            faults.add(number, f"it has more than {_MOST_VALUES:,} values; write one object on each line")
            continue
        try:
            value = _DECODE(text.decode())
        except FAULTS as problem:
            faults.add(number, _advised(fault(problem)))
            continue
        if not isinstance(value, dict):
            faults.add(number, f"it is {json_kind(value)}; write one object on each line")
            continue
        rows.append(value)
        lines.append(number)
    try:
        return columns_of(rows, schema), np.array(lines, np.int64)
    except InvalidBatch as problem:
        if not _ROW.match(problem.message):
            raise
    good = _without_bad(rows, lines, schema, faults)
    try:
        return columns_of([rows[at] for at in good], schema), np.array(lines, np.int64)[good]
    except InvalidBatch:  # rows from different ranges do not fit together
        return columns_of([], schema), np.zeros(0, np.int64)


def _without_bad(rows: list[dict[str, Any]], lines: list[int], schema: Schema, faults: Faults) -> list[int]:
    """Add the bad rows to `faults`. Returns the places of the other rows. O(rows + bad * log(rows)) conversions.

    Ranges of rows that cannot be converted are bisected. To convert each row by itself would take far longer.
    """
    good, ranges = list[int](), [(0, len(rows))]
    while ranges:
        low, high = ranges.pop()
        try:
            columns_of(rows[low:high], schema)
            good += range(low, high)
        except InvalidBatch as problem:
            place = low + int(problem.facts.get("row", 0))
            if high - low == 1 or _fits(rows[place], schema):  # in a longer range: rows that do not fit together
                _add(problem, lines[place], faults)
            else:
                middle = (low + high) // 2
                ranges += [(middle, high), (low, middle)]
    return good


def _fits(row: dict[str, Any], schema: Schema) -> bool:
    """Whether a row fits by itself."""
    try:
        columns_of([row], schema)
    except InvalidBatch:
        return False
    return True


def _add(problem: InvalidBatch, line: int, faults: Faults) -> None:
    faults.add(line, _ROW.sub("", problem.message), problem.facts.get("column", ""))


def _advised(problem: JsonFault) -> str:
    text = str(problem)
    if text.startswith("byte "):
        return f"{text}; send the body in UTF-8 (iconv -f latin1 -t utf-8)"
    if "Extra data" in text:
        return f"{text}; write one object on each line (curl -d joins the lines of a file, --data-binary does not)"
    if text.endswith("Expecting value at column 1"):
        return f"{text}; write one object on each line, or send a CSV with Content-Type: text/csv"
    return f"{text}; write one object on each line" if text.startswith("it is not valid") else text
