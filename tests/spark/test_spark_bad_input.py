"""Mistakes of new users with Spark: each gives one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, InvalidData, InvalidRequest
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
Backfill = Callable[..., Any]


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = DurableStore(tmp_path_factory.mktemp("data") / "data", reserve_bytes=0)
    with serving(store=store) as service, Client(service.address, timeout=60) as client:
        client.create_stream("CREATE STREAM told (at TIMESTAMP NOT NULL, k TEXT, n BIGINT) TIMESTAMP BY at")
        yield client


@pytest.fixture
def into(durable: Client) -> Backfill:
    """`into(frame, **options)`: a backfill of the stream."""
    from psoup_spark import backfill

    return lambda frame, job="job", **options: backfill(frame, "told", job=job, address=durable.address, **options)


def test_a_time_without_a_zone_is_utc_in_any_zone_of_the_session(spark: Any, durable: Client, into: Backfill) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        into(spark.sql("SELECT timestamp_ntz'2020-03-08 02:30:00' AS at, 'plain' AS k"), "plain")
        into(spark.sql("SELECT date'2020-01-01' AS at, 'day' AS k"), "day")
        into(spark.sql("SELECT '2019-07-01 00:00:00' AS at, 'text' AS k"), "text")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = durable.register("SELECT k, at FROM told").invoke().rows()
    assert [(k, at.replace(tzinfo=UTC)) for k, at in found] == [
        ("text", datetime(2019, 7, 1, 4, tzinfo=UTC)),
        ("day", datetime(2020, 1, 1, tzinfo=UTC)),
        ("plain", datetime(2020, 3, 8, 2, 30, tzinfo=UTC)),
    ]


def test_frames_that_can_never_fit_are_refused(spark: Any, into: Backfill) -> None:
    frame = spark.sql("SELECT timestamp'2000-01-01' AS at, struct(1) AS k")
    with pytest.raises(InvalidData, match=r"'k' is TEXT, but the source has struct.*--mapping k=EXPRESSION"):
        into(frame)
    with pytest.raises(ValueError, match="1 to 65,536"):
        into(frame, chunk_rows=0)
    with pytest.raises(TypeError, match=r"psoup_spark\.feed"):
        into(spark.readStream.format("rate").load())


def test_files_that_are_none_are_told_in_one_line(durable: Client, tmp_path: Path) -> None:
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and no end")
    for path, said in ((tmp_path, "Encountered error while reading file"), (tmp_path / "none", "Path does not exist")):
        line = ["spark", "backfill", "told", "--input", str(path), "--address", durable.address]
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 1
        assert isinstance(done.exception, SystemExit)
        lines = done.stderr.splitlines()
        assert lines[-1].startswith("psoup: Spark: ")
        assert said in lines[-1]


def test_options_that_are_misspelt_are_no_options() -> None:
    from psoup_spark.datasource import PSoupSource

    for options, said in (
        ({"stream": "told", "wher": "n > 3"}, "'wher' is not an option for a stream"),
        ({"stream": "told", "as_of": "2020-01-01"}, "'as_of' is not an option for a stream"),
        ({"query": "q", "where": "n > 3"}, "'where' is not an option for a query"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            PSoupSource(options)
