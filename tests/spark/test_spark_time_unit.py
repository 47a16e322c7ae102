"""Columns of numbers that count from 1970, in the commands of Spark: what `Client.push` makes of them, and no more.

file    at = 1782824400000        --time-unit ms  ──> 2026-06-30 13:00:00
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, InvalidData
from psoup_client.columns.casts import INSTANT, TimeOptions, cast
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
BEGIN = datetime(2026, 6, 30, 13, tzinfo=UTC)
SECONDS = 1_782_824_400
SCALES = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a service that has a disk."""
    store = DurableStore(tmp_path_factory.mktemp("data") / "data", reserve_bytes=0)
    with serving(store=store) as service, Client(service.address, timeout=60) as client:
        yield client


def run(client: Client, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["spark", *arguments, "--address", client.address])


def expected(values: pa.Array, unit: str) -> list[datetime | None]:
    """What the SDK makes of each value; None where it refuses it."""
    times = list[datetime | None]()
    for row in range(len(values)):
        try:
            times.append(cast(values.slice(row, 1), INSTANT, TimeOptions(unit))[0].as_py())
        except (InvalidData, ValueError, pa.ArrowInvalid):
            times.append(None)
    return times


def test_values_are_what_the_sdk_makes_of_them(spark: Any) -> None:
    from psoup_spark.epochs import as_time

    drawn = random.Random(11)
    near = [SECONDS, -1, 0, 1_500, drawn.randrange(2**31), 4_102_444_800]
    for unit, scale in SCALES.items():
        whole = [value * scale + extra for value in near for extra in (0, 1, -7)] + [2**62] * (scale < 10**6)
        parts = [value * scale + part for value in near[:4] for part in (0.5, 0.125, 0.1, 1e-7)]
        texts = [f"{value * scale}" for value in near] + [f" {SECONDS * scale}.5 ", "2026-06-30T13:00:00Z", "soon"]
        for values in (pa.array(whole), pa.array(parts), pa.array(texts)):
            frame = spark.createDataFrame(pa.table({"x": values}).to_pandas())
            found = frame.select(as_time("x", frame.schema["x"].dataType, unit).alias("t")).collect()
            shown = [None if time is None else time.astimezone(UTC) for (time,) in found]
            pairs = zip(values.to_pylist(), shown, expected(values, unit), strict=True)
            assert [(unit, *pair) for pair in pairs if pair[1] != pair[2]] == []


def test_history(spark: Any, durable: Client, tmp_path: Path) -> None:
    """Milliseconds as numbers; a row that is none of them is set aside, and a unit that is not said is asked for."""
    durable.create_stream("CREATE STREAM past (n BIGINT, at TIMESTAMP NOT NULL, seen TIMESTAMP) TIMESTAMP BY at")
    (tmp_path / "in").mkdir()
    times = [SECONDS * 1_000 + n for n in (0, 250)] + [2**62]
    pq.write_table(
        pa.table({"n": [1, 2, 3], "at": times, "seen": [None, "1782824400001", "x"]}), tmp_path / "in/a.parquet"
    )
    line = ["backfill", "past", "--input", str(tmp_path / "in"), "--quarantine", str(tmp_path / "aside")]
    done = run(durable, *line)
    assert done.exit_code == 1
    assert done.stderr.startswith(
        "psoup: column 'at' is TIMESTAMP, but the source has bigint; say what it counts since"
    )
    assert run(durable, *line, "--time-unit", "h").exit_code == 2
    done = run(durable, *line, "--time-unit", "ms")
    assert done.exit_code == 0, done.stderr
    half = timedelta(milliseconds=250)
    assert durable.ask("SELECT n, at, seen FROM past").rows() == [
        (1, BEGIN, None),
        (2, BEGIN + half, BEGIN + timedelta(milliseconds=1)),
    ]
    (bad,) = spark.read.parquet(str(tmp_path / "aside")).collect()
    assert bad["_problem"] == f"at: {2**62} is not a valid TIMESTAMP"


def test_a_feed_and_a_standing_job(spark: Any, durable: Client, tmp_path: Path) -> None:
    """Files that say nothing of their types; a feed with a watermark, for which the times have to be times in Spark."""
    for stream in ("fed", "stood"):
        durable.create_stream(f"CREATE STREAM {stream} (n BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text(f"1,{SECONDS}\n2,{SECONDS + 1}.5\n3,2026-06-30T13:00:02Z\n")
    files = ["--source", "csv", "--path", str(tmp_path / "in"), "--once", "--time-unit", "s", "--checkpoint"]
    for command, stream in (("feed", "fed"), ("stand", "stood")):
        done = run(durable, command, stream, *files, str(tmp_path / stream))
        assert done.exit_code == 0, done.stderr
        found = durable.ask(f"SELECT n, at FROM {stream}").rows()
        assert found == [(n, BEGIN + timedelta(seconds=s)) for n, s in ((1, 0), (2, 1.5), (3, 2))]
    durable.create_stream("CREATE STREAM marked (n BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    done = run(durable, "feed", "marked", *files, str(tmp_path / "marked"), "--watermark", "1 second")
    assert done.exit_code == 0, done.stderr
    assert durable.ask("SELECT n FROM marked").rows() == [(1,), (2,), (3,)]
    (tmp_path / "in/b.csv").write_text("4,soon\n")
    done = run(durable, "feed", "marked", *files, str(tmp_path / "marked"), "--watermark", "1 second")
    assert (done.exit_code, done.stderr) == (1, "psoup: column at is not a TIMESTAMP in s since 1970: soon\n")
