"""Streams with an ARCHIVE: old chunks are on disk only, and answers are what they would be with all in memory."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig, Shape
from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.key_index import KeyIndex
from psoup.errors import FailedPrecondition, Internal
from psoup.execution.select.window import in_memory
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.sql import window_clause
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable import store
from psoup_storage.durable.chunks import folder as chunks
from psoup_storage.durable.chunks.archive import ColumnPlaces, StoredColumns
from psoup_storage.durable.chunks.column_cache import ColumnCache
from psoup_storage.durable.chunks.covers import Covers
from psoup_storage.durable.chunks.sidecars import SidecarFolder
from psoup_testing.engines.admission_gate import rows
from psoup_testing.engines.recorded import RecordingPSoup
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=16, ahead=86_400 * SECOND)
STEPS: dict[str, tuple[object, str]] = {
    "writing": (chunks, "_write_all"),
    "rename": (chunks.os, "rename"),
    "manifest": (store, "forget_chunks"),
    "log": (store, "forget_stored"),
    "removing": (chunks.ChunkFolder, "remove"),
}


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / "data")
    yield made
    made.store.close()


def values(soup: RecordingPSoup, query: int, **more: Any) -> list[Any]:
    return [row["x"] for row in soup.invoke(query, **more).to_table().to_pylist()]


def fill(soup: RecordingPSoup, count: int, start: int = 0, batch: int = 10) -> None:
    for n in range(start, start + count, batch):
        soup.push("s", rows(t=list(range(n, n + batch)), x=list(range(n, n + batch))))
        soup.maintain()


def parts(soup: RecordingPSoup) -> tuple[int, int]:
    view = soup.engine.snapshot().by_id[1]
    return view.archived, len(view.chunks) - view.archived


def test_old_chunks_leave_the_memory_and_answers_stay(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t RETENTION 100 SECONDS ARCHIVE 500 SECONDS")
    query = soup.register("SELECT x FROM s WHERE x % 7 = 0 BEGIN (START)")
    whole = soup.register("SELECT x FROM s BEGIN (NOW - 600)")
    for n in range(0, 2_000, 50):
        fill(soup, 50, n)
        oldest = max(0, n + 49 - 600)
        assert values(soup, whole) == list(range(oldest, n + 50))
        assert values(soup, query) == [x for x in range(oldest, n + 50) if x % 7 == 0]
        if n % 300 == 0:
            soup.restart()
            soup.engine.check()
    assert parts(soup) == (8, 3)
    as_of = values(soup, whole, as_of=1_500 * SECOND, accept_truncation=True)
    assert as_of == list(range(1_399, 1_501))
    assert values(soup, query, window="BEGIN (NOW - 550) END (NOW - 500)") == [
        1_449,
        1_456,
        1_463,
        1_470,
        1_477,
        1_484,
        1_491,
        1_498,
    ]
    bill = soup.engine.bill()
    assert bill["tuples_bytes"] == soup.admission.reserved_bytes
    assert bill["tuples_bytes"] < 3 * 64 * 30


def test_a_window_may_be_as_wide_as_both_parts(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 100 ROWS ARCHIVE 1000 ROWS")
    query = soup.register("SELECT x FROM s BEGIN (NOW - 1100 ROWS)")
    for n in range(0, 3_000, 50):
        soup.push("s", pa.table({"x": range(n, n + 50)}))
        soup.maintain()
    assert values(soup, query) == list(range(1_900, 3_000))
    with pytest.raises(Exception, match="keeps 1,100 rows"):
        soup.register("SELECT x FROM s BEGIN (NOW - 1101 ROWS)")


def test_a_chunk_that_was_being_stored_while_its_stream_got_a_column_has_it_in_the_archive(
    soup: RestartingPSoup,
) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 64 ROWS ARCHIVE 10000 ROWS")
    soup.push("s", pa.table({"x": range(64)}))
    while (task := soup.engine.maintenance()) is not None and task.name != "store":
        soup.engine.install(task.compute())
    assert task is not None
    stored = task.compute()
    soup.execute("ALTER STREAM s ADD COLUMN y BIGINT")
    soup.engine.install(stored)
    query = soup.register("SELECT x, y FROM s WHERE y IS NULL")
    soup.push("s", pa.table({"x": range(64, 164), "y": range(64, 164)}))
    soup.maintain()
    assert archive_of(soup)[0].number == 0
    assert values(soup, query) == list(range(64))


def archive_of(soup: RestartingPSoup) -> list[ArchivedChunk]:
    entries = soup.engine._streams[1].shelf.entries
    return [entry.data for entry in entries if isinstance(entry.data, ArchivedChunk)]


def make_archive(soup: RestartingPSoup, count: int = 640) -> None:
    """Ten chunks, nine of them on disk only; `k` is 0 to 9, one value a chunk, `r` anything."""
    soup.execute("CREATE STREAM s (x BIGINT, k BIGINT, r BIGINT, w TEXT) RETENTION 20 ROWS ARCHIVE 100000 ROWS")
    for n in range(0, count, 64):
        ids = range(n, n + 64)
        table = {"x": ids, "k": [n // 64] * 64, "r": [x * 37 % 101 for x in ids], "w": [f"w{x}" for x in ids]}
        soup.push("s", pa.table(table))
        soup.maintain()
    soup.push("s", pa.table({"x": [count], "k": [99], "r": [0], "w": [None]}))
    soup.restart()


def test_only_the_chunks_and_columns_that_are_needed_are_read(soup: RestartingPSoup) -> None:
    make_archive(soup)
    assert (len(archive_of(soup)), soup.store.archive_reads) == (9, 0), "a start reads nothing of the archive"
    query = soup.register("SELECT x FROM s WHERE k = 3 AND r < 5 BEGIN (START)")
    expected = [x for x in range(192, 256) if x * 37 % 101 < 5]
    assert values(soup, query) == expected
    assert soup.store.archive_reads == 3, "k, r and x of one chunk of nine"
    assert values(soup, query) == expected
    assert soup.store.archive_reads == 3, "they are in the cache now"
    nothing = soup.register("SELECT x FROM s WHERE k > 100 BEGIN (START)")
    assert values(soup, nothing) == []
    hot = soup.register("SELECT x, w FROM s WHERE k < 100 BEGIN (NOW - 20 ROWS)")
    assert values(soup, hot) == list(range(621, 641))
    assert soup.store.archive_reads == 3, "neither the zones nor the window asked for more"
    assert "9 of the chunks are on disk" in "\n".join(soup.explain(query).lines())


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    for limit, least in ((0, 9), (2_000, 9), (2**20, 0)):
        soup = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / str(limit), cache_bytes=limit)
        make_archive(soup)
        query = soup.register("SELECT r FROM s WHERE r >= 0 BEGIN (START)")
        first = soup.invoke(query).to_table()
        before = soup.store.archive_reads
        assert soup.invoke(query).to_table() == first
        assert soup.store.archive_reads - before >= least
        assert soup.store._chunks.cache.bytes <= limit
        soup.store.close()


@pytest.mark.long
def test_pushes_go_on_when_the_memory_is_full(tmp_path: Path) -> None:
    """A stream ten times as large as the memory: what is stored leaves it, whatever RETENTION says of the hot part."""
    soup = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / "data", hot_bytes=20_000)
    soup.admission = type(soup.admission)(EngineConfig(chunk_rows=64, memory_bytes=20_000), archive=True)
    soup.execute("CREATE STREAM s (x BIGINT, w TEXT) RETENTION 1000000 ROWS ARCHIVE 1000000 ROWS")
    query = soup.register("SELECT x FROM s WHERE x % 100 = 0 BEGIN (START)")
    for n in range(0, 6_400, 40):
        soup.push("s", pa.table({"x": range(n, n + 40), "w": ["some text of the tuple"] * 40}))
        soup.maintain()
        assert soup.engine.bill()["tuples_bytes"] == soup.admission.reserved_bytes <= 20_000
    assert values(soup, query) == list(range(0, 6_400, 100))
    soup.restart()
    assert values(soup, query) == list(range(0, 6_400, 100))
    assert soup.engine.bill()["tuples_bytes"] <= 20_000


def test_a_snapshot_reads_a_chunk_that_has_expired_since(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 10 ROWS ARCHIVE 150 ROWS")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    soup.push("s", pa.table({"x": range(200)}))
    soup.maintain()
    soup.push("s", pa.table({"x": range(200, 201)}))
    held = soup.invoke(query)
    expected = list(range(41, 201))
    assert "1-0.parquet" in os.listdir(soup.path / "chunks")
    soup.push("s", pa.table({"x": range(201, 500)}))
    soup.maintain()
    known = {row.file for row in soup.store._manifest("")}
    assert "1-0.parquet" not in known
    assert held.to_table().column("x").to_pylist() == expected
    assert "1-0.parquet" in os.listdir(soup.path / "chunks"), "the answer can still be read"
    del held
    assert set(os.listdir(soup.path / "chunks")) == known
    soup.restart()
    assert values(soup, query) == list(range(340, 500))


def test_an_orderly_end_leaves_no_file_of_a_chunk_that_has_expired(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 10 ROWS ARCHIVE 150 ROWS")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    soup.push("s", pa.table({"x": range(200)}))
    soup.maintain()
    held = soup.invoke(query)
    soup.push("s", pa.table({"x": range(200, 500)}))
    soup.maintain()
    known = {row.file for row in soup.store._manifest("")}
    folder = soup.path / "chunks"
    assert set(os.listdir(folder)) > known, "somebody may still read them"
    soup.store.close()
    assert set(os.listdir(folder)) == known
    del held


@pytest.mark.long
def test_readers_and_expiry_do_not_disturb_each_other(tmp_path: Path) -> None:
    soup = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / "data", cache_bytes=3_000)
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 10 ROWS ARCHIVE 640 ROWS")
    query = soup.register("SELECT x FROM s WHERE x >= 0 BEGIN (START)")
    stop = threading.Event()

    def read(_: int) -> int:
        count = 0
        while not stop.is_set():
            found = values(soup, query)
            assert found == list(range(found[0], found[-1] + 1)) if found else True
            assert len(found) <= 650
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, number) for number in range(3)]
        try:
            for n in range(0, 6_400, 64):
                soup.push("s", pa.table({"x": range(n, n + 64)}))
                soup.maintain()
        finally:
            stop.set()
        assert all(reader.result() for reader in readers)
    assert values(soup, query) == list(range(5_750, 6_400))
    soup.store.close()


@pytest.mark.parametrize("damage", swept(["page", "footer", "cut", "missing"], fast=2))
def test_a_damaged_archived_chunk_is_found_when_it_is_read(soup: RestartingPSoup, damage: str) -> None:
    make_archive(soup)
    query = soup.register("SELECT x, k, r, w FROM s WHERE r >= 0 BEGIN (START)")
    newest = soup.register("SELECT x FROM s BEGIN (NOW - 30 ROWS)")
    path = soup.path / "chunks" / "1-4.parquet"
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        content[-40 if damage == "footer" else 60] ^= 4
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
    for _ in range(2):
        with pytest.raises(Internal, match=r"^the chunk chunks/1-4\.parquet is damaged") as refused:
            soup.invoke(query).to_table()
        assert refused.value.reason == "DATA_DAMAGED"
        assert len(values(soup, newest)) == 30
        soup.restart()  # the others can be read


@pytest.mark.parametrize("places", [{}, None], ids=["by the library", "by pages"])
def test_no_bit_of_the_head_of_a_page_changes_what_is_read(soup: RestartingPSoup, places: ColumnPlaces | None) -> None:
    """Parquet's checksums are of what is in a page; how many values that is stands before it."""
    make_archive(soup)
    entry = soup.engine.snapshot().by_id[1].chunks[4].data
    assert isinstance(entry, ArchivedChunk)
    attribute, known = entry.attribute(0), entry.source
    assert isinstance(known, StoredColumns)
    whole = known.column(attribute).values.tolist()
    path = soup.path / "chunks" / "1-4.parquet"
    content, outcomes = bytearray(path.read_bytes()), Counter[bool]()
    for place in range(4 * 8, 44 * 8):  # behind the magic number
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        content[place // 8] ^= 1 << place % 8
        facts = replace(known.file, path=path, rows=len(whole), checksum=0, attached=False)
        source = StoredColumns(facts, places, ColumnCache(0), Covers(soup.path), SidecarFolder(soup.path))
        try:
            assert source.column(attribute).values.tolist() == whole, f"bit {place}: a silent wrong value"
            outcomes[True] += 1
        except Internal as problem:
            assert problem.reason == "DATA_DAMAGED"
            outcomes[False] += 1
    assert min(outcomes[True], outcomes[False]) > 0


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", swept(STEPS, fast=2))
def test_a_crash_at_any_step_on_the_way_to_the_archive(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 64 ROWS ARCHIVE 128 ROWS")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    for n in range(0, 320, 64):
        soup.push("s", pa.table({"x": range(n, n + 64)}))
        if n < 192:
            soup.maintain()
    owner, name = STEPS[step]
    whole = getattr(owner, name)

    def crash(*arguments: Any) -> Any:
        if after:
            whole(*arguments)
        raise OSError(5, f"crash at {step}")

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, crash)
        with pytest.raises((OSError, Internal), match="crash at"):
            soup.maintain()
    for _ in range(2):
        soup.restart()
        assert values(soup, query) == list(range(128, 320))
        assert set(os.listdir(soup.path / "chunks")) == {row.file for row in soup.store._manifest("")}
        soup.maintain()
        assert values(soup, query) == list(range(128, 320))


def test_without_a_disk_an_archive_is_refused() -> None:
    with pytest.raises(FailedPrecondition, match="asks for an ARCHIVE, and nothing is kept on disk here") as refused:
        LocalPSoup().execute("CREATE STREAM s (x BIGINT) RETENTION 1 HOUR ARCHIVE 1 DAY")
    assert refused.value.reason == "NO_ARCHIVE"


def test_an_embedded_engine_has_an_archive_with_a_store(tmp_path: Path) -> None:
    disk = DurableStore(tmp_path)
    soup = LocalPSoup(SMALL, keep=disk.keep)
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 1 ROW ARCHIVE 1000 ROWS")
    for n in range(0, 640, 64):
        soup.push("s", pa.table({"x": range(n, n + 64)}))
        soup.maintain()
    query = soup.register("SELECT x FROM s WHERE x > 100 BEGIN (START)")
    assert soup.invoke(query).to_table().column("x").to_pylist() == list(range(101, 640))
    assert soup.engine.snapshot().by_id[1].archived == 9
    disk.close()


def test_what_is_surely_in_memory_is_known_without_reading(soup: RestartingPSoup) -> None:
    make_archive(soup)
    view = soup.engine.snapshot().by_id[1]
    now = soup.clock.now() + 10 * SECOND
    for window, expected in (
        ("BEGIN (START)", False),
        ("BEGIN (NOW - 60)", False),
        ("BEGIN (NOW - 65 ROWS)", True),
        ("BEGIN (NOW - 66 ROWS)", False),
        ("BEGIN (NOW - 9)", True),
        ("BEGIN TIMESTAMP '1960-01-01' END TIMESTAMP '2200-01-01'", False),
    ):
        assert in_memory(view, window_clause(window), now) is expected, window
    assert soup.store.archive_reads == 0


def test_what_was_stored_leaves_the_memory_though_nothing_comes_any_more(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 50 ROWS ARCHIVE 1000 ROWS")
    soup.push("s", pa.table({"x": range(640)}))
    assert parts(soup) == (0, 11)
    before = soup.admission.reserved_bytes
    soup.maintain()
    assert parts(soup) == (9, 2)
    assert soup.engine.bill()["tuples_bytes"] == soup.admission.reserved_bytes < before / 4
    assert values(soup, soup.register("SELECT x FROM s BEGIN (START)")) == list(range(640))


@pytest.mark.parametrize("where", ["r = 5", "w = 'w77'", "r = 5 AND x > 200", "r IN (5, 7) AND k < 8", "r = 900"])
def test_chunks_on_disk_that_are_searched_often_are_looked_up(tmp_path: Path, where: str) -> None:
    config = replace(SMALL, shape=Shape(key_probes=1), results_bytes=1 << 40)
    soup = RestartingPSoup(config, VirtualClock(0), tmp_path / "data", cache_bytes=0)
    make_archive(soup)
    query = soup.register(f"SELECT x FROM s WHERE {where} BEGIN (START)")
    expected = values(soup, query)
    for _ in range(9):
        assert values(soup, query) == expected
    entries = [entry for chunk in archive_of(soup) for entry in chunk.caches.keyed.values()]
    indexes = [entry for entry in entries if isinstance(entry, KeyIndex)]
    assert bool(indexes) == (where not in ("w = 'w77'", "r IN (5, 7) AND k < 8", "r = 900"))
    other = soup.register("SELECT x FROM s WHERE r = 6 BEGIN (START)")
    assert values(soup, other) == [x for x in range(641) if x * 37 % 101 == 6 and x < 640]
    soup.check()
    for chunk in archive_of(soup):
        chunk.caches.keyed.clear()
    assert values(soup, query) == expected
    soup.store.close()
