"""The standing job: what services answer over its batches is what DuckDB says of the rows, whatever was killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup.model import SECOND
from psoup_cli.app import app
from psoup_client import Client, FailedPrecondition, InvalidData
from psoup_storage import DurableStore
from psoup_testing.serving import serving
from psoup_testing.spark import needs_java

pytestmark = needs_java
ONCE = {"availableNow": True}
SCHEMA = "seen timestamp, n long, t string"
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
    """A file with a row for each second."""
    folder.mkdir(exist_ok=True)
    table = {
        "seen": pa.array([time * SECOND for time in times], pa.timestamp("us", "UTC")),
        "n": [None if time % 11 == 0 else 10_000 * number + time for time in times],
        "t": [None if time % 7 == 0 else f"t{time % 20}" for time in times],
    }
    pq.write_table(pa.table(table), folder / f"{number:04}.parquet")


def rows(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


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


def test_two_services_serve_what_one_job_joins(spark: Any, services: list[Client], tmp_path: Path) -> None:
    """Rows come up to a minute late; those that come later are left out."""
    from psoup_spark import join

    known = []
    for client in services:
        client.create_stream(f"CREATE STREAM clicks {COLUMNS} LATENESS 60 SECONDS")
        known.append([client.register(text.format("clicks")).id for text in STATEMENTS])
    folder, told = tmp_path / "in", []
    write(folder, 0, [*range(1_000, 1_300), *range(1_000, 1_010)])
    write(folder, 1, [*range(1_240, 1_500)][::-1])
    write(folder, 2, [100, 1_439, *range(1_440, 1_600)])

    def run() -> Any:
        job = join(
            rows(spark, folder),
            "clicks",
            checkpoint=tmp_path / "checkpoint",
            addresses=[client.address for client in services],
            trigger=ONCE,
            progress=lambda number, result: told.append((number, result)),
        )
        assert job.wait()
        return job.result

    done = run()
    assert (done.late, done.ahead, done.bad, done.duplicates) == (1, 0, 0, 0)
    assert (done.rows, done.held) == (310 + 260 + 161 - 60, 60)
    for client, ids in zip(services, known, strict=True):
        check(client, "clicks", ids, folder, "epoch(seen) BETWEEN 1000 AND 1539")
        assert client.describe("clicks").watermark.timestamp() == 1_539
        assert client.query(ids[0]).explain().details["column_forms"].get("on disk", 0) == 3 * (client is services[0])
    assert run().rows == 0
    write(folder, 3, [1_700])
    assert (run().rows, told[-1][0]) == (60, 3)
    for client, ids in zip(services, known, strict=True):
        check(client, "clicks", ids, folder, "epoch(seen) BETWEEN 1000 AND 1639")
        assert not [path for path in incoming(client).iterdir() if path.suffix != ".held"]


def incoming(client: Client) -> Path:
    from psoup_client.attach import begin

    return Path(begin(client, "clicks", "none", 0).folder)


def test_the_command(spark: Any, services: list[Client], tmp_path: Path) -> None:
    """In system time rows have the time of their batch; what does not fit is set aside."""
    client = services[0]
    client.create_stream("CREATE STREAM notes (n BIGINT NOT NULL, t TEXT)")
    query = client.register("SELECT n, t FROM notes WHERE n > 1")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("n,t\n1,a\n2,\nx,b\n", encoding="utf-8")
    line = ["spark", "join", "notes", "--path", str(tmp_path / "in"), "--checkpoint", str(tmp_path / "c"), "--once"]
    line += ["--source", "csv", "--schema", "n string, t string", "--option", "header=true"]
    line += ["--attach", client.address, "--shared", str(tmp_path / "shared"), "--json"]
    (tmp_path / "shared").mkdir()
    refused = CliRunner().invoke(app, line)
    assert refused.exit_code == 1
    assert "1 rows do not fit: n: x is no BIGINT" in refused.stderr
    done = CliRunner().invoke(app, [*line, "--quarantine", str(tmp_path / "bad")])
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["rows"], said["chunks"], said["bad"]) == (2, 1, 1)
    assert query.invoke(wait_for=client.last_sequence).rows() == [(2, None)]
    assert [row.t for row in spark.read.parquet(str(tmp_path / "bad")).collect()] == ["b"]
    assert not list((tmp_path / "shared").iterdir())
    with pytest.raises(FailedPrecondition, match="is fed in batches"):
        client.push("notes", {"n": [3]})


def test_what_cannot_be_joined_is_refused_before_it_starts(spark: Any, services: list[Client], tmp_path: Path) -> None:
    from psoup_spark import join

    one, two = services
    one.create_stream(f"CREATE STREAM odd {COLUMNS}")
    two.create_stream(f"CREATE STREAM odd {COLUMNS.replace('n BIGINT', 'n DOUBLE')}")
    write(tmp_path / "in", 0, [1_000])
    frame = rows(spark, tmp_path / "in")
    with pytest.raises(InvalidData, match="has other columns"):
        join(frame, "odd", checkpoint=tmp_path / "c", addresses=[one.address, two.address])
    one.push("odd", {"seen": [datetime.now(UTC)]})
    with pytest.raises(FailedPrecondition, match="has tuples that were pushed"):
        join(frame, "odd", checkpoint=tmp_path / "c", addresses=[one.address])
    with pytest.raises(TypeError, match="backfill"):
        join(spark.read.parquet(str(tmp_path / "in")), "odd", checkpoint=tmp_path / "c", addresses=[one.address])
