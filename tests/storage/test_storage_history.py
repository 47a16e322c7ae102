"""Job directories: what is taken in, what is refused and why, and what crashes and copies leave of it."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.beforehand import Beforehand
from psoup.clock import VirtualClock
from psoup.columns import Batch, columns_from_arrow
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, Internal, InvalidInput, NotFound, OutOfRange
from psoup.history import Attach, Extent
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup_storage.durable.backup import restore
from psoup_storage.durable.doctor import examine
from psoup_storage.history import MANIFEST, Manifest, write_chunk, write_manifest
from psoup_testing.attaching import attach, write
from psoup_testing.restarting import RestartingPSoup

CONFIG = EngineConfig(chunk_rows=64)
EVENTS = "CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t"


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(CONFIG, VirtualClock(1_000 * SECOND), tmp_path / "data")
    yield made
    made.check()
    made.store.close()


def rows(first: int, stop: int) -> pa.Table:
    """One row a second, from `first` to before `stop`."""
    times = pa.array([n * SECOND for n in range(first, stop)], pa.timestamp("us", "UTC"))
    return pa.table({"t": times, "x": range(first, stop), "w": [f"w{n % 7}" for n in range(first, stop)]})


def job(soup: RestartingPSoup, name: str, first: int, stop: int, every: int = 50) -> Path:
    """A job directory of those rows."""
    folder = soup.path.parent / name
    spec = soup.engine.snapshot().stream("s", "default").spec
    write(folder, spec, rows(first, stop), [n * SECOND for n in range(first, stop)], range(0, stop - first, every))
    return folder


def values(soup: RestartingPSoup, query: int) -> list[Any]:
    """What the query answers."""
    return soup.invoke(query).to_table().columns[0].to_pylist()


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
        assert soup.explain(query).chunks_archived == 6
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


def with_matches(soup: RestartingPSoup, name: str, queries: list[tuple[int, str]], incarnation: str) -> Path:
    """A job directory with what the queries match."""
    folder = soup.path.parent / name
    spec = soup.engine.snapshot().stream("s", "default").spec
    times = [n * SECOND for n in range(100, 300)]
    write(folder, spec, rows(100, 300), times, range(0, 200, 64), Beforehand(spec, queries), incarnation)
    return folder


TEXTS = [
    "SELECT x FROM s WHERE x % 3 = 0 BEGIN (START)",
    "SELECT x FROM s WHERE x % 3 = 0 AND w = 'w1' BEGIN (START)",
    "SELECT w FROM s WHERE x % 3 = 0 BEGIN (START)",
    "SELECT x FROM s WHERE x < 0 BEGIN (START)",
    "SELECT x FROM s WHERE x + 9223372036854775600 > 0 BEGIN (START)",
    "SELECT x FROM s BEGIN (START)",
]


def test_what_was_found_beforehand_is_used_and_never_needed(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    ids = [soup.register(text) for text in TEXTS]
    known = list(zip(ids, TEXTS, strict=True))
    soup.push("s", rows(300, 400))
    attach(soup, "s", "job", with_matches(soup, "one", known, soup.store.incarnation))
    born = soup.register("SELECT x FROM s WHERE x % 5 = 0 BEGIN (START)")
    same = soup.register(TEXTS[0])
    wanted = [values(soup, query) for query in (*ids, born, same)]
    assert wanted[0] == wanted[-1] == [n for n in range(100, 400) if n % 3 == 0]
    assert [len(found) for found in wanted] == [100, 14, 100, 0, 108, 300, 60, 100]
    failures = soup.invoke(ids[4]).completeness.errors
    assert failures == 192

    def forms(query: int) -> int:
        return soup.explain(query).column_forms.get("on disk", 0)

    for _ in range(2):
        assert [forms(query) for query in (*ids, born, same)] == [4, 4, 4, 4, 4, 0, 0, 4]
        assert soup.invoke(ids[4]).completeness.errors == failures
        soup.restart()
    soup.unregister(ids[0])
    assert (forms(ids[2]), forms(same)) == (4, 4), "another query of the clause was evaluated"
    soup.unregister(ids[2])
    assert (forms(same), values(soup, same)) == (0, wanted[0])
    asked = (ids[1], ids[3], ids[4], same)
    for damage in ("bit", "column", "cut", "gone"):
        for path in (soup.path / "chunks").glob("*.matches"):
            content = bytearray(path.read_bytes())
            content[60 if damage == "bit" else -1] ^= 1
            path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
            if damage == "gone":
                path.unlink()
        soup.restart()
        assert [values(soup, query) for query in asked] == [wanted[1], wanted[3], wanted[4], wanted[0]], damage
    assert examine_closed(soup).well
    soup.restart()


def test_matches_go_with_copies_and_with_their_chunks(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS + " RETENTION 400 SECONDS")
    query = soup.register(TEXTS[0])
    attach(soup, "s", "job", with_matches(soup, "one", [(query, TEXTS[0])], soup.store.incarnation))
    assert len(list((soup.path / "chunks").glob("*.matches"))) == 4
    with closing(soup.store.freeze()) as frozen:
        assert sum(name.endswith(".matches") for name, _ in frozen.files) == 4
    soup.store.close()
    restore(soup.path, soup.path.parent / "copy")
    copy = RestartingPSoup(CONFIG, soup.clock, soup.path.parent / "copy")  # type: ignore[arg-type]
    assert copy.explain(query).column_forms["on disk"] == 4
    copy.store.close()
    soup.restart()
    for first in range(300, 900, 50):
        soup.push("s", rows(first, first + 50))
        soup.maintain()
    assert not list((soup.path / "chunks").glob("*.matches"))


def test_matches_of_another_incarnation_are_left_out(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    query = soup.register(TEXTS[0])
    attach(soup, "s", "job", with_matches(soup, "one", [(query, TEXTS[3])], "another"))
    assert values(soup, query) == [n for n in range(100, 300) if n % 3 == 0]
    assert "on disk" not in soup.explain(query).column_forms


def examine_closed(soup: RestartingPSoup) -> Any:
    """What the doctor says of the directory."""
    soup.store.close()
    return examine(soup.path)


def test_history_may_come_first_and_raises_the_watermark(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS + " LATENESS 100 SECONDS")
    query = soup.register("SELECT x FROM s BEGIN (NOW - 20) END (NOW)")
    attach(soup, "s", "first", job(soup, "one", 100, 300))
    for _ in range(2):
        assert values(soup, query) == list(range(279, 300))
        assert soup.engine.snapshot().by_id[1].watermark == 299 * SECOND
        soup.restart()
    late = soup.push("s", rows(298, 301))
    assert (late.accepted, late.late) == (2, 1)
    soup.heartbeat("s", 300 * SECOND)
    assert values(soup, query) == [*range(280, 300), 299, 300]


@pytest.mark.parametrize(
    ("sql", "first", "stop", "message"),
    [
        (EVENTS, 350, 402, "must end at or before 1970-01-01 00:06:40Z, the time of the first tuple there"),
        (EVENTS + " RETENTION 100 SECONDS", 300, 400, "keeps nothing before 1970-01-01 00:05:19Z"),
        (EVENTS + " RETENTION 60 ROWS", 350, 400, "keeps 60 tuples, so there is room for 40 of history"),
    ],
    ids=["overlap", "older than the retention", "more than the retention"],
)
def test_what_does_not_fit_is_refused_with_the_bound(
    soup: RestartingPSoup, sql: str, first: int, stop: int, message: str
) -> None:
    soup.execute(sql)
    soup.push("s", rows(400, 420))
    with pytest.raises(OutOfRange, match=message):
        attach(soup, "s", "job", job(soup, "one", first, stop))
    assert not os.listdir(soup.path / "chunks")
    bound = attach(soup, "s", "job", job(soup, "two", 380, 401))
    assert bound.first_time == 380 * SECOND


def test_a_bound_is_known_before_anything_is_written(soup: RestartingPSoup) -> None:
    soup.execute(EVENTS)
    asked = soup.submit(Attach("s", "job"))
    assert (asked.first_time, asked.duplicate) == (None, False)  # type: ignore[attr-defined]
    soup.push("s", rows(400, 420))
    with pytest.raises(OutOfRange, match="leave out what is later"):
        soup.submit(Attach("s", "job", Extent(1, 10, 0, 401 * SECOND)))
    asked = soup.submit(Attach("s", "job", Extent(1, 10, 0, 400 * SECOND)))
    assert (asked.first_time, asked.duplicate) == (400 * SECOND, False)  # type: ignore[attr-defined]
    with pytest.raises(NotFound, match="made anew"):
        soup.submit(Attach("s", "job", stream_id=7))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("manifest missing", "the job that wrote it has not ended"),
        ("manifest bit", "is not as it was written|cannot be read"),
        ("chunk missing", "is missing"),
        ("chunk bit", "it is not as it was written"),
        ("format", "it has format 7"),
        ("other stream", "its column x is int64, and the stream has y BIGINT there"),
        ("order", "not in the order of their times"),
        ("path", "is no name of a file in it"),
        ("empty", "there is no chunk in it"),
    ],
)
def test_a_directory_that_is_not_whole_is_refused(soup: RestartingPSoup, spoil: str, message: str) -> None:
    soup.execute(EVENTS)
    folder = job(soup, "one", 100, 300)
    chunk, manifest = folder / "00050.parquet", folder / MANIFEST
    head, text = manifest.read_text(encoding="utf-8").splitlines()
    facts = json.loads(text)
    if spoil == "other stream":
        soup.execute("DROP STREAM s")
        soup.execute(EVENTS.replace("x BIGINT", "y BIGINT"))
    elif spoil.endswith("missing"):
        (manifest if "manifest" in spoil else chunk).unlink()
    elif spoil == "manifest bit":
        manifest.write_text(f"{head}\n{text.replace('50', '51', 1)}\n", encoding="utf-8")
    elif spoil == "chunk bit":
        content = bytearray(chunk.read_bytes())
        content[70] ^= 1
        chunk.write_bytes(content)
    elif spoil == "format":
        manifest.write_text(f'{{"format": 7}}\n{text}\n', encoding="utf-8")
    else:
        if spoil == "order":
            facts["chunks"].reverse()
        elif spoil == "path":
            facts["chunks"][1][0] = "../one/00050.parquet"
        else:
            facts["chunks"] = []
        rewrite(manifest, facts)
    with pytest.raises(InvalidInput, match=message) as refused:
        attach(soup, "s", "job", folder)
    assert refused.value.reason == "BAD_HISTORY"
    assert not os.listdir(soup.path / "chunks")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (2**63 - 1, "row 1: the TIMESTAMP in column 'u' is infinity, which is no time here"),
        (1 - 2**63, "row 1: the TIMESTAMP in column 'u' is -infinity, which is no time here"),
    ],
)
def test_infinite_times_are_refused(soup: RestartingPSoup, number: int, message: str) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, u TIMESTAMP) TIMESTAMP BY t")
    times = pa.array([SECOND, 2 * SECOND], pa.timestamp("us", "UTC"))
    table = pa.table({"t": times, "u": pa.array([0, number], pa.timestamp("us", "UTC"))})
    folder, spec = soup.path.parent / "one", soup.engine.snapshot().stream("s", "default").spec
    folder.mkdir()
    batch = Batch(columns_from_arrow(spec.schema, table), np.array([1, 2]) * SECOND)
    write_manifest(folder, Manifest("s", (write_chunk(folder, "00000", spec, batch),), ""))
    with pytest.raises(InvalidInput, match=message) as refused:
        attach(soup, "s", "job", folder)
    assert refused.value.reason == "BAD_HISTORY"
    assert not os.listdir(soup.path / "chunks")


def rewrite(manifest: Path, facts: Any) -> None:
    """A manifest that says something else, under a checksum that is right."""
    text = json.dumps(facts)
    manifest.write_text(json.dumps({"format": 1, "crc": zlib.crc32(text.encode())}) + f"\n{text}\n", encoding="utf-8")


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
        assert soup.push("s", rows(1_001 + span, 1_002 + span)).ahead == 1
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


def test_without_a_disk_history_is_refused() -> None:
    soup = LocalPSoup()
    soup.execute(EVENTS)
    with pytest.raises(FailedPrecondition, match="nothing is kept there by this service"):
        soup.submit(Attach("s", "job"))


def test_a_copy_is_taken_where_there_are_no_links(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(18, "cross-device link")

    soup.execute(EVENTS)
    monkeypatch.setattr(os, "link", no_links)
    folder = job(soup, "one", 100, 300)
    attach(soup, "s", "job", folder)
    stored = {(soup.path / "chunks" / name).stat().st_ino for name in os.listdir(soup.path / "chunks")}
    assert not stored & {path.stat().st_ino for path in folder.iterdir()}
