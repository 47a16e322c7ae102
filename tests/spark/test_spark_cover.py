"""Queries that were registered after their history came, covered by a job: the same answers, read and not evaluated."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_cli.commands.spark.progress import Meter
from psoup_client import Client, Conflict, InvalidData, InvalidRequest, NotFound, ResourceExhausted
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
ROWS = 1_000
STATEMENTS = {
    "SELECT n FROM past WHERE n % 7 = 3": lambda n: n % 7 == 3,
    "SELECT n FROM past WHERE t LIKE 'a%' AND n > 300 BEGIN (NOW - 800 ROWS)": lambda n: n % 2 == 0 and n > 300,
    "SELECT n FROM past WHERE n < 0": lambda n: False,
}


@pytest.fixture(scope="module")
def durable(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service on disk, which evaluates no tuples on disk for an invocation, with a history of eight chunks."""
    from psoup_spark.backfill import backfill

    store = DurableStore(tmp_path_factory.mktemp("data") / "data", reserve_bytes=0)
    settings = Settings(port=0, archive_seconds=0)
    with serving(settings, store=store) as service, Client(service.address, timeout=60) as client:
        client.create_stream("CREATE STREAM past (at TIMESTAMP, n BIGINT, t TEXT) TIMESTAMP BY at")
        frame = spark.range(ROWS).selectExpr("timestamp_seconds(id) AS at", "id AS n", "IF(id % 2 = 0, 'a', 'b') AS t")
        assert backfill(frame, "past", job="past", address=client.address, chunk_rows=128).chunks >= 8
        yield client


def test_queries_that_came_later_are_answered_by_a_job(spark: Any, durable: Client) -> None:
    from psoup_spark import Progress, cover

    queries = [durable.register(text) for text in STATEMENTS]
    plain = durable.register("SELECT n FROM past")
    wanted = [[n for n in range(ROWS) if holds(n)] for holds in STATEMENTS.values()]
    wanted[1] = [n for n in wanted[1] if n >= ROWS - 800]
    with pytest.raises(ResourceExhausted, match=f"psoup spark cover {queries[0].id}"):
        queries[0].invoke()
    text = str(queries[0].explain())
    assert f"psoup spark cover {queries[0].id} has a job do it once" in text
    assert "not covered: 1970-01-01 00:00:00Z to 1970-01-01 00:16:39Z" in text
    told: list[Progress] = []
    done = cover(spark, [*(query.id for query in queries), plain.id], address=durable.address, progress=told.append)
    assert (done.queries, done.rows, done.before, done.gone) == (4, ROWS, 0, 0)
    assert done.matches == sum(sum(map(holds, range(ROWS))) for holds in STATEMENTS.values())
    assert (told[-1].phase, told[-1].rows, told[-1].total, told[-1].chunks) == ("attaching", ROWS, ROWS, done.chunks)
    assert [[row[0] for row in query.invoke().rows()] for query in queries] == wanted
    assert "not covered" not in str(queries[0].explain())
    site = durable.begin_cover([queries[0].id])
    assert (site.chunks, site.covered, os.listdir(site.folder)) == ((), done.chunks, [])
    again = cover(spark, stream="past", address=durable.address)
    assert (again.queries, again.chunks, again.before) == (4, 0, done.chunks)
    late = durable.register("SELECT n FROM past WHERE n = 5")
    assert cover(spark, stream="past", address=durable.address).chunks == done.chunks
    assert [row[0] for row in late.invoke().rows()] == [5]


def test_what_cannot_be_covered_is_told(spark: Any, durable: Client) -> None:
    from psoup_spark import cover
    from psoup_spark.attempts import prefix

    durable.create_stream("CREATE STREAM other (n BIGINT)")
    one, other = durable.register("SELECT n FROM past WHERE n = 9"), durable.register("SELECT n FROM other WHERE n = 9")
    with pytest.raises(InvalidRequest, match="queries of streams 'past' and 'other'"):
        durable.begin_cover([one.id, other.id])
    with pytest.raises(InvalidData, match="no query was named"):
        cover(spark, address=durable.address)
    assert cover(spark, [other.id], address=durable.address).chunks == 0
    gone = durable.register("SELECT n FROM past WHERE n = 10")
    gone.unregister()
    with pytest.raises(NotFound, match=gone.id):
        cover(spark, [gone.id], address=durable.address)
    folder = Path(durable.begin_cover([one.id]).folder)
    job = prefix("cover", "past", one.id)
    (folder / f"{job}-dead").mkdir()
    with open(folder / f"{job}.lock", "w", encoding="utf-8") as held:
        held.write("process 7 on moon\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match=f"covers query {one.id} is being run already, by process 7 on moon"):
            cover(spark, [one.id], address=durable.address)
    assert cover(spark, [one.id], address=durable.address).rows == ROWS
    assert not os.listdir(folder)


def test_a_join_is_covered_on_each_of_its_streams(spark: Any, durable: Client) -> None:
    from psoup_spark import cover
    from psoup_spark.backfill import backfill

    durable.create_stream("CREATE STREAM notes (at TIMESTAMP, n BIGINT) TIMESTAMP BY at")
    frame = spark.range(200).selectExpr("timestamp_seconds(id) AS at", "id AS n")
    early = durable.register("SELECT x.n FROM notes x, notes y WHERE x.n = y.n + 1 AND x.n % 50 = 1 AND y.n < 150")
    assert backfill(frame, "notes", job="notes", address=durable.address, chunk_rows=100).rows == 200
    assert durable.begin_cover([early.id], stream="notes").covered == 2, "the job knew the sides"
    late = durable.register("SELECT p.n FROM past p JOIN notes q ON p.n = q.n WHERE p.n % 10 = 7 AND q.n > 90")
    done = cover(spark, [late.id], address=durable.address)
    assert (done.queries, done.rows, done.matches) == (1, ROWS + 200, 100 + 109)
    assert cover(spark, [late.id], address=durable.address).chunks == 0
    on_one = durable.register("SELECT p.n FROM past p JOIN notes q ON p.n = q.n WHERE p.n % 10 = 6 AND q.n > 80")
    assert cover(spark, [on_one.id], stream="notes", address=durable.address).rows == 200


def test_the_command_covers_and_says_what_it_did(spark: Any, durable: Client) -> None:
    query = durable.register("SELECT n FROM past WHERE n BETWEEN 10 AND 19")
    command = ["spark", "cover", query.id, "--address", durable.address]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert (shown["rows"], shown["matches"], shown["queries"]) == (ROWS, 10, 1)
    again = CliRunner().invoke(app, command)
    assert "Nothing to do: " in again.stderr
    tags = {"id": ["eleven", "twelve", "none"], "n": [11, 12, -1], "user": ["u3", "u3", "u4"]}
    keyed = durable.register_many("SELECT n FROM past WHERE n = $n", tags, key="id", labels=["user"])
    of = ["spark", "cover", "--address", durable.address, "--json"]
    for which, queries, matches in ((["--key", "eleven"], 1, 1), (["--label", "user=u3"], 2, 2)):
        done = CliRunner().invoke(app, [*of, *which])
        assert done.exit_code == 0, done.output
        assert [json.loads(done.stdout)[name] for name in ("queries", "matches")] == [queries, matches]
    assert [answer.rows() for answer in durable.invoke_many(labels={"user": "u3"})] == [[(11,)], [(12,)]]
    assert durable.query(key="twelve") == keyed[1] and keyed[2].labels == {"user": "u4"}
    assert "rows/s" not in again.stderr, "no progress where there is no terminal"
    none = CliRunner().invoke(app, ["spark", "cover"])
    assert (none.exit_code, "--stream NAME" in none.stderr) == (2, True)


def test_a_meter_says_rows_chunks_and_rate() -> None:
    from psoup_spark import Progress

    times = iter((10.0, 11.0, 13.0))
    meter = Meter("flights", lambda: next(times))
    assert meter.text(Progress("reading", tasks=(3, 8))) == "flights: reading, 3 of 8 tasks"
    assert meter.text(Progress("evaluating", 1_000, 9_000, 2)) == "flights: evaluating, 1,000 of 9,000 rows, 2 chunks"
    told = meter.text(Progress("evaluating", 5_000, 9_000, 6))
    assert told == "flights: evaluating, 5,000 of 9,000 rows, 6 chunks, 2,000 rows/s"


def test_workers_are_forks_of_a_process_that_has_the_engine() -> None:
    from psoup_spark import workers
    from psoup_spark.session import defaults

    assert defaults("local[2]")["spark.python.daemon.module"] == workers.__name__
    workers.load()


def test_workers_find_the_files_of_tls_and_of_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    from psoup_spark.session import defaults

    monkeypatch.setenv("PSOUP_CA", "/etc/psoup/ca.pem")
    monkeypatch.setenv("PSOUP_TOKEN_FILE", "/run/secrets/psoup")
    monkeypatch.setenv("PSOUP_TOKEN", "psoup_secret")
    settings = defaults("spark://host:7077")
    assert settings["spark.executorEnv.PSOUP_CA"] == "/etc/psoup/ca.pem"
    assert settings["spark.executorEnv.PSOUP_TOKEN_FILE"] == "/run/secrets/psoup"
    assert "psoup_secret" not in str(settings), "settings are shown in Spark's pages"
    assert "spark.executorEnv.PSOUP_KEY" not in settings
