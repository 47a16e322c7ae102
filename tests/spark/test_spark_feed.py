"""Feeds from Spark: the stream has the rows that DuckDB reads in the files, whatever was killed on the way."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, InvalidData, NotFound, Unavailable
from psoup_service.process.settings import Settings
from psoup_testing.oracles.questions import again
from psoup_testing.services.proxy import Cut, cutting
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.spark.session import POINTS, SCHEMA, files, needs_java, run_driver
from psoup_testing.suite.budget import SCALE

pytestmark = [needs_java, pytest.mark.long]
Make = Callable[[str], str]
ONCE = {"availableNow": True}


def write(folder: Path, number: int, rows: int = 1_000) -> None:
    """A file of rows that no other file has; some texts are NULL."""
    folder.mkdir(exist_ok=True)
    start = number * rows
    texts = [None if n % 7 == 0 else f"t{n % 5}" for n in range(start, start + rows)]
    pq.write_table(pa.table({"n": range(start, start + rows), "t": texts}), folder / f"{number:04d}.parquet")


def rows_of(client: Client, stream: str, columns: str = "*") -> list[tuple[Any, ...]]:
    query = client.register(f"SELECT {columns} FROM {stream}")
    return sorted(again(query.invoke, wait_for=client.last_sequence).rows(), key=repr)


def read(folder: Path, columns: str = "*") -> list[tuple[Any, ...]]:
    """What DuckDB reads."""
    return sorted(duckdb.sql(f"SELECT {columns} FROM '{folder}/*.parquet'").fetchall(), key=repr)


def test_every_type_arrives_as_duckdb_reads_it_whatever_the_session_zone(
    spark: Any, client: Client, make_stream: Make, tmp_path: Path, running: Serving
) -> None:
    """In New York 2021-11-07 01:30 was twice, and 2021-03-14 02:30 never; rows come twice, too."""
    from psoup_spark import feed

    name = make_stream(
        "(seen TIMESTAMP, plain TIMESTAMP, price DECIMAL(12,3), day DATE, t TEXT, x DOUBLE, ok BOOLEAN, n BIGINT)"
    )
    instants = ["2021-11-07T05:30:00", "2021-11-07T06:30:00", "2021-03-14T07:30:00", "1969-12-31T23:59:59.999999", None]
    at = [None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC) for text in instants] * 2
    table = pa.table(
        {
            "seen": pa.array(at, pa.timestamp("us", "UTC")),
            "plain": pa.array([None if one is None else one.replace(tzinfo=None) for one in at], pa.timestamp("us")),
            "price": pa.array(["1.5", "-0.001", None, "99999999.999", "0"] * 2).cast(pa.decimal128(18, 3)),
            "day": pa.array([0, -1, 20_000, None, 1] * 2, pa.date32()),
            "t": pa.array(["é", "", None, "x" * 300, "'"] * 2),
            "x": pa.array([0.1, float("nan"), float("inf"), None, -0.0] * 2),
            "ok": pa.array([True, False, None, True, False] * 2),
            "n": pa.array([2**63 - 1, -(2**63), None, 0, 1] * 2),
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))
        running_feed = feed(frame, name, checkpoint=tmp_path / "c", address=running.address, trigger=ONCE)
        assert running_feed.wait()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert running_feed.result.accepted == 10
    columns = "epoch_us(seen), epoch_us(plain), price, day, t, x, ok, n"
    expected = read(tmp_path / "in", columns)
    shown = rows_of(client, name)
    micros = [(*(None if v is None else round(v.timestamp() * 1e6) for v in row[:2]), *row[2:]) for row in shown]
    assert sorted(map(repr, micros)) == list(map(repr, expected))  # NaN is not equal to itself


def test_a_feed_goes_on_where_it_ended(
    spark: Any, client: Client, make_stream: Make, tmp_path: Path, running: Serving
) -> None:
    from psoup_spark import feed

    name = make_stream("(n BIGINT, t TEXT)")
    told: list[int] = []

    def run() -> int:
        one = feed(
            files(spark, tmp_path / "in"),
            name,
            checkpoint=tmp_path / "c",
            address=running.address,
            trigger=ONCE,
            progress=lambda number, result: told.append(number),
        )
        assert one.wait()
        return one.result.accepted

    write(tmp_path / "in", 0)
    write(tmp_path / "in", 1)
    assert run() == 2_000
    assert run() == 0
    write(tmp_path / "in", 2)
    assert run() == 1_000
    assert told == [0, 1, 2]
    assert rows_of(client, name) == read(tmp_path / "in")


def test_a_task_that_is_run_again_counts_once(spark: Any, client: Client, make_stream: Make, running: Serving) -> None:
    """The first attempts have sent a part of their rows when they die."""
    from psoup_spark.row_sender import BatchId, RowTarget, send

    name = make_stream("(id BIGINT)")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            if seen > 80_000 and context is not None and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt dies")
            yield batch

    frame = spark.range(0, 200_000, 1, 2).mapInArrow(fail_once, "id long")
    target = RowTarget(running.address, name, 10)
    assert send(frame, target, BatchId("job")).accepted == 200_000
    again = send(frame.limit(10), target, BatchId("job"))
    assert (again.accepted, again.duplicates) == (200_000, 1)
    assert send(frame.limit(0), target, BatchId("job", 1)).accepted == 0
    query = client.register(f"SELECT id FROM {name}")
    found = query.invoke(wait_for=client.describe(name).tuples and client.last_sequence).to_arrow().column("id")
    assert sorted(found.to_pylist()) == list(range(200_000))


def test_the_watermark_becomes_the_heartbeat(
    spark: Any, client: Client, make_stream: Make, tmp_path: Path, running: Serving
) -> None:
    from psoup_spark import feed

    name = make_stream("(at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 1 DAY")
    (tmp_path / "in").mkdir()
    for hour in range(4):
        times = pa.array([datetime(2024, 5, 1, hour, tzinfo=UTC)], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"at": times}), tmp_path / "in" / f"{hour}.parquet")
    frame = spark.readStream.schema("at timestamp").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    frame = frame.withWatermark("at", "10 minutes")
    feed(frame, name, checkpoint=tmp_path / "c", address=running.address, trigger=ONCE).wait()
    client.register(f"SELECT * FROM {name}")  # an event behind the feed's last: what this client is shown has both
    watermark = client.describe(name).watermark
    assert watermark is not None
    assert watermark >= datetime(
        2024, 5, 1, 1, 50, tzinfo=UTC
    )  # of three files, in any order; LATENESS: the day before


def test_what_does_not_fit_is_named(
    spark: Any, client: Client, make_stream: Make, tmp_path: Path, running: Serving
) -> None:
    from psoup_spark import feed

    name = make_stream("(n BIGINT NOT NULL, t TEXT)")
    write(tmp_path / "in", 0)

    def start(schema: str, stream: str = name, address: str = running.address) -> Any:
        frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
        return feed(frame, stream, checkpoint=tmp_path / schema, address=address, trigger=ONCE, patience=0)

    with pytest.raises(InvalidData, match="no column 'm'"):
        start("m long")
    with pytest.raises(InvalidData, match="'n' is missing"):
        start("t string")
    with pytest.raises(InvalidData, match="'n' is BIGINT, but the data has binary"):
        start("n binary")
    with pytest.raises(NotFound, match="nowhere"):
        start(SCHEMA, "nowhere")
    with pytest.raises(Unavailable, match="psoup serve"):
        start(SCHEMA, address="127.0.0.1:1")
    with pytest.raises(TypeError, match=r"df\.write"):
        feed(spark.read.parquet(str(tmp_path / "in")), name, checkpoint=tmp_path / "x", address=running.address)
    pq.write_table(pa.table({"n": [None, 1], "t": ["a", "b"]}), tmp_path / "in" / "9.parquet")
    with pytest.raises(InvalidData, match="'n' is NULL"):
        start(SCHEMA).wait()
    assert client.describe(name).tuples == 0


def test_a_service_without_room_slows_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another stage holds the room; while the sender pauses, it is committed."""
    from psoup_spark import row_sender

    pauses: list[float] = []
    with serving(Settings(port=0, staged_mib=1)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        other, mine = client.stage("s", producer="other"), client.stage("s", producer="mine")
        rows = pa.record_batch({"n": pa.array(range(80_000))})
        other.add(rows)

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            other.commit()

        monkeypatch.setattr(row_sender, "time", SimpleNamespace(sleep=pause))
        sent = row_sender.send_partition(row_sender.RowTarget(service.address, "s", 60), mine.id, [rows])
        assert (sent.problem, sent.rows) == (None, 80_000)
        assert pauses == [0.5], "as long as the service asked for"
        assert mine.commit(sent.parts).accepted == 80_000


def test_kill_9_of_workers_and_cuts_of_the_network(
    spark: Any, client: Client, make_stream: Make, tmp_path: Path, running: Serving
) -> None:
    """T12. In each batch a worker dies after it has sent some of its rows; connections are cut at random."""
    from psoup_spark import feed

    batches, source = max(2, round(2 * SCALE)), random.Random(7)
    name = make_stream("(n BIGINT, t TEXT)")
    for number in range(batches):
        write(tmp_path / "in", number, 70_000 if number == 0 else 2_000)
    (tmp_path / "killed").mkdir()
    frame = files(spark, tmp_path / "in").mapInArrow(killing(tmp_path / "killed"), SCHEMA)
    cuts = [Cut(source.randrange(1, 200_000 if n % 2 else 600), up=bool(n % 2)) for n in range(2 * batches)]
    with cutting(running.address, cuts) as proxy:
        fed = feed(frame, name, checkpoint=tmp_path / "c", address=proxy.address, trigger=ONCE, patience=60)
        assert fed.wait()
        assert proxy.connections > batches
    assert len(list((tmp_path / "killed").iterdir())) == batches
    assert rows_of(client, name) == read(tmp_path / "in")


def killing(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they are; the first worker that has passed on some of a file's last rows dies by SIGKILL, once a file."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            mark = folder / str(batch.column(0)[-1].as_py())
            if batch.num_rows < 65_536 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return work


def test_kill_9_of_driver_and_service_at_each_step(spark: Any, tmp_path: Path) -> None:
    """T29. The last run, of another driver, has the service killed under it as well."""
    from psoup_spark import feed

    kills = max(1, round(SCALE))
    for number in range(kills + 3):
        write(tmp_path / "in", number)
    with Zygote() as zygote:
        zygote.start(str(tmp_path / "data"))
        address = zygote.ready()
        port = int(address.rpartition(":")[2])
        with Client(address, timeout=60) as client:
            client.create_stream("CREATE STREAM s (n BIGINT, t TEXT)")
            query = client.register("SELECT * FROM s").id
        for kill in range(kills):
            point = POINTS[(kill + 1) % len(POINTS)]
            run_driver(address, "s", tmp_path / "in", tmp_path / "c", point, kill)

        def kill_the_service(number: int, result: Any) -> None:
            if number == kills:
                assert zygote.kill() == 9
                zygote.start(str(tmp_path / "data"), port)

        last = feed(
            files(spark, tmp_path / "in"),
            "s",
            checkpoint=tmp_path / "c",
            address=address,
            trigger=ONCE,
            patience=60,
            progress=kill_the_service,
        )
        assert last.wait()
        assert zygote.ready() == address
        with Client(address, timeout=60) as client:
            found = again(client.query(query).invoke, wait_for=last.result.sequence).rows()
        assert sorted(found, key=repr) == read(tmp_path / "in")
        assert zygote.stop() == 0


def test_the_command(
    spark: Any, client: Client, make_stream: Make, tmp_path: Path, running: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = make_stream("(n BIGINT, t TEXT)")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("t,n\na,1\n,2\n")
    line = ["spark", "feed", name, "--path", str(tmp_path / "in"), "--checkpoint", str(tmp_path / "c"), "--once"]
    line += ["--address", running.address, "--source", "csv", "--schema", "t string, n string", "--json"]
    bad = CliRunner().invoke(app, [*line, "--select", "nothing"])
    assert bad.exit_code == 1
    assert "psoup: Spark: [UNRESOLVED_COLUMN" in bad.stderr
    line += ["--select", "concat(t, ',') AS t, cast(n AS bigint) AS n", "--option", "header=true"]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["accepted"] == 2
    assert rows_of(client, name) == [(1, "a,"), (2, None)]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 1
    assert "JAVA_HOME" in done.stderr
    for module in [module for module in sys.modules if module.split(".")[0] == "psoup_spark"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 1
    assert "pip install 'psoup[spark]'" in done.stderr
