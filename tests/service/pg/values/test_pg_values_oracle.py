"""A server of PostgreSQL as the oracle of values: it takes our bytes, and prints the same ones.

random rows ──binary──> PostgreSQL ──text, CSV, binary──> the bytes that we write, and the rows that we read
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from psoup_service.pg.contract import Column
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.copy_in import CopyReader
from psoup_service.pg.values.copy_out import CopyRows
from psoup_service.pg.values.types import TIMESTAMPTZ, column_of
from psoup_service.pg.values.zones import Zone
from psoup_testing.oracles.pg_batches import SQL, STREAMED, comparable, random_batch
from psoup_testing.services import postgres
from psoup_testing.services.postgres import Postgres
from psoup_testing.suite.budget import scaled

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "-")]

FORMS: list[tuple[str, dict[str, str]]] = [
    ("FORMAT text", {}),
    ("DELIMITER '|', NULL 'NULL'", {"delimiter": "|", "null": "NULL"}),
    ("DELIMITER ' '", {"delimiter": " "}),
    ("FORMAT csv, HEADER", {"format": "csv", "header": ""}),
    (
        "FORMAT csv, DELIMITER ';', QUOTE '''', ESCAPE '\\', NULL 'NULL'",
        {"format": "csv", "delimiter": ";", "quote": "'", "escape": "\\", "null": "NULL"},
    ),
    ("FORMAT binary", {"format": "binary"}),
]
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "+3", "Africa/Monrovia"]
READ = {attribute.name: attribute for attribute in STREAMED}


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    with Postgres() as server:
        connection = psycopg2.connect(server.address)
        connection.autocommit = True
        yield connection.cursor()
        connection.close()


def data_of(messages: bytes) -> bytes:
    """The data in messages of a COPY."""
    parts, at = list[bytes](), 0
    while at < len(messages):
        size = struct.unpack_from("!i", messages, at + 1)[0]
        parts.append(messages[at + 5 : at + 1 + size])
        at += 1 + size
    return b"".join(parts)


def written(batch: pa.RecordBatch, columns: list[Column], form: CopyForm, zone: str = "UTC") -> bytes:
    """The data of rows that we write."""
    writer = CopyRows(columns, form, Zone.named(zone))
    return data_of(writer.head() + writer.rows(batch) + writer.end())


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_postgresql_prints_the_same_bytes_and_we_read_them(cursor: Any, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 400)
    columns = [column_of(field) for field in batch.schema]
    cursor.execute("DROP TABLE IF EXISTS t")
    declared = ", ".join(f'"{name}" {kind}' for name, kind in SQL.items())
    cursor.execute(f"CREATE TABLE t (k int8, {declared})")
    keyed = pa.record_batch([pa.array(range(batch.num_rows)), *batch.columns], ["k", *batch.schema.names])
    data = written(keyed, [Column("k", 20), *columns], CopyForm("binary"))
    cursor.copy_expert("COPY t FROM STDIN (FORMAT binary)", io.BytesIO(data))
    for column in columns:
        for options, given in FORMS:
            for zone in ZONES if column.oid == TIMESTAMPTZ else ZONES[:1]:
                cursor.execute("SET TimeZone TO %s", (zone,))
                printed = io.BytesIO()
                cursor.copy_expert(f'COPY (SELECT "{column.name}" FROM t ORDER BY k) TO STDOUT ({options})', printed)
                check(batch.select([column.name]), column, CopyForm.of(given), zone, printed.getvalue())


def check(batch: pa.RecordBatch, column: Column, form: CopyForm, zone: str, printed: bytes) -> None:
    ours = written(batch, [column], form, zone)
    if ours != printed:
        lines = zip(ours.split(b"\n"), printed.split(b"\n"), strict=False)
        raise AssertionError((column, form, zone, [pair for pair in lines if pair[0] != pair[1]][:3]))
    if column.name in READ:
        reader = CopyReader([READ[column.name]], form, "t", Zone.named(zone))
        pieces = [reader.feed(printed[at : at + 7_001]) for at in range(0, len(printed), 7_001)]
        table = pa.Table.from_batches([rows for rows in [*pieces, reader.end()] if rows is not None])
        wanted = [
            "None" if value == "'NULL'" and form.name == "text" and form.null == "NULL" else value
            for value in comparable(batch.column(0))
        ]  # the text format cannot tell such a text from NULL, in PostgreSQL too
        assert comparable(table.column(0)) == wanted, (column, form, zone)


@pytest.mark.parametrize("zone", ZONES)
def test_times_without_a_zone_are_read_as_postgresql_reads_them(cursor: Any, zone: str) -> None:
    days = ("03-10", "03-31", "07-01", "10-27", "11-03", "12-31")
    clocks = ("00:30:00", "02:30:00", "03:00:00.5")
    years = (1900, 1975, 2024, 2037, 2044, 3000)
    moments = [f"{year}-{day} {clock}" for year in years for day in days for clock in clocks]
    cursor.execute("SET TimeZone TO %s", (zone,))
    cursor.execute("SELECT (extract(epoch FROM unnest(%s::timestamptz[])) * 1000000)::int8", (moments,))
    wanted = [micros for (micros,) in cursor.fetchall()]
    reader = CopyReader([READ["time"]], CopyForm(), "t", Zone.named(zone))
    assert reader.feed("\n".join(moments).encode()) is None
    rows = reader.end()
    assert rows is not None and rows.column(0).cast(pa.int64()).to_pylist() == wanted
