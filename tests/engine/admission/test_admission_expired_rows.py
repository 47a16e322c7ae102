"""Deletions of expired rows (EXPIRES BY): what admission deletes after a look, and what it leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.data.archived_chunk import Chunk
from psoup.errors import AlreadyExists, FailedPrecondition, InvalidInput, PSoupError, ResourceExhausted
from psoup.events.commands import AlterStream, ExpireRows, Push
from psoup.events.events import Event, Pushed
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.published import expired_rows
from psoup.published.expired_rows import MOST_ROWS, ExpiredRows
from psoup.sql import alter_statement, alter_stream, create_statement, create_stream
from psoup.work.clock import VirtualClock

START = 1_600_000_000 * SECOND
ADS = "CREATE TABLE ads (id BIGINT PRIMARY KEY, until TIMESTAMP) EXPIRES BY until"


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(START), verify="all")
    soup.execute(ADS)
    return soup


def rows_of(first: int, count: int, seconds: float | None) -> pa.Table:
    """Rows with successive IDs that expire some seconds after the start."""
    until = None if seconds is None else START + round(seconds * SECOND)
    return pa.table({"id": range(first, first + count), "until": pa.array([until] * count, pa.timestamp("us"))})


def ids(soup: LocalPSoup) -> list[int]:
    answer = soup.ask("SELECT id FROM ads ORDER BY id")
    assert answer is not None
    return answer.to_table().column("id").to_pylist()


def clock_of(soup: LocalPSoup) -> VirtualClock:
    assert isinstance(soup.clock, VirtualClock)
    return soup.clock


def look(soup: LocalPSoup) -> list[ExpireRows]:
    return ExpiredRows().due(soup.engine.snapshot(), soup.clock.now())


def prepared(soup: LocalPSoup, command: Push | ExpireRows | AlterStream) -> list[Event]:
    """The event of a command, which the writer has not applied."""
    event = soup.admission.prepare(command, soup.clock.now()).event
    return [] if event is None else [event]


def test_a_row_ends_at_the_look_after_its_time(soup: LocalPSoup) -> None:
    soup.push("ads", rows_of(1, 1, -5))
    soup.push("ads", rows_of(2, 1, 1))
    soup.push("ads", rows_of(3, 1, None))
    soup.maintain()
    assert ids(soup) == [2, 3]
    clock_of(soup).advance(seconds=1)
    soup.maintain()
    soup.maintain()
    assert ids(soup) == [3]
    assert soup.ask("SELECT id FROM ads", as_of=START).to_table().num_rows == 2  # row 1 ended at once
    assert soup.engine.snapshot().stream("ads", "default").next_id == 5  # three rows and two deletions


@pytest.mark.seeded("a newer version that is not published yet is deleted with the time of the old one")
def test_a_row_that_was_pushed_after_the_look_stays(soup: LocalPSoup) -> None:
    soup.push("ads", rows_of(1, 3, 1))
    clock_of(soup).advance(seconds=1)
    (command,) = look(soup)
    events = prepared(soup, Push("ads", rows_of(2, 1, 60)))
    events += prepared(soup, command)
    events += prepared(soup, command)  # deletes nothing twice
    assert [len(event.batch) for event in events if isinstance(event, Pushed)] == [1, 2]
    soup.engine.apply(events)
    assert ids(soup) == [2]
    assert not prepared(soup, command)


def test_a_look_of_long_ago_deletes_no_newer_version(soup: LocalPSoup) -> None:
    soup.push("ads", rows_of(1, 100, 1))
    clock_of(soup).advance(seconds=1)
    (command,) = look(soup)
    soup.push("ads", rows_of(1, 99, 60))
    soup.maintain()
    soup.submit(command)
    assert ids(soup) == [*range(1, 100)]
    soup.execute("ALTER TABLE ads EXPIRES NEVER")
    clock_of(soup).advance(seconds=100)
    assert not look(soup) and not prepared(soup, command)
    soup.execute("DROP TABLE ads")
    soup.execute(ADS)
    assert not prepared(soup, command)


def test_a_change_of_the_table_that_is_not_published_waits(soup: LocalPSoup) -> None:
    soup.push("ads", rows_of(1, 1, 1))
    clock_of(soup).advance(seconds=1)
    (command,) = look(soup)
    events = prepared(soup, AlterStream("ALTER TABLE ads ADD COLUMN sold TIMESTAMP"))
    assert not prepared(soup, command)
    soup.engine.apply(events)
    (event,) = prepared(soup, command)
    assert isinstance(event, Pushed) and len(event.batch.columns) == 5


def test_a_clock_that_was_set_back_deletes_nothing(soup: LocalPSoup) -> None:
    soup.push("ads", rows_of(1, 1, 5))
    clock_of(soup).advance(seconds=5)
    (command,) = look(soup)
    clock_of(soup).advance(seconds=-1)
    assert not prepared(soup, command)
    clock_of(soup).advance(seconds=1)
    assert prepared(soup, command)


def test_an_event_deletes_a_bounded_number_of_rows(soup: LocalPSoup) -> None:
    soup.push("ads", rows_of(0, MOST_ROWS + 500, 1))
    clock_of(soup).advance(seconds=1)
    looks = ExpiredRows()
    for count in (MOST_ROWS, 500):
        (command,) = looks.due(soup.engine.snapshot(), soup.clock.now())
        assert len(command.ids) == count
        soup.submit(command)
    assert ids(soup) == [] and not looks.due(soup.engine.snapshot(), soup.clock.now())


def test_a_chunk_without_due_rows_is_not_read_again(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    soup.push("ads", rows_of(0, 128, 60))
    soup.push("ads", rows_of(200, 3, 1))
    looks, read = ExpiredRows(), list[int]()
    assert not looks.due(soup.engine.snapshot(), soup.clock.now())
    plain = expired_rows._expired

    def noted(data: Chunk, *rest: int) -> Any:
        read.append(data.number)
        return plain(data, *rest)

    monkeypatch.setattr(expired_rows, "_expired", noted)
    assert not looks.due(soup.engine.snapshot(), soup.clock.now()) and not read
    clock_of(soup).advance(seconds=1)
    assert len(looks.due(soup.engine.snapshot(), soup.clock.now())[0].ids) == 3 and read == [2]


def test_deletions_need_room(soup: LocalPSoup) -> None:
    small = LocalPSoup(EngineConfig(chunk_rows=64, memory_bytes=60_000), VirtualClock(START))
    small.execute(ADS)
    small.push("ads", rows_of(0, 400, 1))
    clock_of(small).advance(seconds=1)
    with pytest.raises(ResourceExhausted, match="this batch to table 'ads' needs"):
        small.submit(look(small)[0])
    assert len(ids(small)) == 400


def test_a_replay_deletes_the_same_rows(soup: LocalPSoup) -> None:
    soup.push("ads", rows_of(0, 3, 1))
    clock_of(soup).advance(seconds=1)
    (event,) = prepared(soup, look(soup)[0])
    assert isinstance(event, Pushed) and event.batch.times.tolist() == [START + SECOND] * 3
    assert event.batch.columns[3].valid is not None and not event.batch.columns[3].valid.any()
    assert np.array_equal(event.batch.columns[2].values, [0, 1, 2])


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("CREATE TABLE t (k BIGINT PRIMARY KEY, u TIMESTAMP) EXPIRES BY x", "there is no column 'x'"),
        ("CREATE TABLE t (k BIGINT PRIMARY KEY, u DATE) EXPIRES BY u", "needs a TIMESTAMP, and 'u' is DATE"),
        ("CREATE TABLE t (k BIGINT PRIMARY KEY, u TIMESTAMP) TIMESTAMP BY u EXPIRES BY u", "exclude each other"),
        ("CREATE TABLE t (k BIGINT PRIMARY KEY, u TIMESTAMP) EXPIRES u", "expected TIMESTAMP BY"),
        ("CREATE TABLE t (k BIGINT PRIMARY KEY, u TIMESTAMP) EXPIRES BY", "EXPIRES BY needs a column"),
        ("CREATE STREAM t (k BIGINT, u TIMESTAMP) EXPIRES BY u", "a stream has no EXPIRES BY"),
    ],
)
def test_statements_that_cannot_be_meant(soup: LocalPSoup, sql: str, problem: str) -> None:
    with pytest.raises(PSoupError, match=problem):
        soup.execute(sql)


def test_alterations_that_cannot_be_meant(soup: LocalPSoup) -> None:
    with pytest.raises(InvalidInput, match="table 'ads' has no column 'x'; its columns are id, until"):
        soup.execute("ALTER TABLE ads EXPIRES BY x")
    with pytest.raises(InvalidInput, match="needs a TIMESTAMP, and 'id' of table 'ads' is BIGINT"):
        soup.execute("ALTER TABLE ads EXPIRES BY id")
    soup.execute("CREATE TABLE timed (k BIGINT PRIMARY KEY, at TIMESTAMP) TIMESTAMP BY at")
    with pytest.raises(FailedPrecondition, match="'timed' has TIMESTAMP BY, which excludes EXPIRES BY"):
        soup.execute("ALTER TABLE timed EXPIRES BY at")
    with pytest.raises(AlreadyExists, match="EXPIRES BY is until, not absent"):
        soup.execute(ADS.removesuffix(" EXPIRES BY until"))


def test_statements_are_written_as_they_are_read() -> None:
    spec = create_stream('CREATE TABLE t (k TEXT PRIMARY KEY, "the end" TIMESTAMP NOT NULL) EXPIRES BY "The End"')
    assert create_statement(spec).endswith('EXPIRES BY "the end"') and create_stream(create_statement(spec)) == spec
    for sql in ("ALTER TABLE t EXPIRES BY u", "ALTER TABLE t EXPIRES NEVER"):
        assert alter_statement(alter_stream(sql)) == sql
