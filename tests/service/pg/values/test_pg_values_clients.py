"""Drivers read the rows that a producer has pushed, and write the rows that a reader gets: asyncpg, psycopg, pg8000."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import asyncpg
import numpy as np
import pg8000.dbapi
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup_client import Client
from psoup_testing.oracles.pg_batches import random_batch
from psoup_testing.services.threaded_service import Serving

COLUMNS = "flag BOOLEAN, whole BIGINT, number DOUBLE, price DECIMAL(18,4), text TEXT, late TIMESTAMP, day DATE"
ASKED = "SELECT flag, whole, number, price, text, late, day FROM {}"
ROWS = 60
MIDDLE = dt.date(2000, 1, 1)
_DAY = 86_400_000_000


def _batch() -> pa.Table:
    """Random rows with times of the years 2 to 9998. For asyncpg, the ends of Python's times are infinities."""
    batch = random_batch(np.random.default_rng(9), ROWS)
    days = _clipped(batch["day"].cast(pa.int32()), -718_797, 2_932_531).cast(pa.int32()).cast(pa.date32())
    late = _clipped(batch["late"].cast(pa.int64()), -718_797 * _DAY, 2_932_531 * _DAY).cast(batch["late"].type)
    table = pa.table(batch).select(["flag", "whole", "number", "price", "text"])
    return table.append_column("late", late).append_column("day", days)


def _clipped(numbers: pa.Array, low: int, high: int) -> pa.Array:
    return pc.max_element_wise(pc.min_element_wise(numbers, high, skip_nulls=False), low, skip_nulls=False)


TABLE = _batch()


def comparable(rows: Any) -> list[str]:
    """The rows as texts, in an order."""
    return sorted(repr(tuple(_in_utc(value) for value in row)) for row in rows)


def _in_utc(value: Any) -> Any:
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value


WANTED = comparable(zip(*(column.to_pylist() for column in TABLE.columns), strict=True))


@pytest.fixture(scope="module")
def place(running: Serving) -> tuple[str, int]:
    """The host and the port of a service with a stream of random tuples."""
    with Client(running.address, timeout=60) as client:
        for name in ("random", "copied"):
            client.create_stream(f"CREATE STREAM {name} ({COLUMNS})")
        client.push("random", TABLE)
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return host, int(port)


def test_asyncpg_reads_and_copies(place: tuple[str, int]) -> None:
    host, port = place

    async def read_and_copied() -> tuple[Any, Any]:
        connection = await asyncpg.connect(host=host, port=port, user="me", database="any")
        rows = await connection.fetch(ASKED.format("random"))
        await connection.copy_records_to_table("copied", records=map(tuple, rows), columns=TABLE.column_names)
        copied = [
            *await connection.fetch(f"{ASKED.format('copied')} WHERE day > $1 OR day IS NULL", MIDDLE),
            *await connection.fetch(f"{ASKED.format('copied')} WHERE day <= $1", MIDDLE),
        ]
        await connection.close()
        return rows, copied

    assert list(map(comparable, asyncio.run(read_and_copied()))) == [WANTED, WANTED]


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_both_formats_in_a_zone(place: tuple[str, int], binary: bool) -> None:
    address = f"host={place[0]} port={place[1]} user=me dbname=any options='-c TimeZone=Asia/Kolkata'"
    with psycopg.connect(address, autocommit=True) as connection:
        assert comparable(connection.cursor(binary=binary).execute(ASKED.format("random")).fetchall()) == WANTED


def test_pg8000_reads_texts(place: tuple[str, int]) -> None:
    connection = pg8000.dbapi.connect("me", host=place[0], port=place[1], database="any")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute(ASKED.format("random").replace("late, ", ""))
    rows = cursor.fetchall()
    connection.close()
    without = zip(*(TABLE[name].to_pylist() for name in TABLE.column_names if name != "late"), strict=True)
    assert comparable(rows) == comparable(without)
