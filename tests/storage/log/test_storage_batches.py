"""Batches of a standing job: in order, once each, and never beside pushes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.errors import FailedPrecondition, InvalidInput, OutOfRange
from psoup.events.acknowledgements import AttachAcknowledgement
from psoup.matching.outside import Beforehand
from psoup.model import SECOND
from psoup.sql import create_stream
from psoup.values.from_arrow import columns_from_arrow
from psoup.work.clock import VirtualClock
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.batches import seconds
from psoup_testing.engines.past import values
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept

EVENTS = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t"
CLOCK = 1_000 * SECOND


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(EngineConfig(chunk_rows=64), VirtualClock(CLOCK), tmp_path / "data")
    yield made
    made.check()
    made.store.close()


def rows(first: int, stop: int) -> pa.Table:
    """One row a second, from `first` to before `stop`."""
    return pa.table({"t": pa.array(seconds(first, stop), pa.timestamp("us", "UTC")), "x": range(first, stop)})


def feed(
    soup: RestartingPSoup, number: int | None, first: int, stop: int, queries: list[tuple[int, str]] | None = None
) -> AttachAcknowledgement:
    """Attach those rows as the batch of that number, or as history."""
    folder = soup.path.parent / f"{number}-{first}-{stop}"
    spec = soup.engine.snapshot().stream("s", "default").spec
    known = Beforehand(spec, queries or [])
    write(folder, spec, rows(first, stop), seconds(first, stop), range(0, 999, 50), known, soup.store.incarnation)
    return attach(soup, "s", "job", folder, number)


def test_batches_follow_each_other_and_history_lies_before(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    text = "SELECT x FROM s WHERE x % 10 = 0 BEGIN (START)"
    query, ids = soup.register(text), soup.register("SELECT _id FROM s WHERE x IN (199, 200, 599) BEGIN (START)")
    done = feed(soup, 0, 200, 400, [(query, text)])
    assert (done.first_time, done.watermark) == (200 * SECOND, 399 * SECOND)
    feed(soup, 3, 399, 500, [(query, text)])
    feed(soup, None, 100, 201)
    for _ in range(2):
        for number in (0, 2, 3):
            again = feed(soup, number, 900, 901 + number)
            assert again.duplicate, number
            for folder in soup.path.parent.glob(f"{number}-900-*"):
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
        soup.restart()
    soup.heartbeat("s", 550 * SECOND)
    feed(soup, 4, 550, 600)
    soup.maintain()
    for _ in range(2):
        assert values(soup, query) == sorted([*range(100, 500, 10), 200, *range(550, 600, 10)])
        assert values(soup, ids) == [-2, -1, 0, 350]
        assert soup.explain(query).source.column_forms["on disk"] == 7
        assert soup.matches("s", 350) == [ids]
        soup.restart()
    kept = soup.store._database.query("SELECT body ->> 'batch' FROM log WHERE kind = 'attach' ORDER BY sequence")
    assert [batch for (batch,) in kept] == [None, 4]
    soup.execute("ALTER STREAM s ADD COLUMN z BIGINT")
    feed(soup, 5, 600, 610)
    born = soup.register("SELECT z FROM s WHERE x >= 598 BEGIN (START)")
    assert values(soup, born) == [None] * 12
    soup.store.close()
    report = examine(soup.path)
    assert report.well, report.findings
    restore(soup.path, soup.path.parent / "copy")
    copy = RestartingPSoup(soup.config, VirtualClock(CLOCK), soup.path.parent / "copy")
    assert values(copy, born) == [None] * 12
    copy.store.close()
    soup.restart()


@pytest.mark.parametrize("kept", swept(["100 SECONDS", "100 ROWS"], fast=1))
def test_what_is_older_than_the_retention_goes_and_ids_go_on(soup: RestartingPSoup, kept: str) -> None:
    soup.execute(f"{EVENTS} RETENTION {kept}")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    ids = soup.register("SELECT _id FROM s BEGIN (NOW - 1 ROWS)")
    edge = 101 if kept.endswith("SECONDS") else 100
    for number in range(8):
        feed(soup, number, 100 * number, 100 * number + 100)
        for _ in range(2):
            last = 100 * number + 100
            assert values(soup, query) == list(range(max(0, last - edge), last))
            assert values(soup, ids) == [last - 1]
            soup.check()
            soup.restart()
    assert len([name for name in os.listdir(soup.path / "chunks") if name.endswith(".parquet")]) <= 3
    feed(soup, 8, 900, 990)
    soup.clock.advance(seconds=1_000)  # type: ignore[attr-defined]
    soup.heartbeat("s", 1_900 * SECOND)
    soup.restart()
    assert values(soup, query) == ([] if kept.endswith("SECONDS") else [*range(790, 800), *range(900, 990)])
    feed(soup, 9, 1_950, 1_951)
    assert values(soup, ids) == [890]


def test_what_cannot_be_a_batch_is_refused(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    query = soup.register("SELECT x FROM s BEGIN (START)")
    feed(soup, 0, 200, 300)
    with pytest.raises(OutOfRange, match=r"must begin at or after 1970-01-01 00:04:59Z, the watermark") as late:
        feed(soup, 1, 298, 310)
    assert late.value.reason == "BATCH_LATE"
    with pytest.raises(FailedPrecondition, match="is fed in batches, by job 'job'"):
        soup.push("s", rows(300, 301))
    with pytest.raises(InvalidInput, match="batch -1 is not the number"):
        feed(soup, -1, 300, 301)
    with pytest.raises(OutOfRange, match="too far past the clock"):
        feed(soup, 1, 200_000, 200_001)
    soup.restart()
    with pytest.raises(FailedPrecondition, match="is fed in batches"):
        soup.push("s", rows(300, 301))
    assert values(soup, query) == list(range(200, 300))
    soup.unregister(query)
    soup.execute("DROP STREAM s")
    soup.execute(EVENTS)
    soup.push("s", rows(0, 10))
    with pytest.raises(FailedPrecondition, match="has tuples that were pushed"):
        feed(soup, 0, 20, 30)
    assert not [name for name in os.listdir(soup.path / "chunks") if "-a" in name]


def test_a_heartbeat_would_make_rows_late_that_the_job_holds(soup: RestartingPSoup) -> None:
    soup.execute(f"{EVENTS} LATENESS 10 SECONDS")
    soup.heartbeat("s", 100 * SECOND)
    feed(soup, 0, 200, 300)
    for _ in range(2):
        with pytest.raises(FailedPrecondition, match="rows that the job holds would be late") as refused:
            soup.heartbeat("s", 305 * SECOND)
        assert refused.value.reason == "FED_BY_JOB"
        soup.restart()
    feed(soup, 1, 300, 310)


def test_a_query_on_columns_that_came_later_is_left_to_whoever_asks() -> None:
    spec, times = create_stream(EVENTS), np.array(seconds(0, 10))
    known = Beforehand(spec, [(1, "SELECT x FROM s WHERE x > 7"), (2, "SELECT x FROM s WHERE z > 7")])
    found = known.find(ChunkView(0, Places(0, len(times)), times, columns_from_arrow(spec.schema, rows(0, 10)), 0))
    assert [(one.query_ids, one.offsets.tolist()) for one in found] == [((1,), [8, 9])]
