"""The standing job: what services answer over its batches is what DuckDB says of the rows, whatever was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from typer.testing import CliRunner

from psoup.model import SECOND
from psoup.sql import create_stream
from psoup_cli.app import app
from psoup_client import Client, FailedPrecondition, InvalidData
from psoup_storage import DurableStore
from psoup_testing.engines import attachments
from psoup_testing.engines.batches import seconds
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.spark.session import needs_java
from psoup_testing.spark.spark_stand import STAND_POINTS, dying_at, run_standing_driver, standing_files

pytestmark = [needs_java, pytest.mark.long]
ONCE = {"availableNow": True}
COLUMNS = "(seen TIMESTAMP NOT NULL, n BIGINT, t TEXT) TIMESTAMP BY seen"
STATEMENTS = (
    "SELECT seen, n, t FROM {} WHERE n % 3 = 0",
    "SELECT n FROM {} WHERE t LIKE 't1%' AND n > 100",
    "SELECT n, t FROM {} WHERE t IS NULL OR n < 50",
)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Client]]:
    """Two services on disk, each with its own folder."""
    with ExitStack() as opened:
        found = []
        for name in ("one", "two"):
            store = DurableStore(tmp_path_factory.mktemp(name) / "data", reserve_bytes=0)
            address = opened.enter_context(serving(store=store)).address
            found.append(opened.enter_context(Client(address, timeout=60)))
        yield found


def write(folder: Path, number: int, times: list[int]) -> None:
    """A file with a row for each second; Spark takes files in the order of their own times."""
    folder.mkdir(exist_ok=True)
    table = {
        "seen": pa.array([time * SECOND for time in times], pa.timestamp("us", "UTC")),
        "n": [None if time % 11 == 0 else 10_000 * number + time for time in times],
        "t": [None if time % 7 == 0 else f"t{time % 20}" for time in times],
    }
    new = folder / f".{number:04}"
    pq.write_table(pa.table(table), new)
    os.utime(new, (1_700_000_000 + number,) * 2)
    new.rename(folder / f"{number:04}.parquet")


def check(client: Client, stream: str, ids: list[str], folder: Path, where: str) -> None:
    """All queries against DuckDB over the files."""
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE {stream} AS SELECT make_timestamp(epoch_us(seen)) AS seen, n, t"
        f" FROM '{folder}/*.parquet' WHERE {where}"
    )
    for text, query in zip(STATEMENTS, ids, strict=True):
        found = client.query(query).invoke(wait_for=client.last_sequence).rows()
        plain = [[v.replace(tzinfo=None) if hasattr(v, "tzinfo") else v for v in row] for row in found]
        wanted = connection.execute(text.format(stream)).fetchall()
        assert sorted(map(repr, plain)) == sorted(repr(list(row)) for row in wanted), text
    connection.close()


def write_late_rows(folder: Path) -> None:
    """Four files of seconds; of the third one row is late."""
    write(folder, 0, [*range(1_000, 1_300), *range(1_000, 1_010)])
    write(folder, 1, [*range(1_240, 1_500)][::-1])
    write(folder, 2, [100, 1_439, *range(1_440, 1_600)])
    write(folder, 3, [1_700])


def begin_anew(client: Client, ids: list[str]) -> None:
    """Drop the stream with its queries, and create one of the same name."""
    for query in ids:
        client.unregister(query)
    client.drop("clicks")
    client.create_stream(f"CREATE STREAM clicks {COLUMNS} LATENESS 60 SECONDS")


def test_two_services_serve_what_one_job_evaluates(spark: Any, services: list[Client], tmp_path: Path) -> None:
    """Rows come up to a minute late; those that come later are left out."""
    from psoup_spark import stand

    known = []
    for client in services:
        client.create_stream(f"CREATE STREAM clicks {COLUMNS} LATENESS 60 SECONDS")
        known.append([client.register(text.format("clicks")).id for text in STATEMENTS])
    folder, told = tmp_path / "in", []
    write_late_rows(folder)

    def run() -> Any:
        job = stand(
            standing_files(spark, folder),
            "clicks",
            checkpoint=tmp_path / "checkpoint",
            addresses=[client.address for client in services],
            trigger=ONCE,
            progress=lambda number, result: told.append((number, result)),
        )
        assert job.wait()
        return job.result

    with dying_at("half", 1, fail), pytest.raises(StreamingQueryException, match="dies here"):
        run()
    assert [client.describe("clicks").tuples for client in services] == [250 + 260, 250]
    done = run()
    assert (done.late, done.ahead, done.bad, done.duplicates) == (1, 0, 0, 0)
    assert (done.rows, done.held, told[-1][0]) == (260 + 161 + 60, 1, 3)
    for client, ids in zip(services, known, strict=True):
        check(client, "clicks", ids, folder, "epoch(seen) BETWEEN 1000 AND 1639")
        assert client.describe("clicks").watermark == datetime.fromtimestamp(1_599, UTC)
        assert "4 on disk" in str(client.query(ids[0]).explain())
        assert not [path for path in incoming(client).iterdir() if path.suffix not in (".held", ".last")]
    begin_anew(services[1], known[1])
    write(folder, 4, [1_800])
    with pytest.raises(InvalidData, match="has none of the batches of this job, and 3 was attached"):
        run()


def incoming(client: Client) -> Path:
    return Path(client.begin_attach("clicks", "none", 0).folder)


def fail() -> None:
    raise RuntimeError("dies here")


def test_the_command(spark: Any, services: list[Client], tmp_path: Path) -> None:
    """In system time rows have the time of their batch; what does not fit is set aside."""
    client = services[0]
    client.create_stream("CREATE STREAM notes (n BIGINT NOT NULL, t TEXT)")
    query = client.register("SELECT n, t FROM notes WHERE n > 1")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("n,t\n1,a\n2,\nx,b\n", encoding="utf-8")
    line = ["spark", "stand", "notes", "--path", str(tmp_path / "in"), "--checkpoint", str(tmp_path / "c"), "--once"]
    line += ["--source", "csv", "--schema", "n string, t string", "--option", "header=true"]
    line += ["--attach", client.address, "--shared", str(tmp_path / "shared"), "--json"]
    (tmp_path / "shared").mkdir()
    refused = CliRunner().invoke(app, line)
    assert refused.exit_code == 1
    assert "1 row does not fit: n: x is not a valid BIGINT" in refused.stderr
    done = CliRunner().invoke(app, [*line, "--quarantine", str(tmp_path / "bad")])
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["rows"], said["chunks"], said["bad"]) == (2, 1, 1)
    assert query.invoke(wait_for=client.last_sequence).rows() == [(2, None)]
    assert [row.t for row in spark.read.parquet(str(tmp_path / "bad")).collect()] == ["b"]
    assert [path.suffix for path in (tmp_path / "shared").iterdir()] == [".last"]
    with pytest.raises(FailedPrecondition, match="is fed in batches"):
        client.push("notes", {"n": [3]})
    (tmp_path / "in" / "b.csv").write_text("n,t\n4,c\n", encoding="utf-8")
    (tmp_path / "other").mkdir()
    moved = CliRunner().invoke(
        app, [str(tmp_path / "other") if word == str(tmp_path / "shared") else word for word in line]
    )
    assert moved.exit_code == 1
    assert "name that one as the shared folder" in moved.stderr


def test_a_batch_that_a_heartbeat_has_outrun_is_written_anew(
    services: list[Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lay there whole, its driver dead. Without the heartbeat it is attached as it is."""
    from psoup_spark import stand_job as standing
    from psoup_spark.batch_folder import BatchFolder

    client, statement = services[0], "CREATE STREAM b (t TIMESTAMP, x BIGINT) TIMESTAMP BY t"
    client.create_stream(statement)
    spec = create_stream(statement)
    query = client.register("SELECT x FROM b BEGIN (START)")

    def written(place: BatchFolder, first: int) -> None:
        times = seconds(first, 10 * place.number + 10)
        table = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "x": [time // SECOND for time in times]})
        attachments.write(place.path, spec, table, times, [])

    def release(frame: Any, place: BatchFolder, *rest: Any) -> standing.StandResult:
        assert not place.whole
        written(place, 15)
        return standing.StandResult(rows=5, late=5)

    monkeypatch.setattr(standing, "release", release)
    batches = standing._StandingBatches(standing.BatchTarget((client.address,), "b", tmp_path, {}, None, 0.0), None)
    places = [BatchFolder(tmp_path, "q", number) for number in range(2)]
    for place in places:
        written(place, 10 * place.number)
    assert batches.put(None, places[0]).rows == 10  # type: ignore[arg-type]
    client.heartbeat("b", datetime.fromtimestamp(15, UTC))
    assert batches.put(None, places[1]).late == 5  # type: ignore[arg-type]
    found = query.invoke(wait_for=client.last_sequence).to_arrow()["x"].to_pylist()
    assert found == [*range(10), *range(15, 20)]


def test_queries_are_asked_for_again_where_a_backup_was_restored() -> None:
    """The same number is another query there."""
    from psoup_spark.stand_job import _Queries

    def now(incarnation: str) -> tuple[tuple[int, str], ...]:
        query = SimpleNamespace(info=SimpleNamespace(query_id=f"q-{incarnation}-7", sql=f"of {incarnation}", clause=""))
        client = SimpleNamespace(
            describe=lambda stream: SimpleNamespace(queries=1), queries=lambda stream, **_: [query]
        )
        site = SimpleNamespace(stream="s", stream_id=f"s-{incarnation}-1", statement="CREATE STREAM s (n BIGINT)")
        return known.now([client], [site], 0.0)  # type: ignore[list-item]

    known = _Queries()
    assert [now("aa"), now("aa"), now("bb")] == [((7, "of aa"),), ((7, "of aa"),), ((7, "of bb"),)]


def test_what_no_job_can_do_is_refused_before_it_starts(spark: Any, services: list[Client], tmp_path: Path) -> None:
    from psoup_spark import stand

    one, two = services
    one.create_stream(f"CREATE STREAM odd {COLUMNS}")
    two.create_stream(f"CREATE STREAM odd {COLUMNS.replace('n BIGINT', 'n DOUBLE')}")
    write(tmp_path / "in", 0, [1_000])
    frame = standing_files(spark, tmp_path / "in")
    with pytest.raises(InvalidData, match="has other columns"):
        stand(frame, "odd", checkpoint=tmp_path / "c", addresses=[one.address, two.address])
    one.push("odd", {"seen": [datetime.now(UTC)]})
    with pytest.raises(FailedPrecondition, match="has tuples that were pushed"):
        stand(frame, "odd", checkpoint=tmp_path / "c", addresses=[one.address])
    with pytest.raises(TypeError, match="backfill"):
        stand(spark.read.parquet(str(tmp_path / "in")), "odd", checkpoint=tmp_path / "c", addresses=[one.address])


def standing(address: str) -> list[str]:
    """A stream and its queries; their IDs."""
    with Client(address, timeout=30) as client:
        client.create_stream(f"CREATE STREAM s {COLUMNS} LATENESS 300 SECONDS")
        return [client.register(text.format("s")).id for text in STATEMENTS]


def check_all_there(address: str, ids: list[str], folder: Path) -> None:
    """No row of the files is late, and every answer is DuckDB's."""
    with Client(address, timeout=30) as client:
        check(client, "s", ids, folder, "epoch(seen) <= 6899")
        assert client.describe("s").late == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_9_of_driver_and_services_at_each_step(spark: Any, tmp_path: Path) -> None:
    """T29. A driver dies at each point; the last one has a service killed under it, twice."""
    from psoup_spark import stand

    folder, kills = tmp_path / "in", 0
    for number in range(len(STAND_POINTS) + 3):
        write(folder, number, [*range(1_000 * number, 1_000 * number + 1_200)])
    with Zygote() as zygote, serving(store=DurableStore(tmp_path / "two", reserve_bytes=0)) as other:
        zygote.start(str(tmp_path / "one"))
        addresses = [zygote.ready(), other.address]
        port = int(addresses[0].rpartition(":")[2])
        ids = [standing(address) for address in addresses]
        (tmp_path / "shared").mkdir()
        for batch, point in enumerate(STAND_POINTS):
            run_standing_driver(addresses, "s", folder, tmp_path / "c", tmp_path / "shared", point, batch)
            kills += 1

        def kill_the_service(number: int, result: Any) -> None:
            nonlocal kills
            if number >= len(STAND_POINTS):
                assert zygote.kill() == 9
                zygote.start(str(tmp_path / "one"), port)
                kills += 1

        job = stand(
            standing_files(spark, folder),
            "s",
            checkpoint=tmp_path / "c",
            addresses=addresses,
            shared=tmp_path / "shared",
            trigger=ONCE,
            patience=60,
            progress=kill_the_service,
        )
        assert job.wait()
        assert zygote.ready() == addresses[0]
        for address, known in zip(addresses, ids, strict=True):
            check_all_there(address, known, folder)
        assert kills == len(STAND_POINTS) + 3
        assert not [path for path in (tmp_path / "shared").iterdir() if path.suffix not in (".held", ".last")]
        assert zygote.stop() == 0


def test_the_names_of_a_join_of_streams_are_not_taken() -> None:
    import psoup_spark

    assert not {"join", "Join", "JoinResult"} & {*dir(psoup_spark)}
    ran = CliRunner().invoke(app, ["spark", "join", "clicks"])
    assert ran.exit_code == 2 and "No such command 'join'" in ran.stderr
