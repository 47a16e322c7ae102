"""Rows that are too late, in jobs: they are counted and told, and end a job only if it is asked to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup_client import Client, InvalidRequest, RowsNotTaken, RowsRefused
from psoup_storage.durable.store import DurableStore
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.spark.session import needs_java

pytestmark = [needs_java, pytest.mark.long]
Make = Callable[[str], str]
ONCE = {"availableNow": True}
EVENTS = "(at TIMESTAMP NOT NULL, n BIGINT) TIMESTAMP BY at"


def write(folder: Path, name: str, *seconds: int) -> None:
    folder.mkdir(exist_ok=True)
    at = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": at, "n": list(seconds)}), folder / f"{name}.parquet")


def source(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema("at TIMESTAMP, n BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder))


def numbers(client: Client, stream: str) -> list[int]:
    client.heartbeat(stream, "1970-01-01")
    column: list[int] = client.ask(f"SELECT n FROM {stream}").to_arrow()["n"].to_pylist()
    return column


def test_a_feed_counts_late_rows_or_ends(
    spark: Any, client: Client, make_stream: Make, tmp_path: Path, running: Serving
) -> None:
    from psoup_spark import feed

    name = make_stream(EVENTS)
    client.push(name, [{"at": "1970-01-01T00:01:00Z", "n": 60}])
    options: dict[str, Any] = {"checkpoint": tmp_path / "c", "address": running.address, "trigger": ONCE}
    write(tmp_path / "in", "a", 61, 2, 62)
    with pytest.raises(RowsRefused, match=r"row 1: its time 1970-01-01 00:00:02Z is too late"):
        feed(source(spark, tmp_path / "in"), name, refused="raise", **options).wait()
    assert numbers(client, name) == [60]
    replies: list[tuple[int, int, int]] = []
    job = feed(
        source(spark, tmp_path / "in"),
        name,
        progress=lambda number, result: replies.append((number, result.accepted, result.late)),
        **options,
    )
    assert job.wait()
    assert (replies, job.result.late, numbers(client, name)) == ([(0, 2, 1)], 1, [60, 61, 62])
    with pytest.raises(ValueError, match="refused is 'divert'"):
        feed(source(spark, tmp_path / "in"), name, refused="divert", **options)  # type: ignore[arg-type]


def test_a_standing_job_counts_late_rows_or_ends(spark: Any, tmp_path: Path) -> None:
    from psoup_spark import stand

    store = DurableStore(tmp_path / "data", reserve_bytes=0)
    with serving(store=store) as service, Client(service.address, timeout=60) as client:
        client.create_stream(f"CREATE STREAM clicks {EVENTS}")
        options: dict[str, Any] = {
            "checkpoint": tmp_path / "c",
            "addresses": [service.address],
            "trigger": ONCE,
        }
        write(tmp_path / "in", "a", 60, 61)
        assert stand(source(spark, tmp_path / "in"), "clicks", refused="raise", **options).wait()
        write(tmp_path / "in", "b", 62, 3)
        with pytest.raises(RowsRefused, match="1 of 2 rows of the batch for stream 'clicks' is 1 too late") as caught:
            stand(source(spark, tmp_path / "in"), "clicks", refused="raise", **options).wait()
        assert (caught.value.late, client.describe("clicks").tuples) == (1, 2)
        job = stand(source(spark, tmp_path / "in"), "clicks", **options)
        assert job.wait()
        assert (job.result.late, client.describe("clicks").tuples) == (1, 3)


def test_a_written_frame_warns_or_raises(spark: Any, client: Client, make_stream: Make, running: Serving) -> None:
    name = make_stream(EVENTS)
    client.push(name, [{"at": "1970-01-01T00:01:00Z", "n": 60}])
    from psoup_spark.datasource import PSoupSource

    spark.dataSource.register(PSoupSource)
    frame = spark.sql("SELECT timestamp_seconds(n) AS at, n FROM VALUES (61L), (2L) AS rows(n)").coalesce(1)

    def write_frame(**options: str) -> None:
        frame.write.format("psoup").options(stream=name, address=running.address, **options).mode("append").save()

    with pytest.raises(Exception, match="is too late"):
        write_frame(refused="raise")
    assert numbers(client, name) == [60]
    write_frame()
    assert numbers(client, name) == [60, 61]
    with pytest.raises(InvalidRequest, match="the option refused is 'x'"):
        PSoupSource({"stream": name, "address": running.address, "refused": "x"}).writer(frame.schema, False)
    assert issubclass(RowsNotTaken, UserWarning)
