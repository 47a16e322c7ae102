"""Backfills by Spark: history and live data together are what DuckDB says of both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, InvalidData, OutOfRange
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
START = datetime(2021, 11, 7, 5, 0, tzinfo=UTC)
"""An hour before New York had 01:30 twice."""
COLUMNS = (
    "(seen TIMESTAMP NOT NULL, n BIGINT, price DECIMAL(12,3), t TEXT, x DOUBLE, ok BOOLEAN, day DATE) TIMESTAMP BY seen"
)
STATEMENTS = (
    "SELECT * FROM {} WHERE n % 3 = 0",
    "SELECT n, price FROM {} WHERE price > 100.5 AND t LIKE 'a%'",
    "SELECT seen, x FROM {} WHERE x IS NULL OR x < 0.25",
    "SELECT n FROM {} WHERE seen BETWEEN TIMESTAMP '2021-11-07 05:59:00' AND TIMESTAMP '2021-11-07 06:31:00'",
    "SELECT DISTINCT t, ok, day FROM {} WHERE ok OR t IS NULL",
)


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a service that has a disk."""
    store = DurableStore(tmp_path_factory.mktemp("data") / "data", reserve_bytes=0)
    with serving(store=store) as service, Client(service.address, timeout=60) as client:
        client.create_stream(f"CREATE STREAM years {COLUMNS}")
        yield client


def rows(first: int, stop: int) -> pa.Table:
    """A row each ten seconds, all of them twice; NULLs in every column but the time."""
    numbers = [n for n in range(first, stop) for _ in range(2)]
    return pa.table(
        {
            "seen": pa.array([START + timedelta(seconds=10 * (n // 5)) for n in numbers], pa.timestamp("us", "UTC")),
            "n": pa.array([None if n % 11 == 0 else n for n in numbers], pa.int64()),
            "price": pa.array([None if n % 7 == 0 else Decimal(n) / 8 for n in numbers], pa.decimal128(12, 3)),
            "t": [None if n % 5 == 0 else f"{'ab'[n % 2]}{n % 13}" for n in numbers],
            "x": [None if n % 9 == 0 else (n % 17) / 16 for n in numbers],
            "ok": [None if n % 6 == 0 else n % 4 == 1 for n in numbers],
            "day": [None if n % 8 == 0 else (START + timedelta(days=n % 40)).date() for n in numbers],
        }
    )


def check(client: Client, stream: str, ids: list[str], whole: pa.Table) -> None:
    """All queries against DuckDB over all rows."""
    connection = duckdb.connect()
    connection.register(stream, whole.set_column(0, "seen", whole.column("seen").cast(pa.timestamp("us"))))
    for text, query in zip(STATEMENTS, ids, strict=True):
        found = client.query(query).invoke(wait_for=client.last_sequence).rows()
        wanted = connection.execute(text.format(stream)).fetchall()
        assert counted(found) == counted(wanted), text
    connection.close()


def counted(found: Any) -> list[str]:
    """Rows as sorted text, times without a zone."""
    plain = [[v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row] for row in found]
    return sorted(map(repr, plain))


def test_history_and_live_data_are_one_stream(spark: Any, durable: Client, tmp_path: Path) -> None:
    from psoup_spark.backfill import backfill

    (tmp_path / "in").mkdir()
    for number in range(4):  # files whose times overlap, and are not in order
        part = rows(0, 1_000).take([n for n in range(2_000) if n % 4 == number][::-1])
        pq.write_table(part, tmp_path / "in" / f"{number}.parquet")
    frame = spark.read.parquet(str(tmp_path / "in"))
    before = [durable.register(text.format("years")).id for text in STATEMENTS[:3]]
    durable.push("years", rows(1_000, 1_200))
    site = durable.begin_attach("years", "first")
    done = backfill(frame, "years", job="first", address=durable.address, chunk_rows=300)
    assert (done.rows, done.bad, done.duplicate) == (2_000, 0, False)
    assert done.chunks >= 7
    assert not os.listdir(site.folder)
    ids = before + [durable.register(text.format("years")).id for text in STATEMENTS[3:]]
    check(durable, "years", ids, rows(0, 1_200))
    kept = [durable.query(query).explain().details["column_forms"].get("on disk", 0) for query in ids]
    assert kept == [done.chunks] * 3 + [0, 0], "what stood when the job began was evaluated by it"
    again = backfill(frame, "years", job="first", address=durable.address)
    assert (again.duplicate, again.rows) == (True, 0)
    with pytest.raises(OutOfRange, match="must end at or before 2021-11-07T05:00:00Z"):
        backfill(frame, "years", job="second", address=durable.address)
    older = frame.selectExpr("* EXCEPT (seen)", "seen - INTERVAL 1 DAY AS seen")
    assert backfill(
        older, "years", job="older", address=durable.address, since=START - timedelta(hours=23, minutes=50)
    ).rows
    info = durable.describe("years")
    assert info.first_tuple_id == -(info.tuples - 400)


def test_csv_is_mapped_and_bad_rows_are_set_aside(spark: Any, durable: Client, tmp_path: Path) -> None:
    from psoup_spark.backfill import backfill

    durable.create_stream("CREATE STREAM bills (at TIMESTAMP, n BIGINT NOT NULL, price DECIMAL(9,2)) TIMESTAMP BY at")
    lines = ["when,number,cost", "2021-11-07 01:30:00-04:00,1,1.25", "2021-11-07 01:30:00-05:00,2,", ",3,1"]
    lines += ["2021-11-07 00:00:00Z,4.5,1", "yesterday,5,1", "2021-11-07 00:00:01Z,6,1.255", "2021-11-07 00:00:02Z,,2"]
    (tmp_path / "bills.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    frame = spark.read.csv(str(tmp_path / "bills.csv"), header=True)
    names = {"at": "`when`", "n": "number", "PRICE": "cost"}
    with pytest.raises(InvalidData, match="--quarantine DIR"):
        backfill(frame, "bills", job="bills", mapping=names, address=durable.address)
    aside = tmp_path / "aside"
    done = backfill(
        frame, "bills", job="bills", mapping=names, address=durable.address, quarantine=str(aside), chunk_rows=10
    )
    assert (done.rows, done.bad, done.quarantine) == (2, 5, str(aside))
    reasons = sorted(row["_problem"] for row in spark.read.parquet(str(aside)).collect())
    assert reasons == [
        "at: NULL, and it is the time",
        "at: yesterday is not a valid TIMESTAMP",
        "n: 4.5 is not a valid BIGINT",
        "n: NULL, and the column is NOT NULL",
        "price: 1.255 is not a valid DECIMAL(9,2)",
    ]
    found = durable.query(durable.register("SELECT at, n, price FROM bills").id).invoke().rows()
    assert [(row[0].isoformat(), *row[1:]) for row in found] == [
        ("2021-11-07T05:30:00+00:00", 1, Decimal("1.25")),
        ("2021-11-07T06:30:00+00:00", 2, None),
    ]


def test_infinite_times_and_dates_are_set_aside(spark: Any, durable: Client, tmp_path: Path) -> None:
    from psoup_spark.backfill import backfill

    durable.create_stream("CREATE STREAM ends (at TIMESTAMP, until TIMESTAMP, day DATE) TIMESTAMP BY at")
    last = 2**63 - 1
    rows = [(0, 1, 2), (1, last, 0), (2, -last, 0), (3, 0, 2**31 - 1), (4, 0, 1 - 2**31), (last, 0, 0), (5, None, None)]
    numbers = spark.createDataFrame(rows, "a bigint, u bigint, d int")
    frame = numbers.selectExpr(
        "timestamp_micros(a) AS at", "timestamp_micros(u) AS until", "date_from_unix_date(d) AS day"
    )
    aside = tmp_path / "aside"
    done = backfill(frame, "ends", job="j", address=durable.address, quarantine=str(aside))
    assert (done.rows, done.bad) == (2, 5)
    reasons = sorted(row[0] for row in spark.read.parquet(str(aside)).select("_problem").collect())
    no_time = "which PSoup does not take"
    assert (
        reasons
        == [f"at: an infinite TIMESTAMP, {no_time}"]
        + [f"day: an infinite DATE, {no_time}"] * 2
        + [f"until: an infinite TIMESTAMP, {no_time}"] * 2
    )


def test_a_stream_in_system_time_says_which_column_is_the_time(spark: Any, durable: Client) -> None:
    from psoup_spark.backfill import backfill

    durable.create_stream("CREATE STREAM clocked (n BIGINT)")
    frame = spark.range(1_000).withColumnRenamed("id", "n")
    with pytest.raises(InvalidData, match="--mapping _time=EXPRESSION"):
        backfill(frame, "clocked", job="j", address=durable.address)
    with pytest.raises(InvalidData, match="the stream has no column 'm'"):
        backfill(frame, "clocked", job="j", mapping={"m": "n"}, address=durable.address)
    names = {"_time": "timestamp_seconds(n)"}
    assert backfill(frame, "clocked", job="j", mapping=names, address=durable.address, chunk_rows=128).rows == 1_000
    query = durable.register("SELECT n, _id FROM clocked WHERE _time < TIMESTAMP '1970-01-01 00:00:03'")
    assert list(query.invoke().rows()) == [(0, -1_000), (1, -999), (2, -998)]


def test_a_job_that_dies_leaves_nothing_and_is_replaced(spark: Any, durable: Client) -> None:
    from psoup_spark.backfill import backfill, job_name

    durable.create_stream("CREATE STREAM dying (at TIMESTAMP, n BIGINT) TIMESTAMP BY at")
    query = durable.register("SELECT n FROM dying")
    site = durable.begin_attach("dying", "j")
    left = Path(site.folder) / f"{job_name(site)}-dead"
    left.mkdir()
    (left / "00000-7-00000.parquet").write_bytes(b"half a chunk")
    (left / "manifest.json").write_text(json.dumps({"format": 1})[:9], encoding="utf-8")
    frame = spark.range(500).selectExpr("timestamp_seconds(id) AS at", "id AS n")
    failing = frame.selectExpr("at", "IF(n = 400, raise_error('lost'), n) AS n")
    with pytest.raises(Exception, match="lost"):
        backfill(failing, "dying", job="j", address=durable.address)
    assert not os.listdir(site.folder)
    assert list(query.invoke().rows()) == []
    assert backfill(frame, "dying", job="j", address=durable.address).rows == 500
    assert [row[0] for row in query.invoke(wait_for=durable.last_sequence).rows()] == list(range(500))
    nothing = backfill(frame.where("n < 0"), "dying", job="empty", address=durable.address)
    assert (nothing.rows, nothing.chunks, nothing.duplicate) == (0, 0, False)


def test_the_command_backfills_and_says_what_it_did(spark: Any, durable: Client, tmp_path: Path) -> None:
    durable.create_stream("CREATE STREAM told (seen TIMESTAMP, n BIGINT) TIMESTAMP BY seen")
    (tmp_path / "one.csv").write_text("when,n\n2021-01-01 00:00:00,1\n2021-01-02 00:00:00,x\n", encoding="utf-8")
    command = ["spark", "backfill", "told", "--input", str(tmp_path / "*.csv"), "--format", "csv"]
    command += ["--option", "header=true", "--mapping", "seen=to_timestamp(`when`)", "--address", durable.address]
    command += ["--quarantine", str(tmp_path / "aside")]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert (shown["rows"], shown["chunks"], shown["bad"], shown["duplicate"]) == (1, 1, 1, False)
    again = CliRunner().invoke(app, command)
    assert "had been attached before; nothing was done." in again.stderr
