"""History that was written elsewhere: where it lies, what it moves, what crashes and copies leave of it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from psoup.errors import Internal, OutOfRange
from psoup.events.commands import Attach, Extent
from psoup.model import SECOND
from psoup_storage.durable.tools.backup import restore
from psoup_testing.engines import past
from psoup_testing.engines.attachments import attach
from psoup_testing.engines.past import CONFIG, EVENTS, examine_closed, job, rows, values
from psoup_testing.engines.restarts import RestartingPSoup

soup = past.soup


def test_history_lies_before_the_live_data_and_stays(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    query = soup.register("SELECT x FROM s WHERE w = 'w3' BEGIN (START)")
    ids = soup.register("SELECT _id FROM s WHERE x < 3 OR x BETWEEN 298 AND 301 BEGIN (START)")
    last = soup.register("SELECT x FROM s BEGIN (NOW - 150 ROWS)")
    soup.push("s", rows(300, 400))
    done = attach(soup, "s", "first", job(soup, "one", 100, 300))
    assert (done.first_time, done.watermark, done.duplicate) == (100 * SECOND, 399 * SECOND, False)
    again = attach(soup, "s", "first", job(soup, "again", 0, 50))
    assert (again.sequence, again.duplicate) == (done.sequence, True)
    attach(soup, "s", "second", job(soup, "two", 0, 100))
    for _ in range(2):
        assert values(soup, query) == [n for n in range(400) if n % 7 == 3]
        assert values(soup, ids) == [-300, -299, -298, -2, -1, 0, 1]
        assert values(soup, last) == list(range(250, 400))
        assert soup.matches("s", -297) == [query, last]
        assert soup.explain(query).source.chunks_archived == 6
        soup.maintain()
        soup.push("s", rows(399, 399))
        soup.restart()
    assert set(os.listdir(soup.path / "chunks")) == {row.file for row in soup.store._manifest("")}
    report = examine_closed(soup)
    assert report.well, report.findings
    restore(soup.path, soup.path.parent / "copy")
    copy = RestartingPSoup(CONFIG, soup.clock, soup.path.parent / "copy")  # type: ignore[arg-type]
    assert values(copy, query) == [n for n in range(400) if n % 7 == 3]
    copy.store.close()
    soup.restart()


def test_history_may_come_first_and_raises_the_watermark(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS + " LATENESS 100 SECONDS")
    query = soup.register("SELECT x FROM s BEGIN (NOW - 20) END (NOW)")
    attach(soup, "s", "first", job(soup, "one", 100, 300))
    for _ in range(2):
        assert values(soup, query) == list(range(279, 300))
        assert soup.engine.snapshot().by_id[1].watermark == 299 * SECOND
        soup.restart()
    late = soup.push("s", rows(298, 301), refused="count")
    assert (late.accepted, late.late) == (2, 1)
    soup.heartbeat("s", 300 * SECOND)
    assert values(soup, query) == [*range(280, 300), 299, 300]


def test_columns_that_came_later_are_null(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    folder = job(soup, "one", 100, 300)
    soup.execute("ALTER STREAM s ADD COLUMN z BIGINT, ADD COLUMN y TEXT")
    query = soup.register("SELECT z FROM s WHERE z IS NULL AND y IS NULL AND x > 290 BEGIN (START)")
    attach(soup, "s", "job", folder)
    assert values(soup, query) == [None] * 9
    soup.restart()
    assert values(soup, query) == [None] * 9


def test_ahead_is_kept_and_bounds_what_is_attached(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    for span in (300, 10):
        if span == 10:
            soup.execute("ALTER STREAM s AHEAD 10 SECONDS")
        soup.restart()
        view = soup.engine.snapshot().by_id[1]
        assert view.spec.ahead == span * SECOND
        assert soup.push("s", rows(1_001 + span, 1_002 + span), refused="count").ahead == 1
    assert soup.engine.snapshot().by_id[1].sql == EVENTS + " AHEAD 10 SECONDS"
    with pytest.raises(OutOfRange, match="too far past the clock"):
        soup.submit(Attach("s", "job", Extent(1, 10, 0, 1_011 * SECOND)))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_beside_the_transaction_leaves_all_or_nothing(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    soup.execute(EVENTS)
    query = soup.register("SELECT x FROM s BEGIN (START)")
    whole = soup.store.append

    def crash(events: Any) -> None:
        if after:
            whole(events)
        raise OSError(5, "crash")

    folder = job(soup, "one", 100, 300)
    adopted = soup.store.adopt(folder, "job", 1, soup.engine.snapshot().by_id[1].spec)
    with monkeypatch.context() as patched:
        patched.setattr(soup.store, "append", crash)
        with pytest.raises(OSError, match="crash"):
            soup.submit(Attach("s", "job", adopted.extent, adopted.chunks))
    soup.store.close()
    soup.store = soup._open()
    soup._replay()
    assert values(soup, query) == (list(range(100, 300)) if after else [])
    assert len(os.listdir(soup.path / "chunks")) == (4 if after else 0)
    assert attach(soup, "s", "job", folder).duplicate is after
    assert values(soup, query) == list(range(100, 300))


def test_expired_history_leaves_the_disk(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS + " RETENTION 100 SECONDS")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    attach(soup, "s", "job", job(soup, "one", 200, 300))
    for first in range(300, 500, 50):
        soup.push("s", rows(first, first + 50))
        soup.maintain()
    assert values(soup, query) == list(range(399, 500))
    assert all(row.number >= 0 for row in soup.store._manifest(""))
    soup.restart()
    assert values(soup, query) == list(range(399, 500))
    assert examine_closed(soup).well
    soup.restart()


def test_a_chunk_that_is_lost_is_found_by_the_doctor(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    attach(soup, "s", "job", job(soup, "one", 100, 300))
    with soup.store._database.transaction() as connection:
        connection.execute("DELETE FROM chunks WHERE number = -4")
    report = examine_closed(soup)
    assert report.findings[0].what == "the manifest has 3 attached chunks, and the log 4"
    assert not report.well


def test_an_event_without_its_files_is_not_logged(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    spec = soup.engine.snapshot().by_id[1].spec
    adopted = soup.store.adopt(job(soup, "one", 100, 300), "job", 1, spec)
    prepared = soup.admission.prepare(Attach("s", "job", adopted.extent, adopted.chunks), soup.clock.now())
    soup.store.disown(1, "job")
    assert prepared.event is not None
    with pytest.raises(Internal, match="the chunks of job 'job' are not in"):
        soup.store.append([prepared.event])


def test_a_copy_is_taken_where_there_are_no_links(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(18, "cross-device link")

    soup.execute(EVENTS)
    monkeypatch.setattr(os, "link", no_links)
    folder = job(soup, "one", 100, 300)
    attach(soup, "s", "job", folder)
    stored = {(soup.path / "chunks" / name).stat().st_ino for name in os.listdir(soup.path / "chunks")}
    assert not stored & {path.stat().st_ino for path in folder.iterdir()}
