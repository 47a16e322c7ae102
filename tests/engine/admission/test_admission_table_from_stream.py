"""CREATE TABLE … FROM STREAM: which streams become tables, and both events or none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from psoup.answer.table_content import table_content
from psoup.config import EngineConfig
from psoup.errors import AlreadyExists, FailedPrecondition, InvalidBatch, PSoupError, ResourceExhausted
from psoup.events.commands import CreateStream
from psoup.events.events import Event, Pushed, StreamCreated
from psoup.events.tenants import AlterTenant
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import making

START = 1_600_000_000 * SECOND
CREATE = "CREATE TABLE t FROM STREAM s PRIMARY KEY (k)"


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(START), verify="all")
    soup.execute("CREATE STREAM s (k BIGINT, v TEXT)")
    return soup


def rows(*keys: int | None) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [f"v{place}" for place in range(len(keys))]})


def command(soup: LocalPSoup, sql: str = CREATE) -> CreateStream:
    return CreateStream(sql, content=table_content(soup.engine.snapshot(), sql, "default"))


def test_a_table_in_system_time_begins_with_the_newest_tuple_of_each_key(soup: LocalPSoup) -> None:
    for keys in ((1, 2, 1), (3, 2), range(100, 200)):
        soup.push("s", rows(*keys))
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
    soup.execute(CREATE + " HISTORY 2 DAYS")
    table = soup.engine.snapshot().stream("t", "default")
    assert table.sql == "CREATE TABLE t (k BIGINT NOT NULL, v TEXT, PRIMARY KEY (k)) HISTORY 2 DAYS"
    assert table.next_id == 103 and table.last_time == START + 3 * SECOND
    first = soup.ask("SELECT k, v FROM t WHERE k < 100 ORDER BY k", as_of=START - SECOND, accept_truncation=True)
    assert first.to_table().to_pydict() == {"k": [1, 2, 3], "v": ["v2", "v1", "v0"]}
    soup.execute("DROP STREAM s")
    soup.push("t", rows(1))
    assert soup.ask("SELECT v FROM t WHERE k = 1").to_table().to_pydict() == {"v": ["v0"]}


def test_both_events_are_adopted_or_none(soup: LocalPSoup) -> None:
    soup.push("s", rows(1, 2, 2))
    create, before = command(soup), soup.admission.state()

    def full(event: Event) -> None:
        if isinstance(event, Pushed):
            raise ResourceExhausted("the disk is full")

    with pytest.raises(ResourceExhausted):
        soup.admission.prepare(create, START, full)
    assert soup.admission.state() == before
    prepared = soup.admission.prepare(create, START)
    created, content = prepared.events
    assert isinstance(created, StreamCreated) and isinstance(content, Pushed) and len(content.batch) == 2
    assert (created.sequence + 1, created.stream_id) == (content.sequence, content.stream_id)
    assert prepared.acknowledgement.sequence == content.sequence
    soup.engine.apply(prepared.events)
    soup.check()
    with pytest.raises(AlreadyExists) as exists:
        soup.admission.prepare(command(soup), START)
    assert exists.value.facts["identical"] == "true"


def test_a_name_that_becomes_free_at_this_moment_gives_no_empty_table(soup: LocalPSoup) -> None:
    soup.push("s", rows(1))
    soup.execute(CREATE)
    create = command(soup)
    soup.execute("DROP TABLE t")
    with pytest.raises(FailedPrecondition, match="was dropped at this moment; create it again"):
        soup.submit(create)


def test_a_key_is_never_null_or_too_long(soup: LocalPSoup) -> None:
    soup.push("s", rows(*range(70)))
    soup.push("s", rows(0, None, 0))
    with pytest.raises(InvalidBatch, match="'k' is NULL in the tuple with the ID 71 of stream 's', of 2020-09-13"):
        soup.execute(CREATE)
    soup.execute("CREATE STREAM texts (k TEXT)")
    soup.push("texts", pa.table({"k": ["a", "b" * 70_000]}))
    with pytest.raises(InvalidBatch, match="its key has 70,000 bytes of text"):
        soup.execute("CREATE TABLE u FROM STREAM texts PRIMARY KEY (k)")


def test_tuples_that_wait_are_not_left_behind(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM timed (k BIGINT, at TIMESTAMP) TIMESTAMP BY at LATENESS 5 SECONDS")
    times = pa.array([START - SECOND, START], pa.timestamp("us"))
    soup.push("timed", pa.table({"k": [1, 1], "at": times}))
    create = "CREATE TABLE u FROM STREAM timed PRIMARY KEY (k)"
    with pytest.raises(FailedPrecondition, match=r"2 tuples of stream 'timed' wait .*psoup heartbeat timed"):
        soup.execute(create)
    soup.heartbeat("timed", START)
    soup.execute(create)
    table = soup.engine.snapshot().stream("u", "default")
    assert (table.next_id, table.watermark, table.spec.lateness) == (2, START, 5 * SECOND)
    with pytest.raises(PSoupError, match="is too late by"):
        soup.push("u", pa.table({"k": [1], "at": times[:1]}))


def test_a_stream_without_tuples_brings_its_watermark(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM timed (k BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    soup.heartbeat("timed", START)
    soup.execute("CREATE TABLE u FROM STREAM timed PRIMARY KEY (k)")
    soup.execute(CREATE)
    assert soup.engine.snapshot().stream("u", "default").watermark == START
    assert soup.engine.snapshot().stream("t", "default").next_id == 0


def test_a_table_that_does_not_fit_is_refused(soup: LocalPSoup) -> None:
    small = LocalPSoup(EngineConfig(chunk_rows=64, memory_bytes=40_000), VirtualClock(START))
    small.execute("CREATE STREAM s (k BIGINT, v TEXT)")
    small.push("s", rows(*range(500)))
    with pytest.raises(ResourceExhausted, match="a table of the 500 tuples of stream 's' needs about"):
        small.execute(CREATE)
    few = LocalPSoup(EngineConfig(chunk_rows=64, staged_rows=99), VirtualClock(START))
    few.execute("CREATE STREAM s (k BIGINT, v TEXT)")
    few.push("s", rows(*range(100)))
    with pytest.raises(InvalidBatch, match=r"has 100 tuples, .*; 99 tuples .* push the tuples into it in pieces"):
        few.execute(CREATE)
    soup.push("s", rows(*range(100)))
    soup.submit(AlterTenant("default", {"tuple_bytes": 10_000, "archive_bytes": 1}))
    with pytest.raises(ResourceExhausted, match="tuple_bytes"):
        soup.execute(CREATE)


def test_tuples_on_disk_are_refused_by_name(tmp_path: Path) -> None:
    with making(tmp_path) as made:
        soup = made(EngineConfig(chunk_rows=64, memory_bytes=10**6), VirtualClock(START))
        soup.execute("CREATE STREAM s (k BIGINT, v TEXT) RETENTION 64 ROWS ARCHIVE 1000 ROWS")
        for _ in range(5):
            soup.push("s", rows(*range(64)))
            soup.maintain()
        assert soup.engine.snapshot().stream("s", "default").archived
        with pytest.raises(FailedPrecondition, match="tuples of stream 's' are on disk only"):
            soup.execute(CREATE)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("CREATE TABLE t FROM STREAM nix PRIMARY KEY (k)", "there is no stream 'nix'"),
        ("CREATE TABLE t FROM STREAM s PRIMARY KEY (kk)", "there is no column 'kk'"),
        ("CREATE TABLE t FROM STREAM s", "FROM STREAM needs the key after the name"),
        ("CREATE TABLE t FROM s PRIMARY KEY (k)", "FROM STREAM name PRIMARY KEY"),
        ("CREATE TABLE t FROM STREAM t PRIMARY KEY (k)", "there is no stream 't'"),
        ("CREATE TABLE t FROM STREAM u PRIMARY KEY (k)", "'u' is a table"),
        ("CREATE TABLE t FROM STREAM s PRIMARY KEY (k) TIMESTAMP BY v", "TIMESTAMP BY comes from stream 's'"),
        ("CREATE TABLE t FROM STREAM s PRIMARY KEY (k) RETENTION 5 DAYS", "a table has no RETENTION"),
        ("CREATE TABLE t FROM STREAM s PRIMARY KEY (k) EXPIRES BY v", "EXPIRES BY needs a TIMESTAMP"),
        ("CREATE TABLE t (k BIGINT PRIMARY KEY) FROM STREAM s", "expected TIMESTAMP BY"),
    ],
)
def test_statements_that_cannot_be_meant(soup: LocalPSoup, sql: str, problem: str) -> None:
    soup.execute("CREATE TABLE u (k BIGINT PRIMARY KEY)")
    with pytest.raises(PSoupError, match=problem):
        soup.execute(sql)
