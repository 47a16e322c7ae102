"""Rows for clients of PostgreSQL: kernels and the plain encoder write the same bytes, which psycopg reads."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from psycopg.adapt import Transformer
from psycopg.pq import Format

from psoup.errors import InvalidInput, OutOfRange
from psoup_service.pg.contract import BINARY, TEXT, Column
from psoup_service.pg.values import column_of, data_rows, size_of
from psoup_service.pg.values import rows as rows_module
from psoup_service.pg.values.types import DATE, INT4, NUMERIC, TIMESTAMPTZ
from psoup_service.pg.values.zones import UTC, Zone
from psoup_testing.oracles.pg_batches import random_batch

BATCH = random_batch(np.random.default_rng(7), 200)
COLUMNS = [column_of(field) for field in BATCH.schema]
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
DAYS = pa.timestamp("us", tz="UTC")


def values_of(messages: bytes) -> list[list[bytes | None]]:
    """The values in DataRow messages."""
    rows, at = list[list[bytes | None]](), 0
    while at < len(messages):
        assert messages[at : at + 1] == b"D"
        size, count = struct.unpack_from("!ih", messages, at + 1)
        end, at, row = at + 1 + size, at + 7, list[bytes | None]()
        for _ in range(count):
            length = struct.unpack_from("!i", messages, at)[0]
            row.append(None if length < 0 else messages[at + 4 : at + 4 + length])
            at += 4 + max(length, 0)
        assert at == end
        rows.append(row)
    return rows


def texts_of(column: pa.Array, zone: Zone = UTC, oid: int | None = None) -> list[str | None]:
    """The texts of a column."""
    about = column_of(pa.field("c", column.type)) if oid is None else Column("c", oid)
    rows = values_of(data_rows(pa.record_batch([column], ["c"]), [about], [TEXT], zone))
    return [None if value is None else value.decode() for (value,) in rows]


@pytest.mark.parametrize("form", [TEXT, BINARY])
@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_kernels_write_what_is_written_value_by_value(form: int, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (BATCH, BATCH.slice(33, 101), BATCH.slice(0, 0)):
        written = dict[int, bytes]()
        for few in (0, 1_000):
            monkeypatch.setattr(rows_module, "FEW_ROWS", few)
            written[few] = data_rows(part, COLUMNS, [form] * len(COLUMNS), Zone.named(zone))
        assert written[0] == written[1_000]


@pytest.mark.parametrize("form", [TEXT, BINARY])
@pytest.mark.parametrize("copies", [1, 100])
def test_psycopg_reads_the_values(form: int, copies: int) -> None:
    values: dict[str, Any] = {
        "flag": True,
        "whole": -(2**63),
        "number": 0.1,
        "price": Decimal("-0.0700"),
        "large": Decimal("12345678901234567890.5"),
        "text": "é\t\0€",
        "time": NOON,
        "day": dt.date(1, 1, 1),
        "names": ["a b", None, 'c"\\', "", "NULL"],
    }
    kinds = [pa.bool_(), pa.int64(), pa.float64(), pa.decimal128(18, 4), pa.decimal128(38, 1), pa.string(), DAYS,
             pa.date32(), pa.list_(pa.string())]  # fmt: skip
    arrays = [pa.array([value, None] * copies, kind) for value, kind in zip(values.values(), kinds, strict=True)]
    batch = pa.record_batch(arrays, list(values))
    columns = [column_of(field) for field in batch.schema]
    reader = Transformer(None)
    reader.set_loader_types([column.oid for column in columns], Format(form))
    rows = values_of(data_rows(batch, columns, [form] * len(columns)))
    read = [tuple(reader.load_sequence(row)) for row in rows]
    assert read == [tuple(values.values()), (None,) * len(values)] * copies
    assert str(read[0][3]) == "-0.0700"


def test_texts_are_those_of_postgresql() -> None:
    floats = [1e15, 123456789012345.0, 1e-4, 1e-5, -0.0, 21240063969359248.0, float("nan"), float("-inf"), 5e-324]
    printed = ["1e+15", "123456789012345", "0.0001", "1e-05", "-0", "2.1240063969359248e+16", "NaN", "-Infinity",
               "5e-324"]  # fmt: skip
    assert texts_of(pa.array(floats)) == printed
    assert texts_of(pa.array([1e6, 123456.0, 0.1], pa.float32())) == ["1e+06", "123456", "0.1"]
    assert texts_of(pa.array([b"\0\xff"])) == ["\\x00ff"]
    days = pa.array([0, -719_162, -719_163, 2_932_896, 2_932_897], pa.date32())
    assert texts_of(days) == ["1970-01-01", "0001-01-01", "0001-12-31 BC", "9999-12-31", "10000-01-01"]
    times = pa.array([0, -1, 1_500_000, -62_135_596_800_000_001], DAYS)
    assert texts_of(times) == ["1970-01-01 00:00:00+00", "1969-12-31 23:59:59.999999+00", "1970-01-01 00:00:01.5+00",
                               "0001-12-31 23:59:59.999999+00 BC"]  # fmt: skip
    assert texts_of(pa.array([NOON] * 9, DAYS), Zone.named("asia/kolkata"))[8] == "2024-05-01 17:30:00+05:30"
    assert texts_of(pa.array([[1, None], []], pa.list_(pa.int64()))) == ["{1,NULL}", "{}"]
    assert texts_of(pa.array([["a,b", "", "null", " x", 'q"\\']])) == ['{"a,b","","null"," x","q\\"\\\\"}']
    assert texts_of(pa.array([5, None], pa.uint64())) == ["5", None]
    assert texts_of(pa.array(["t", None]).dictionary_encode()) == ["t", None]
    assert texts_of(pa.array([7] * 30, pa.int64()), oid=INT4) == ["7"] * 30


def test_types_have_oids_sizes_and_modifiers() -> None:
    assert column_of(pa.field("d", pa.decimal128(6, 2))) == Column("d", NUMERIC, (6 << 16 | 2) + 4)
    oids = [column_of(pa.field("c", kind)).oid for kind in (pa.int8(), pa.uint32(), pa.timestamp("ns"), pa.null())]
    assert oids == [21, 20, 1114, 25]
    assert [size_of(oid) for oid in (16, 20, 25, 1184, 999_999)] == [1, 8, -1, 8, -1]


@pytest.mark.parametrize("copies", [1, 100])
def test_a_time_that_the_binary_format_lacks_is_refused(copies: int) -> None:
    for value, kind, oid in ((-(2**63), DAYS, TIMESTAMPTZ), (-(2**31), pa.date32(), DATE)):
        batch = pa.record_batch([pa.array([value] * copies, kind)], ["c"])
        with pytest.raises(OutOfRange, match=r"before the first that the binary format holds; select it as TEXT"):
            data_rows(batch, [Column("c", oid)], [BINARY])
        assert len(values_of(data_rows(batch, [Column("c", oid)], [TEXT]))) == copies


def test_zones_have_names_hours_and_the_form_of_posix() -> None:
    named = [Zone.named(text) for text in ("utc", " Europe/Berlin", "+2", "-05:30", "GMT-02:00", "<+03>-3")]
    at_noon = [int(zone.offsets(np.array([NOON.timestamp() * 1e6], np.int64))[0]) for zone in named]
    assert at_noon == [0, 7200, 7200, -19_800, 7200, 10_800]
    assert named[1].name == "Europe/Berlin"
    for text in ("", "Berlin", "+99", "../../etc/passwd", "x" * 10_000, "\0"):
        with pytest.raises(InvalidInput, match='invalid value for parameter "TimeZone"'):
            Zone.named(text)
