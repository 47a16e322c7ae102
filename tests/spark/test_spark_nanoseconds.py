"""Parquet with times in nanoseconds, which Spark reads as numbers: taken where nothing is lost, refused elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
BEGIN = datetime(2024, 5, 1, 12, tzinfo=UTC)
EPOCH = 1_714_564_800 * 10**9


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a service that has a disk."""
    store = DurableStore(tmp_path_factory.mktemp("data") / "data", reserve_bytes=0)
    with serving(store=store) as service, Client(service.address, timeout=60) as client:
        yield client


def write(folder: Path, *nanoseconds: int) -> str:
    """Write a row for each time after `EPOCH`; `at` has nanoseconds, `n` the same as a plain number."""
    folder.mkdir()
    times = [EPOCH + n for n in nanoseconds]
    table = pa.table({"n": times, "at": pa.array(times, pa.timestamp("ns", "UTC"))})
    pq.write_table(table, folder / "a.parquet")
    return str(folder)


def test_history_is_taken_where_nothing_is_lost(spark: Any, durable: Client, tmp_path: Path) -> None:
    durable.create_stream("CREATE STREAM past (n BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    path, aside = write(tmp_path / "in", 0, 1_000, 1_001), tmp_path / "aside"
    line = ["spark", "backfill", "past", "--input", path, "--quarantine", str(aside), "--address", durable.address]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.stderr
    assert "Attached 2 rows in 1 chunk; set aside in" in done.stderr
    found = durable.ask("SELECT n, at FROM past").rows()
    assert found == [(EPOCH, BEGIN), (EPOCH + 1_000, BEGIN + timedelta(microseconds=1))]
    (bad,) = spark.read.parquet(str(aside)).collect()
    assert bad["_problem"] == f"at: {EPOCH + 1_001} is not a valid TIMESTAMP"


def test_a_feed_takes_nanoseconds_and_ends_where_it_would_lose_some(
    spark: Any, durable: Client, tmp_path: Path
) -> None:
    durable.create_stream("CREATE STREAM now (n BIGINT, at TIMESTAMP)")
    line = ["spark", "feed", "now", "--once", "--address", durable.address, "--path"]
    done = CliRunner().invoke(app, [*line, write(tmp_path / "in", 0, 1_000), "--checkpoint", str(tmp_path / "c")])
    assert done.exit_code == 0, done.stderr
    found = [(EPOCH, BEGIN), (EPOCH + 1_000, BEGIN + timedelta(microseconds=1))]
    assert durable.ask("SELECT n, at FROM now").rows() == found
    done = CliRunner().invoke(app, [*line, write(tmp_path / "finer", 2_000, 1), "--checkpoint", str(tmp_path / "d")])
    assert done.exit_code == 1
    assert done.stderr == f"psoup: column at has nanoseconds that a TIMESTAMP would lose: {EPOCH + 1}\n"
    assert durable.ask("SELECT n, at FROM now").rows() == found
