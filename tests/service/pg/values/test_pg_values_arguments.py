"""Parameters of clients of PostgreSQL, in text and in binary, with a type or without one, as parameters of calls."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from psycopg.adapt import PyFormat, Transformer

from psoup.errors import NotSupported, PSoupError
from psoup_service.pg import errors
from psoup_service.pg.contract import BINARY, TEXT, Argument
from psoup_service.pg.values.arguments import argument_value, arguments_table
from psoup_service.pg.values.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    NUMERIC,
    TEXT_OID,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
)
from psoup_service.pg.values.zones import Zone

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def table_of(*given: Argument, oids: tuple[int, ...] = (), zone: str = "UTC") -> pa.Table:
    """The parameters of a call for arguments."""
    return pa.ipc.open_stream(arguments_table(given, oids, Zone.named(zone))).read_all()


@pytest.mark.parametrize("form", [PyFormat.TEXT, PyFormat.BINARY])
def test_psycopg_writes_what_is_read(form: PyFormat) -> None:
    writer = Transformer(None)
    values = [5, 70_000, 2**40, -1.5, Decimal("-1234567.0500"), "é'", True, NOON, dt.date(2024, 2, 29)]
    given = []
    for value in values:
        dumper = writer.get_dumper(value, form)
        if not isinstance(value, dt.datetime):
            dumper = dumper.upgrade(value, form)
        raw = dumper.dump(value)
        assert raw is not None
        given.append(Argument(bytes(raw), int(dumper.format), dumper.oid))
    assert [column.to_pylist()[0] for column in table_of(*given).columns] == values


def test_an_open_type_is_the_one_of_the_statement() -> None:
    given = Argument(b"2024-05-01 14:00", TEXT, 0)
    at = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    berlin = table_of(given, given, given, Argument(None, TEXT, 0), oids=(TIMESTAMPTZ, DATE), zone="Europe/Berlin")
    row = [column.to_pylist()[0] for column in berlin.columns]
    assert row == [at, dt.date(2024, 5, 1), "2024-05-01 14:00", None]
    assert [column.type for column in table_of(Argument(None, TEXT, 0), oids=(NUMERIC,)).columns] == [
        pa.decimal128(1, 0)
    ]
    assert table_of(Argument(b"7", TEXT, TEXT_OID), oids=(INT8,)).column(0).to_pylist() == ["7"], "the client's type"
    assert table_of(Argument(b"2024-05-01 14:00", TEXT, TIMESTAMP), zone="+2").column(0).to_pylist() == [at]
    assert table_of(Argument(b"NaN", TEXT, NUMERIC)).column(0).type == pa.float64()
    assert arguments_table([]) == b""


# The value is None where PostgreSQL refuses the text.
TEXTS: list[tuple[int, str, Any]] = [
    (BOOL, " YES ", True),
    (BOOL, "of", False),
    (INT4, "+12 ", 12),
    (FLOAT8, "-Infinity", float("-inf")),
    (FLOAT8, ".5e1", 5.0),
    (NUMERIC, "1e3", Decimal(1000)),
    (BYTEA, "\\x00fF", b"\0\xff"),
    (BYTEA, "a\\\\b\\000", b"a\\b\0"),
    (DATE, "0001-01-01 BC", -719_528),
    (DATE, "20000-02-29", 6_585_381),
    (DATE, "1970-01-02 +00", 1),
    (DATE, "1970-01-02-04", None),
    (DATE, "1970-01-02T", None),
    (DATE, "1970-01-02 +99", None),
    (TIME, "23:59:59.5", 86_399_500_000),
    (TIMESTAMPTZ, "1970-01-01T00:00:00.0000005Z", 0),
    (TIMESTAMPTZ, "1969-12-31 24:00:00+00", 0),
    (TIMESTAMPTZ, "1970-1-1 1:00 -0330", 16_200_000_000),
    (TIMESTAMPTZ, "epoch", 0),
    (TIMESTAMPTZ, "1970-01-01 +02", -7_200_000_000),
    (TIMESTAMPTZ, "1970-01-01 x", None),
    (1007, '{1, NULL,"3"}', [1, None, 3]),
    (1009, '{{a,"b c"},{NULL,"\\""}}', [["a", "b c"], [None, '"']]),
    (1009, " {} ", []),
]


@pytest.mark.parametrize(("oid", "text", "value"), TEXTS)
def test_a_text_is_read_as_postgresql_reads_it(oid: int, text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(PSoupError, match="invalid input syntax"):
            argument_value(Argument(text.encode(), TEXT, oid), 1)
    else:
        assert argument_value(Argument(text.encode(), TEXT, oid), 1) == value


BINARIES: list[tuple[int, bytes, Any]] = [
    (BOOL, b"\1", True),
    (INT8, struct.pack("!q", -5), -5),
    (NUMERIC, struct.pack("!hhHhh", 1, 1, 0x4000, 0, 12), Decimal(-120_000)),
    (NUMERIC, struct.pack("!hhHh", 0, 0, 0, 3), Decimal("0.000")),
    (TIMESTAMPTZ, struct.pack("!q", 0), 946_684_800_000_000),
    (1007, struct.pack("!iiIiiiiii", 1, 1, INT4, 2, 1, 4, 9, -1, 0)[:-4], [9, None]),
    (1007, struct.pack("!iiI", 0, 0, INT4), []),
]


@pytest.mark.parametrize(("oid", "raw", "value"), BINARIES)
def test_bytes_are_read_as_postgresql_reads_them(oid: int, raw: bytes, value: Any) -> None:
    assert argument_value(Argument(raw, BINARY, oid), 1) == value
    for cut in range(len(raw)):
        with pytest.raises(PSoupError) as refused:
            argument_value(Argument(raw[:cut], BINARY, oid), 1)
        assert errors.state_of(refused.value) == "22P03"


@pytest.mark.parametrize(
    ("oid", "raw", "form", "state", "message"),
    [
        (INT8, b"abc", TEXT, "22P02", 'invalid input syntax for type bigint: "abc" (parameter $1)'),
        (INT8, b"9" * 10_000, TEXT, "22003", f'value "{"9" * 59}…" is out of range for type bigint (parameter $1)'),
        (FLOAT8, b"1e999", TEXT, "22003", 'value "1e999" is out of range for type double precision (parameter $1)'),
        (FLOAT8, b"1_0", TEXT, "22P02", 'invalid input syntax for type double precision: "1_0" (parameter $1)'),
        (NUMERIC, b"1e99999", TEXT, "22003", 'value "1e99999" is out of range for type numeric (parameter $1)'),
        (NUMERIC, b"1e50", TEXT, "22003", "parameter $1 has more than 38 digits; give it fewer"),
        (DATE, b"2023-02-29", TEXT, "22008", 'date/time field value out of range: "2023-02-29" (parameter $1)'),
        (TIMESTAMPTZ, b"yesterday", TEXT, "22P02",
         'invalid input syntax for type timestamp with time zone: "yesterday" (parameter $1)'),
        (TIMESTAMPTZ, struct.pack("!q", 2**63 - 1), BINARY, "22008",
         'value "infinity" is out of range for type timestamp with time zone (parameter $1)'),
        (FLOAT8, b"9" * 10_001, TEXT, "22003",
         f'value "{"9" * 59}…" is out of range for type double precision (parameter $1)'),
        (TIMESTAMPTZ, b"2024-05-01 00:00:00." + b"1" * 10_000, TEXT, "22008",
         f'value "2024-05-01 00:00:00.{"1" * 39}…" is out of range for type timestamp with time zone (parameter $1)'),
        (TEXT_OID, b"\xff", TEXT, "22021", "parameter $1 is not UTF-8"),
        (INT8, b"abc", BINARY, "22P03", "incorrect binary data format for type bigint (3 bytes) (parameter $1)"),
    ],
)  # fmt: skip
def test_a_bad_argument_names_its_number_and_type(oid: int, raw: bytes, form: int, state: str, message: str) -> None:
    with pytest.raises(PSoupError) as refused:
        table_of(Argument(raw, form, oid))
    assert refused.value.message == message and errors.state_of(refused.value) == state


def test_types_that_psoup_lacks_are_refused_by_name() -> None:
    for oid, name in ((BYTEA, "bytea"), (1007, "integer[]"), (TIME, "time without time zone")):
        with pytest.raises(NotSupported) as refused:
            table_of(Argument(b"", TEXT, oid))
        assert refused.value.problem == f"parameter $1 has the type {name}, which PSoup lacks; cast it"


@pytest.mark.parametrize("text", ["{" * 50_000, "{1", "{1}}", "{,}", '{"a}', "1", "{a}{b}", "{{1},2,{"])
def test_a_text_that_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(PSoupError, match="invalid input syntax for type") as refused:
        argument_value(Argument(text.encode(), TEXT, 1016), 1)
    assert len(refused.value.message) < 200


def test_a_long_array_is_refused() -> None:
    long = struct.pack("!iiIii", 1, 1, INT4, 200_000, 1) + b"\xff" * 800_000
    for raw, form in ((b"{" + b"1," * 200_000 + b"1}", TEXT), (long, BINARY)):
        with pytest.raises(PSoupError, match="values or more; at most 100,000 are taken") as refused:
            argument_value(Argument(raw, form, 1007), 1)
        assert errors.state_of(refused.value) == "54000"
