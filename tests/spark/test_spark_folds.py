"""Folds that Spark's workers write: an aggregate over attached chunks is answered from them, as DuckDB says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup.model import SECOND
from psoup_cli.app import app
from psoup_client import Client, InvalidData
from psoup_storage import DurableStore
from psoup_storage.durable.chunks.sidecars import FOLDER
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java
from psoup_testing.spark.spark_stand import standing_files

pytestmark = [needs_java, pytest.mark.long]
COLUMNS = "(seen TIMESTAMP NOT NULL, n BIGINT, t TEXT) TIMESTAMP BY seen"
AGGREGATES = (
    "SELECT count(*) AS c, sum(n) AS s, min(t) AS m FROM {} WHERE n % 3 = 0",
    "SELECT t, count(*) AS c, max(n) AS m FROM {} GROUP BY t",
)
LATER = "SELECT t, sum(n) AS s FROM {} WHERE n > 40 GROUP BY t"


class Place(NamedTuple):
    """A service on disk: its client, and its store."""

    client: Client
    store: DurableStore

    @property
    def sidecars(self) -> int:
        """The number of sidecars."""
        folder = self.store.path / FOLDER
        return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Place]]:
    """Two services; in the second one streams have other numbers."""
    with ExitStack() as opened:
        answered = []
        for name in ("one", "two"):
            store = DurableStore(tmp_path_factory.mktemp(name) / "data", reserve_bytes=0)
            address = opened.enter_context(serving(store=store)).address
            answered.append(Place(opened.enter_context(Client(address, timeout=60)), store))
        answered[1].client.create_stream("CREATE STREAM other (n BIGINT)")
        yield answered


def rows(first: int, stop: int) -> pa.Table:
    """A row for each second."""
    return pa.table(
        {
            "seen": pa.array([n * SECOND for n in range(first, stop)], pa.timestamp("us", "UTC")),
            "n": pa.array([None if n % 11 == 0 else n for n in range(first, stop)], pa.int64()),
            "t": [None if n % 7 == 0 else f"t{n % 5}" for n in range(first, stop)],
        }
    )


def check(place: Place, stream: str, texts: dict[str, str], table: pa.Table) -> None:
    """All queries against DuckDB; no invocation reads a column of a chunk on disk."""
    connection, client = duckdb.connect(), place.client
    connection.register(stream, table)
    for query, text in texts.items():
        explanation, reads = str(client.query(query).explain()), place.store.archive_reads
        assert " 0 chunks not folded yet" in explanation, explanation
        answered = client.query(query).invoke(wait_for=client.last_sequence).rows()
        assert place.store.archive_reads == reads
        wanted = connection.execute(text).fetchall()
        plain = [tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in answered]
        assert sorted(map(repr, plain)) == sorted(map(repr, wanted)), text
    connection.close()


def test_a_backfill_writes_folds_of_standing_aggregates_and_of_those_that_come_later(
    spark: Any, places: list[Place], tmp_path: Path
) -> None:
    from psoup_spark import backfill

    place, table = places[0], rows(1_000, 2_000)
    place.client.create_stream(f"CREATE STREAM years {COLUMNS}")
    texts = [text.format("years") for text in (*AGGREGATES, LATER)]
    ids = {place.client.register(f"{text} BEGIN (START)").id: text for text in texts[:2]}
    place.client.push("years", rows(2_000, 2_010))
    pq.write_table(table, tmp_path / "in.parquet")
    frame = spark.read.parquet(str(tmp_path / "in.parquet"))
    given: dict[str, Any] = {"job": "years", "address": place.client.address, "chunk_rows": 200}
    with pytest.raises(InvalidData, match="'SELECT n FROM years': a job can fold an aggregate over stream"):
        backfill(frame, "years", fold=["SELECT n FROM years"], **given)
    with pytest.raises(InvalidData, match=r"no folds can be written for 'SELECT sum.nope. FROM years': .*nope"):
        backfill(frame, "years", fold=["SELECT sum(nope) FROM years"], **given)
    assert place.sidecars == 0
    done = backfill(frame, "years", fold=texts[2:], **given)
    assert (done.rows, done.folded) == (1_000, 3)
    assert place.sidecars == done.chunks >= 5
    ids[place.client.register(f"{texts[2]} BEGIN (START)").id] = texts[2]
    check(place, "years", ids, pa.concat_tables([table, rows(2_000, 2_010)]))


def test_the_command_writes_folds_of_a_statement(spark: Any, places: list[Place], tmp_path: Path) -> None:
    place = places[0]
    place.client.create_stream(f"CREATE STREAM past {COLUMNS}")
    place.client.push("past", rows(2_000, 2_010))
    pq.write_table(rows(1_000, 1_100), tmp_path / "in.parquet")
    text, before = LATER.format("past"), place.sidecars
    command = ["spark", "backfill", "past", "--input", str(tmp_path / "in.parquet"), "--fold", text]
    done = CliRunner().invoke(app, [*command, "--address", place.client.address, "--json"])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert (shown["rows"], shown["folded"], place.sidecars - before) == (100, 1, shown["chunks"])
    query = place.client.register(f"{text} BEGIN (START)").id
    check(place, "past", {query: text}, pa.concat_tables([rows(1_000, 1_100), rows(2_000, 2_010)]))


def test_a_standing_job_writes_folds_for_each_service(spark: Any, places: list[Place], tmp_path: Path) -> None:
    from psoup_spark import stand

    table, folder, queries_of = rows(1_000, 1_500), tmp_path / "in", []
    for place, texts in zip(places, (AGGREGATES, AGGREGATES[:1]), strict=True):
        place.client.create_stream(f"CREATE STREAM clicks {COLUMNS}")
        some = [text.format("clicks") for text in texts]
        queries_of.append({place.client.register(f"{text} BEGIN (START)").id: text for text in some})
    folder.mkdir()
    pq.write_table(table, folder / "0000.parquet")
    before = [place.sidecars for place in places]
    job = stand(
        standing_files(spark, folder),
        "clicks",
        checkpoint=tmp_path / "checkpoint",
        addresses=[place.client.address for place in places],
        fold=[LATER.format("clicks")],
        trigger={"availableNow": True},
    )
    assert job.wait()
    for place, ids, count in zip(places, queries_of, before, strict=True):
        assert place.sidecars - count == job.result.chunks
        ids[place.client.register(f"{LATER.format('clicks')} BEGIN (START)").id] = LATER.format("clicks")
        check(place, "clicks", ids, table)
