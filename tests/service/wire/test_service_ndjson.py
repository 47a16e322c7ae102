"""Lines of JSON: Arrow's reader and the reader of PushRows take the same values, and refuse the same lines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup.model import Schema
from psoup.sql import create_stream
from psoup_service.wire.text_rows import ndjson
from psoup_service.wire.text_rows.faults import Faults

COLUMNS = {
    "ok": "BOOLEAN",
    "n": "BIGINT",
    "x": "DOUBLE",
    "p": "DECIMAL(9,2)",
    "t": "TEXT",
    "at": "TIMESTAMP",
    "d": "DATE",
}
TOKENS = (
    "null", "true", "false", "0", "-0", "1", "-1", "1.0", "1e2", "1E-2", "1.5", "1.50", "1.505", "12345678.9",
    "123456789.1", "9007199254740991", "9007199254740993", "9223372036854775807", "9223372036854775808", "1e400",
    "-1e400", "1e-400", "NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "[]", "{}", "[1]", "0x1",
)  # fmt: skip
TEXTS = (
    "", "1", " 1", "1.50", "+1", "1e1", "NaN", "Infinity", "true", "IBM", "é", "\\ud83d\\ude00", "\\ud800", "\\u0000",
    "2024-05-01", "2024-05-01T12:00:00Z", "2024-05-01 12:00:00", "2024-05-01T12:00:00.123456+02:00",
    "2024-05-01T12:00:00.1234567Z", "2024-05-01T12:00", "0000-01-01", "0001-01-01", "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00", "2024-02-30", "2024-5-1", "20240501", "2024-05-01T25:00:00Z", " 2024-05-01", "2024",
    "2024-05-01T12:00:00z", "2024-05-01T12:00:60Z", "2024-W18-3", "2024-05-01T12:00:00+0200", "2024-05-01T12:00:00+02",
)  # fmt: skip
VALUES = st.sampled_from([*TOKENS, *(f'"{text}"' for text in TEXTS)])
NAMES = st.sampled_from([*COLUMNS, "T", "N", "z", "\\u0074"])
ROWS = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda pairs: "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
)
LINES = st.lists(
    ROWS | st.sampled_from(["", " ", '{"n":1} ', '{"n":1}{"n":2}', '{"n":', "1}", "[1]", "{}", "\ufeff{}"]),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def schema() -> Schema:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return create_stream(f"CREATE STREAM s ({columns})").schema


def outcome(read: Any, data: bytes, schema: Schema) -> tuple[Any, Any]:
    """The rows by line, with all columns; or the bad lines."""
    faults = Faults()
    batch, lines = read(data, 1, schema, faults)
    if faults:
        return "bad", sorted({row.line for row in faults._rows})
    nulls = pa.nulls(batch.num_rows)
    names = batch.schema.names
    columns = [batch[name] if name in names else nulls for name in COLUMNS]
    numbers = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    values = [column.to_pylist() for column in numbers]
    return [repr(row) for row in zip(*values, strict=True)], lines.tolist()


@pytest.mark.seeded("Arrow reads a line otherwise than PushRows")
@given(lines=LINES, end=st.sampled_from(["", "\n", "\r\n"]))
def test_both_readers_agree(schema: Schema, lines: list[str], end: str) -> None:
    data = ("\r\n" if end == "\r\n" else "\n").join(lines).encode() + end.encode()
    assert outcome(ndjson.read_lines, data, schema) == outcome(ndjson._read_slowly, data, schema)


@given(name=st.sampled_from(list(COLUMNS)), value=VALUES, second=VALUES)
def test_both_readers_agree_on_each_value(schema: Schema, name: str, value: str, second: str) -> None:
    data = f'{{"{name}": {value}}}\n{{"{name}": {second}}}'.encode()
    assert outcome(ndjson.read_lines, data, schema) == outcome(ndjson._read_slowly, data, schema)


def test_plain_lines_are_read_by_arrow(schema: Schema) -> None:
    """Else a body takes ten times as long."""
    row = b'{"n":1,"x":0.5,"p":1.50,"t":"a","at":"2024-05-01T12:00:00Z","d":"2024-05-01","ok":true}\n'
    for data in (row * 3, row.replace(b'"t"', b'"T"') * 2, b'{"n":1}\r\n{"t":"later"}\r\n'):
        assert ndjson._read_fast(data, data.count(b"\n"), schema) is not None
