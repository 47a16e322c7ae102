"""Rows of a body as text: the memory that a hostile body may take, and bodies that no reader of CSV likes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from psoup.errors import ResourceExhausted
from psoup.model import Schema, StreamSpec
from psoup.sql import create_stream
from psoup_proto.csv_rows import pieces
from psoup_proto.csv_rows.dialect import Dialect
from psoup_proto.csv_rows.pieces import CsvOptions
from psoup_proto.csv_rows.records import Records, end_of_records
from psoup_service.wire.limits import Limits
from psoup_service.wire.text_rows import ndjson
from psoup_service.wire.text_rows.csv_lines import CsvLines
from psoup_service.wire.text_rows.faults import BadRows
from psoup_service.wire.text_rows.reader import MOST_RECORD_BYTES, LineReader, NdjsonLines, RowReader
from psoup_testing.suite.sweeps import swept


def stream(columns: str = "at TIMESTAMP, name TEXT, n BIGINT") -> StreamSpec:
    return create_stream(f"CREATE STREAM s ({columns})")


def csv_lines(spec: StreamSpec) -> LineReader:
    return CsvLines(spec, CsvOptions())


def lines_of(form: str, spec: StreamSpec) -> LineReader:
    return NdjsonLines() if form == "ndjson" else csv_lines(spec)


def read(lines: LineReader, spec: StreamSpec, *pieces: bytes) -> RowReader:
    reader = RowReader(spec, lines, Limits(), b"")
    for number, piece in enumerate(pieces, 1):
        reader.feed(piece, last=number == len(pieces))
    return reader


def wide_bodies() -> list[tuple[str, bytes]]:
    """Bodies of few bytes whose rows take gigabytes in a stream of 1,000 columns."""
    names = b"{" + b",".join(b'"c%d":1' % n for n in range(1_000)) + b"}\n"
    return [
        ("ndjson", b"{}\n" * 330_000),
        ("ndjson", names + b"{}\n" * 330_000),
        ("csv", b"c1\n" + b"1\n" * 330_000),
        ("csv", b"c1\n" + b"1\r" * 330_000),
    ]


@pytest.mark.parametrize(("form", "body"), wide_bodies())
def test_rows_that_are_too_wide_are_refused_before_they_are_read(
    form: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(", ".join(f"c{n} BIGINT" for n in range(1_000)))
    lines = lines_of(form, spec)
    monkeypatch.setattr(type(lines), "read", lambda *_: pytest.fail("the rows were read"))
    with pytest.raises(ResourceExhausted, match="the rows take more than 268,435,456 bytes"):
        read(lines, spec, body)


@pytest.mark.parametrize(
    ("body", "rows"),
    [(b'{"n":1}\n\n \n{"name":"}{"}\n', 2), (b"{}", 1), (b"{}\n{}", 2), (b"\n\n\n", 0), (b"", 0)],
)
def test_the_most_rows_of_lines_of_json(body: bytes, rows: int) -> None:
    assert NdjsonLines().most_rows(body, 1) >= rows
    assert NdjsonLines().most_rows(b"\n" * 1_000 + body, 1) <= body.count(b"{")


@pytest.mark.parametrize("form", ["ndjson", "csv", "csv, quoted"])
@pytest.mark.parametrize("size", [MOST_RECORD_BYTES - 100, MOST_RECORD_BYTES + 100])
@pytest.mark.parametrize("after", swept([b"", b"\n", b"\n1\n"], fast=1))
def test_a_row_is_too_large_however_its_body_is_divided(form: str, size: int, after: bytes) -> None:
    spec, text = stream("name TEXT"), b"x" * size
    if form == "ndjson":
        body = b'{"name":"%s"}%s' % (text, after.replace(b"1", b'{"name":"1"}'))
    else:
        body = b"name\n" + (b"%s" if form == "csv" else b'"a\n%s"') % text + after
    for piece in (len(body), 1 << 20, 1_000_003):
        pieces_of_body = [body[start : start + piece] for start in range(0, len(body), piece)]
        if size < MOST_RECORD_BYTES:
            assert read(lines_of(form, spec), spec, *pieces_of_body).rows == 1 + (len(after) > 1)
        else:
            with pytest.raises(BadRows, match="the row has more than 4,194,304 bytes; end each row by a line feed"):
                read(lines_of(form, spec), spec, *pieces_of_body)


def test_the_rows_are_held_once() -> None:
    spec = stream()
    reader = read(NdjsonLines(), spec, *(b'{"n":1,"name":"%s"}\n' % (b"x" * 100) * 1_000 for _ in range(20)))
    before = pa.total_allocated_bytes()
    table, _ = reader.table()
    assert table.num_rows == 20_000
    assert pa.total_allocated_bytes() - before < table.nbytes / 2, "the batches are held, too"


def test_times_and_lines_after_the_table_is_made() -> None:
    reader = read(NdjsonLines(), stream(), b'\n{"n":1}\n\n', b'{"n":2}\n')
    reader.table()
    assert [reader.line_of(row) for row in range(3)] == [2, 4, 0]


@pytest.mark.parametrize(
    ("columns", "body", "line", "words"),
    [
        ("a TEXT, b TEXT", b"a,b\n" + b"\xff" * 200_000 + b"\n", 2, "byte ff"),
        ("a TEXT, b TEXT", b"a,b\nx,y\n" + b'"' + b"\xe9" * 200_000 + b'",1,2\n', 3, "byte e9"),
        ("a TEXT, b TEXT", b'sep="\na"b\n1"2\n', 1, "names 'sep=\"'"),
        ("a TEXT, b TEXT", b"sep=\n\na\n1\n", 1, "names 'sep='"),
        ("a TEXT, b TEXT", b"sep=\r\na\n1\n", 1, "names 'sep='"),
        ("a TEXT, b TEXT", b"sep=;\n", 0, "the first line has to name the columns"),
        ("a TEXT, b TEXT", b"sep=;\r\n\r\n\r\n", 0, "the first line has to name the columns"),
    ],
)
def test_csvs_that_no_reader_likes(columns: str, body: bytes, line: int, words: str) -> None:
    spec = stream(columns)
    with pytest.raises(BadRows) as refusal:
        read(csv_lines(spec), spec, body).table()
    assert refusal.value.rows[0].line == line
    assert words in refusal.value.rows[0].message and "--" not in refusal.value.rows[0].message


def test_a_reason_is_written_for_the_first_ragged_rows_only() -> None:
    """A body of a gigabyte has a hundred million of them."""
    spec = stream("a TEXT, b TEXT")
    body = b"a,b\n" + b"1\n" * 300 + b"\xe9\n" * 300
    lines = csv_lines(spec)
    with pytest.raises(BadRows) as refusal:
        read(lines, spec, body).table()
    rows = refusal.value.rows
    assert [row.line for row in rows] == list(range(2, 102)) and all("it has 1 value" in row.message for row in rows)
    assert isinstance(lines, CsvLines) and lines._rules is not None
    refused = lines._rules.piece(Records(body[4:], 2)).refused
    assert len(refused) == 600 and sum(map(bool, refused.values())) == 200


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that lines of JSON convert together. One by one, a megabyte takes five seconds."""
    original, calls = ndjson.columns_of, list[int]()

    def columns_of(rows: list[Any], schema: Schema) -> pa.RecordBatch:
        calls.append(len(rows))
        return original(rows, schema)

    monkeypatch.setattr(ndjson, "columns_of", columns_of)
    return calls


def test_bad_lines_among_many_are_found_quickly(conversions: list[int]) -> None:
    line, bad = b'{"n":1}\n', b'{"n":"x"}\n'
    with pytest.raises(BadRows) as refusal:
        read(NdjsonLines(), stream(), line * 3_000 + bad + line * 1_000 + bad).table()
    assert [row.line for row in refusal.value.rows] == [3_001, 4_002]
    assert sum(conversions) < 10 * 4_000 and len(conversions) < 100


def test_patches_that_do_not_fit_together_are_found_quickly(conversions: list[int]) -> None:
    spec = create_stream("CREATE TABLE t (id BIGINT PRIMARY KEY, a TEXT, b TEXT)")
    body = b'{"id":1,"a":"x","_patch":true}\n{"id":2,"b":"x","_patch":true}\n' * 1_000
    with pytest.raises(BadRows, match="line 1: the patch lacks 'b'"):
        read(NdjsonLines(), spec, body).table()
    assert len(conversions) < 100
    halves = b'{"id":1,"a":"x","_patch":true}\n' * 8 + b'{"id":2,"b":"x","_patch":true}\n' * 7 + b'{"id":"x"}\n'
    with pytest.raises(BadRows, match="line 1: the patch lacks 'b'"):
        read(NdjsonLines(), spec, halves).table()


@pytest.mark.parametrize(
    ("form", "body", "line", "words"),
    [
        ("ndjson", b'{"name":[' + b"1," * 1_900_000 + b"1]}", 1, "more than 16,384 values"),
        ("ndjson", b'{"name":"a"}\n{' + b'"name":1,' * 400_000 + b'"n":1}', 2, "more than 16,384 values"),
        ("csv", b"," * 4_000_000 + b"\n1\n", 1, "more than 65,536 fields"),
        ("csv", b"name,n\n\xff" + b"," * 4_000_000 + b"\n", 2, "it has 4,000,001 values"),
    ],
)
def test_lines_of_very_many_values_are_not_parsed(
    form: str, body: bytes, line: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread runs while a line is parsed."""
    longest = [0]

    def parsed(text: str) -> Any:
        longest.append(len(text))
        return decode(text)

    def fields_of(text: str, dialect: Dialect) -> Iterator[list[str]]:
        longest.append(len(text))
        return split(text, dialect)

    decode, split = ndjson._DECODE, pieces.fields_of
    monkeypatch.setattr(ndjson, "_DECODE", parsed)
    monkeypatch.setattr(pieces, "fields_of", fields_of)
    spec = stream()
    with pytest.raises(BadRows) as refusal:
        read(csv_lines(spec) if form == "csv" else NdjsonLines(), spec, body).table()
    assert refusal.value.rows[0].line == line and words in refusal.value.rows[0].message
    assert max(longest) < 100


def test_a_long_text_of_commas_is_one_value() -> None:
    reader = read(NdjsonLines(), stream(), b'{"n":1}\n{"n":"1","name":"%s\\",,"}\n' % (b"," * 100_000))
    assert reader.table()[0].column("name").to_pylist() == [None, "," * 100_000 + '",,']


@pytest.mark.long
def test_quotes_within_fields_take_little_memory() -> None:
    """A list of a million matches takes seconds, in which no other thread runs."""
    data = b'name,n\nx"y,' + b'"",' * 200_000 + b"1\n"
    tracemalloc.start()
    try:
        assert end_of_records(data, 1, Dialect()) == len(data)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_doubled_quotes_within_a_field_take_little_memory() -> None:
    """A pattern that may backtrack keeps some 60 bytes for each doubled quote."""
    data = b'name,n\nx"y,"' + b'""' * 300_000 + b'"\n'
    tracemalloc.start()
    try:
        assert end_of_records(data, 1, Dialect()) == len(data)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
