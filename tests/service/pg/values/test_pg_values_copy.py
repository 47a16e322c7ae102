"""Data of COPY in both directions: read in any pieces, it is what was written; a fault names its line and column."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import InvalidInput, PSoupError
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Attribute, decimal
from psoup_service.pg import errors
from psoup_service.pg.contract import Column
from psoup_service.pg.values import copy_in, copy_out, rows
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.copy_in import CopyReader
from psoup_service.pg.values.copy_out import SIGNATURE, CopyRows
from psoup_service.pg.values.types import column_of
from psoup_service.pg.values.zones import Zone
from psoup_testing.oracles.pg_batches import STREAMED, comparable, random_batch, streamed
from psoup_testing.suite.sweeps import swept

OPTIONS: list[dict[str, str]] = [
    {},
    {"delimiter": ","},
    {"delimiter": " ", "null": "?"},
    {"format": "csv", "header": ""},
    {"format": "csv", "delimiter": ";", "null": "NULL", "quote": "'", "escape": "\\"},
    {"format": "csv", "delimiter": "0"},
    {"format": "binary"},
]
BATCH = random_batch(np.random.default_rng(5), 120)
ROWS = streamed(BATCH)
HEADER = SIGNATURE + bytes(8)


def messages_of(raw: bytes) -> list[bytes]:
    """The data of each message of a COPY."""
    parts, at = list[bytes](), 0
    while at < len(raw):
        assert raw[at : at + 1] == b"d"
        size = struct.unpack_from("!i", raw, at + 1)[0]
        parts.append(raw[at + 5 : at + 1 + size])
        at += 1 + size
    return parts


def written(batch: pa.RecordBatch, form: CopyForm, columns: list[Column] | None = None) -> list[bytes]:
    """The data of each message for rows."""
    writer = CopyRows(columns or [column_of(field) for field in batch.schema], form)
    return messages_of(writer.head() + writer.rows(batch) + writer.end())


def read(data: bytes, form: CopyForm, attributes: list[Attribute] = STREAMED, step: int = 1 << 20) -> pa.Table:
    """The rows in some data, which comes in pieces."""
    reader = CopyReader(attributes, form, "trades", Zone.named("UTC"))
    parts = [reader.feed(data[at : at + step]) for at in range(0, len(data), step)]
    schema = pa.schema([(a.name, k) for a, k in zip(attributes, reader.kinds, strict=True)])
    return pa.Table.from_batches([part for part in (*parts, reader.end()) if part is not None], schema)


@pytest.mark.parametrize("options", swept(OPTIONS, fast=2), ids=str)
def test_what_is_written_is_read_again_in_any_pieces(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    form = CopyForm.of(options)
    data = b"".join(written(ROWS, form))
    for enough, little, step in ((1, 1, 997), (1 << 20, 1, 1 << 20), (1, 1 << 30, 1 << 15), (20_000, 9, 60_000)):
        monkeypatch.setattr(copy_in, "_ENOUGH", enough)
        monkeypatch.setattr(copy_in, "_LITTLE", little)
        table = read(data, form, step=step)
        for name in ROWS.schema.names:
            assert comparable(table[name]) == comparable(ROWS[name]), (name, enough, little, step)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_kernels_write_what_is_written_line_by_line(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    form = CopyForm.of(options)
    for batch in (BATCH, BATCH.slice(11, 60), BATCH.select(["text"]), BATCH.slice(0, 0)):
        outputs = []
        for few in (0, 1_000):
            monkeypatch.setattr(rows, "FEW_ROWS", few)
            monkeypatch.setattr(copy_out, "FEW_ROWS", few)
            outputs.append(written(batch, form))
        assert outputs[0] == outputs[1]
        around = (form.name == "binary") or form.header
        assert len(outputs[0]) == batch.num_rows + around, "one row in a message"


def test_ordinary_data_is_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 500
    types = [BOOLEAN, BIGINT, DOUBLE, decimal(9, 2), TEXT, TIMESTAMP, DATE]
    attributes = [Attribute(str(number), kind) for number, kind in enumerate(types)]
    cells: list[Any] = [True, -7, 0.25, None, "é", 1_714_557_600_500_000, 20_000]
    kinds = [pa.bool_(), pa.int64(), pa.float64(), pa.decimal128(9, 2), pa.string(), pa.timestamp("us", tz="UTC"),
             pa.date32()]  # fmt: skip
    arrays = [pa.array([cell, None] * count, kind) for cell, kind in zip(cells, kinds, strict=True)]
    arrays[3] = pa.array(range(2 * count)).cast(pa.decimal128(20, 0)).cast(pa.decimal128(9, 2))
    batch = pa.record_batch(arrays, [attribute.name for attribute in attributes])
    monkeypatch.setattr(copy_in, "read_text", None)
    monkeypatch.setattr(copy_in, "read_binary", None)
    for options in ({}, {"format": "csv", "null": "NULL"}, {"format": "binary"}):
        form = CopyForm.of(options)
        table = read(b"".join(written(batch, form)), form, attributes)
        assert table.combine_chunks().to_batches()[0].equals(batch), options


@pytest.mark.parametrize(
    ("data", "options", "wanted"),
    [
        (b"1\t\\\\N\n2\t\\x41\\101\n3\ta\\\nb\r\n", {}, [(1, "\\N"), (2, "AA"), (3, "a\nb")]),
        (b"1\ta\n\\.\nnot read", {}, [(1, "a")]),
        (b"1\ta\n2\t\\N", {}, [(1, "a"), (2, None)]),
        (b'1,a"b,"c\n2,""\n3,\n4,"x\r\ny"', {"format": "csv"}, [(1, "ab,c"), (2, ""), (3, None), (4, "x\r\ny")]),
        (b'1,"a ""b"""\r\n2,""\r\n', {"format": "csv"}, [(1, 'a "b"'), (2, "")]),
        (b"n,s\n1,q\n", {"format": "csv", "header": "true"}, [(1, "q")]),
        (b"1,a\n\\.\n9,9\n", {"format": "csv"}, [(1, "a")]),
        (HEADER + struct.pack("!hiqi", 2, 8, 5, -1) + b"\xff\xff", {"format": "binary"}, [(5, None)]),
    ],
)
def test_escapes_quotes_and_ends_are_read_as_postgresql_reads_them(
    data: bytes, options: dict[str, str], wanted: list[tuple[int, str | None]]
) -> None:
    for step in (1, 1 << 20):
        table = read(data, CopyForm.of(options), [Attribute("n", BIGINT), Attribute("s", TEXT)], step)
        assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == wanted


FAULTS: list[tuple[bytes, dict[str, str], str, str]] = [
    (b"1\ta\n2\n", {}, "22P04", "missing data for column (COPY trades, line 2: 1 values for 2 columns)"),
    (b"1\ta\tb\n", {}, "22P04", "extra data after last expected column (COPY trades, line 1: 3 values for 2 columns)"),
    (
        b"1\ta\n2\tb\nx\tc\n",
        {},
        "22P02",
        'invalid input syntax for type bigint: "x" (COPY trades, line 3, column n: "x")',
    ),
    (
        b'1,"a\nb"\n99999999999999999999,c\n',
        {"format": "csv"},
        "22003",
        'value "99999999999999999999" is out of range for type bigint'
        ' (COPY trades, line 3, column n: "99999999999999999999")',
    ),
    (
        b"\t" * 1_000_000,
        {},
        "22P04",
        "extra data after last expected column (COPY trades, line 1: 1000001 values for 2 columns)",
    ),
    (
        b"," * 1_000_000,
        {"format": "csv"},
        "22P04",
        "extra data after last expected column (COPY trades, line 1: 3 values for 2 columns)",
    ),
    (b'1,"abc\n', {"format": "csv"}, "22P04", "unterminated CSV quoted field (COPY trades, line 2)"),
    (b"1\t\xff\n", {}, "22021", "the data is not UTF-8 (COPY trades, line 1, column s)"),
    (b"PGCOPY\n\xff\r\r\0", {"format": "binary"}, "22P04", "COPY file signature not recognized"),
    (HEADER + b"\0", {"format": "binary"}, "22P04", "unexpected EOF in COPY data (COPY trades, line 1)"),
    (HEADER + b"\0\3", {"format": "binary"}, "22P04", "row field count is 3, expected 2 (COPY trades, line 1)"),
    (HEADER + b"\0\2\xff\xff\xff\xfe", {"format": "binary"}, "22P04", "invalid field size (COPY trades, line 1)"),
    (
        HEADER + b"\0\2\0\0\0\4abcd\xff\xff\xff\xff\xff\xff",
        {"format": "binary"},
        "22P03",
        "incorrect binary data format for type bigint (4 bytes) (COPY trades, line 1, column n)",
    ),
    (
        HEADER + b"\0\2\x7f\xff\xff\xffab",
        {"format": "binary"},
        "22P04",
        "unexpected EOF in COPY data (COPY trades, line 1)",
    ),
]


@pytest.mark.parametrize(("data", "options", "state", "message"), FAULTS)
@pytest.mark.parametrize("before", [0, 1_000])
def test_a_fault_names_its_line_and_column(
    data: bytes, options: dict[str, str], state: str, message: str, before: int
) -> None:
    if options.get("format") == "binary":
        row = struct.pack("!hiqi1s", 2, 8, 7, 1, b"a")
        data = data.replace(HEADER, HEADER + row * before)
    else:
        data = (b"7,a\n" if options else b"7\ta\n") * before + data
    for number in range(1, 4):
        message = message.replace(f"line {number}", f"line @{number + before}")
    with pytest.raises(PSoupError) as refused:
        read(data, CopyForm.of(options), [Attribute("n", BIGINT), Attribute("s", TEXT)])
    assert refused.value.message == message.replace("@", "") and errors.state_of(refused.value) == state


def test_binary_data_may_lack_its_end() -> None:
    row = struct.pack("!hiqi1s", 2, 8, 7, 1, b"a")
    attributes = [Attribute("n", BIGINT), Attribute("s", TEXT)]
    for count in (0, 1, 1_000):
        data = HEADER + row * count
        assert read(data, CopyForm.of({"format": "binary"}), attributes).num_rows == count
        assert read(data + b"\xff\xff", CopyForm.of({"format": "binary"}), attributes).num_rows == count


def test_a_row_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_in, "MOST_ROW_BYTES", 1 << 20)
    monkeypatch.setattr(copy_in, "_ENOUGH", 1 << 16)
    for data, options in ((b"1\t" + b"a" * (3 << 20), {}), (b'1,"' + b"a\n" * (3 << 19), {"format": "csv"})):
        with pytest.raises(InvalidInput, match=r"COPY trades, line 1: a row has more than 1 MiB"):
            read(data, CopyForm.of(options), [Attribute("n", BIGINT), Attribute("s", TEXT)], 1 << 14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, 'COPY format "xml" not recognized; write text, csv or binary'),
        ({"force_quote": "a"}, 'option "force_quote" not recognized; COPY takes'),
        ({"delimiter": "ab"}, "COPY delimiter must be a single one-byte character, and not a line break"),
        ({"delimiter": "é"}, "COPY delimiter must be a single one-byte character, and not a line break"),
        ({"delimiter": "a"}, 'COPY delimiter cannot be "a"'),
        ({"quote": "'"}, "COPY quote available only in CSV mode"),
        ({"format": "binary", "header": ""}, "cannot specify HEADER in BINARY mode"),
        ({"format": "csv", "delimiter": '"'}, "COPY delimiter and quote must be different"),
        ({"null": "a\n"}, "COPY null representation cannot use newline or carriage return"),
        ({"null": "a\tb"}, "COPY delimiter character must not appear in the NULL specification"),
        ({"format": "csv", "null": '"'}, "CSV quote character must not appear in the NULL specification"),
        ({"format": "csv", "header": "maybe"}, 'header requires a Boolean value, and not "maybe"'),
        ({"encoding": "latin1"}, 'encoding "latin1" is not supported; send UTF8'),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CopyForm.of(options)
    assert refused.value.message.startswith(message)
