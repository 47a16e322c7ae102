"""Stored chunks: what comes back after a restart, what the log forgets, what a crash leaves, what damage does."""

from __future__ import annotations

import errno
import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import note

from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, Internal, SqlError
from psoup.events.commands import DropStream, Push
from psoup.events.events import StreamCreated
from psoup.model import SECOND
from psoup.values.columns import lasting_memory
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable import store
from psoup_storage.durable.chunks import folder as chunks
from psoup_testing.engines.admission_gate import rows
from psoup_testing.engines.recorded import Player, RecordingPSoup
from psoup_testing.engines.restarts import RestartingPSoup, making
from psoup_testing.histories.histories import draw_history
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(
    chunk_rows=64, piece_rows=16, kept_acknowledgements=4, producer_idle=1_000 * SECOND, ahead=86_400 * SECOND
)


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / "data")
    yield made
    made.store.close()


def log(soup: RestartingPSoup, what: str = "count(*)", where: str = "1") -> Any:
    return next(soup.store._database.query(f"SELECT {what} FROM log WHERE {where}"))[0]


def files(soup: RestartingPSoup) -> list[str]:
    return sorted(os.listdir(soup.path / "chunks"))


def values(soup: RecordingPSoup, query: int, **more: Any) -> list[Any]:
    return [row["x"] for row in soup.invoke(query, **more).to_table().to_pylist()]


def test_histories_with_restarts_say_what_they_say_without(tmp_path: Path) -> None:
    budget, numbers, seen = Budget("restarts", cases=40), itertools.count(), [0, 0]

    def case(draw: Any) -> int:
        history = draw_history(draw, events=10)
        note(repr(history))
        with making(tmp_path / str(next(numbers)), every=4) as made:
            played = Player(history, maintain_always=True, make=made)
            assert played.said == Player(history, maintain_always=True).said
            seen[0] += made.soup.restarts
            seen[1] += len(files(made.soup))
        return 1

    run_cases(budget, case)
    assert min(seen) > 1, f"{seen[0]} restarts and {seen[1]} stored chunks are too few to say anything"


def test_a_restart_reads_chunks_and_what_is_left_of_the_log(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT, name TEXT) TIMESTAMP BY t LATENESS 20 SECONDS")
    query = soup.register("SELECT x, name, _id FROM s WHERE x >= 5 BEGIN (START)")
    for n in range(50):
        soup.push("s", rows(t=[n * 5 + i for i in (3, 0, 4)], x=[n] * 3, name=[f"n{n}", None, ""]))
        if n % 7 == 0:
            soup.heartbeat("s", (n * 5 - 18) * SECOND)
    before = soup.invoke(query).to_table()
    soup.maintain()
    assert files(soup) == ["1-0.parquet", "1-1.parquet"]
    assert log(soup, where="tuples IS NOT NULL") < 12
    assert log(soup, where="kind IN ('push', 'watermark')") < 20
    for _ in range(2):
        soup.restart()
        assert soup.invoke(query).to_table() == before  # before anything is covered
        soup.maintain()
        assert soup.invoke(query).to_table() == before
    soup.push("s", rows(t=[400], x=[99], name=["new"]))
    assert soup.invoke(query).to_table().num_rows > before.num_rows - 1
    said = soup.engine.snapshot().by_id[1]
    assert (said.late.count, said.next_id + said.pending) == (0, 151)


def test_tuples_of_one_time_are_split_where_they_were(soup: RestartingPSoup) -> None:
    """The stored part may end between tuples of one time, also of one batch, also after a chunk of nothing else."""
    soup.execute("CREATE STREAM s (x BIGINT)")
    query, count = soup.register("SELECT x FROM s BEGIN (START)"), 0
    for size in (30, 20, 40, 100, 3, 64):
        soup.push("s", pa.table({"x": range(count, count + size)}))
        count += size
        soup.maintain()
        soup.restart()
        assert values(soup, query) == list(range(count))
    soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
    soup.push("s", pa.table({"x": range(count, count + 200)}))
    soup.maintain()
    assert log(soup, where="tuples IS NOT NULL") == 1
    soup.restart()
    assert values(soup, query) == list(range(count + 200))


def test_refusals_of_forgotten_events_are_still_counted(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t")
    for n in range(10, 110):
        soup.push("s", rows(t=[n, n - 5, 10**7], x=[n, 0, 0]), refused="count")
    soup.maintain()
    assert log(soup, where="kind = 'push'") < 60
    for _ in range(2):
        soup.restart()
        view = soup.engine.snapshot().by_id[1]
        assert (view.late.count, view.ahead.count) == (99, 100)


def test_producers_are_known_as_far_as_they_were(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT)")

    def push(producer: str, number: int) -> Any:
        return soup.submit(Push("s", pa.table({"x": [number] * 7}), producer, 1, number))

    push("old", 0)
    soup.clock.advance(seconds=2_000)  # type: ignore[attr-defined]
    for number in range(30):
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        push("p", number)
        push("q", number)
    soup.maintain()
    assert log(soup, where="kind = 'push'") < 30
    assert log(soup, where="kind = 'push' AND body ->> 'producer' = 'old'") == 0
    soup.restart()
    again = push("p", 27)
    assert (again.duplicate, again.accepted) == (True, 7)
    with pytest.raises(FailedPrecondition, match="only the last 4 are remembered"):
        push("p", 20)
    assert push("p", 30).duplicate is False
    soup.restart()


def test_expired_chunks_leave_the_disk(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t RETENTION 100 SECONDS")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    sizes = []
    for n in range(0, 1_000, 10):
        soup.push("s", rows(t=[n + i for i in range(10)], x=[n + i for i in range(10)]))
        soup.maintain()
        sizes.append(len(files(soup)))
        if n % 130 == 0:
            soup.restart()
            assert values(soup, query)[-1] == n + 9
    assert max(sizes) <= 4
    assert log(soup) < 30
    assert values(soup, query) == list(range(899, 1_000))
    soup.restart()
    assert values(soup, query) == list(range(899, 1_000))
    assert soup.store.bytes >= sum((soup.path / "chunks" / file).stat().st_size for file in files(soup))


def test_a_dropped_stream_leaves_the_disk_and_its_ids_are_not_used_again(soup: RestartingPSoup) -> None:
    for name in ("a", "b"):
        soup.execute(f"CREATE STREAM {name} (x BIGINT)")
        soup.push(name, pa.table({"x": range(200)}))
    kept = soup.register("SELECT x FROM b BEGIN (START)", "request")
    gone = soup.register("SELECT x FROM a")
    asked = soup.register("SELECT x FROM a WHERE x > 1", "asked")
    soup.maintain()
    assert len(files(soup)) == 6
    for query in (gone, asked):
        soup.unregister(query)
    soup.submit(DropStream("a"))
    assert files(soup) == [f"2-{n}.parquet" for n in range(3)]
    soup.restart()
    assert log(soup, where="kind = 'push'") == 1
    with pytest.raises(
        SqlError, match="there is no stream or table 'a'"
    ):  # its request ID went with it: it is a new query
        soup.register("SELECT x FROM a WHERE x > 1", "asked")
    assert values(soup, kept) == list(range(200))
    soup.execute("CREATE STREAM a (x BIGINT)")
    assert soup.engine.snapshot().stream("a", "default").stream_id == 3
    soup.submit(DropStream("a"))
    soup.restart()
    soup.execute("CREATE STREAM a (x BIGINT)")
    assert soup.engine.snapshot().stream("a", "default").stream_id == 4


def test_a_chunk_is_a_parquet_file_for_others(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, m DECIMAL(9,2), name TEXT NOT NULL) TIMESTAMP BY t")
    soup.execute("CREATE STREAM other (x BIGINT)")
    soup.push("s", rows(t=range(64), m=[n if n % 2 else None for n in range(64)], name=[f"é{n}" for n in range(64)]))  # type: ignore[arg-type]
    soup.push("other", pa.table({"x": range(64)}))
    soup.maintain()
    table = pq.read_table(soup.path / "chunks" / "1-0.parquet")
    assert table.schema.field("m").type == pa.decimal128(9, 2)
    assert not table.schema.field("name").nullable
    assert table["name"].to_pylist()[5] == "é5"
    assert pq.read_schema(soup.path / "chunks" / "2-0.parquet").names == ["x", "_time"]


# Crashes and damage

STEPS: dict[str, tuple[object, str]] = {
    "writing": (chunks, "_write_all"),
    "fsync": (chunks.os, "fsync"),
    "rename": (chunks.os, "rename"),
    "fsync of the folder": (chunks, "sync_directory"),
    "manifest": (store, "forget_chunks"),
    "log": (store, "forget_stored"),
    "removing": (chunks.ChunkFolder, "remove"),
}


@pytest.mark.parametrize("step", swept(STEPS, fast=3))
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step_leaves_no_row_missing_or_double(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    """T6: between the Parquet write, its rename and the manifest; before and after each step."""
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t RETENTION 150 SECONDS")
    query = soup.register("SELECT x FROM s BEGIN (START)")
    for n in range(0, 260, 10):
        soup.push("s", rows(t=[n + i for i in range(10)], x=[n + i for i in range(10)]))
        if n == 130:
            soup.maintain()
    owner, name = STEPS[step]
    whole: Callable[..., Any] = getattr(owner, name)

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
        assert values(soup, query) == list(range(109, 260))
        known = {row.file for row in soup.store._manifest("")}
        assert set(files(soup)) == known, "an orphan is left"
        soup.maintain()
        assert values(soup, query) == list(range(109, 260))


def test_chunks_that_were_read_ahead_are_the_same_and_read_once(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.execute("CREATE STREAM empty (x BIGINT)")
    soup.push("s", pa.table({"x": range(130)}))
    soup.maintain()
    soup.execute("ALTER STREAM s ADD COLUMN y TEXT")
    soup.execute("CREATE STREAM other (name TEXT)")
    soup.push("other", pa.table({"name": [f"n{n}" for n in range(70)]}))
    soup.maintain()
    soup.store.close()
    read = list[str]()
    load = chunks.ChunkFolder.load
    monkeypatch.setattr(
        chunks.ChunkFolder, "load", lambda self, spec, row: (read.append(row.file), load(self, spec, row))[1]
    )

    def stored(ahead: bool) -> list[Any]:
        store = DurableStore(soup.path)
        if ahead:
            store.read_ahead()
        found = [event.stored for event in store.read() if isinstance(event, StreamCreated)]
        store.close()
        return [
            one
            and (
                [(c.number, c.places.first_id, [d.to_list() for d in c.batch.columns]) for c in one.chunks],
                one.first_time,
            )
            for one in found
        ]

    assert stored(ahead=True) == stored(ahead=False)
    assert sorted(read) == sorted(2 * ["1-0.parquet", "1-1.parquet", "1-2.parquet", "3-0.parquet"])


def test_memory_of_chunks_that_have_gone_is_given_back(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.push("s", pa.table({"x": range(130)}))
    soup.maintain()
    soup.store.close()
    usual, home = pa.default_memory_pool().backend_name, lasting_memory()
    gc.collect()  # what earlier tests have left goes now, and not meanwhile
    before = home.bytes_allocated()
    store = DurableStore(soup.path)
    events = list(store.read())
    assert pa.default_memory_pool().backend_name == usual
    assert home.bytes_allocated() - before >= 128 * 16, "two chunks of 64 values and times"
    events.clear()
    assert home.bytes_allocated() == before
    store.close()


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("damage", ["flip", "cut", "missing", "other"])
def test_a_damaged_chunk_is_found_and_named(soup: RestartingPSoup, damage: str, ahead: bool) -> None:
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.push("s", pa.table({"x": range(200)}))
    soup.maintain()
    path = soup.path / "chunks" / "1-1.parquet"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    path.write_bytes(content[:-9] if damage == "cut" else content)
    if damage == "missing":
        path.unlink()
    if damage == "other":
        path.write_bytes((soup.path / "chunks" / "1-0.parquet").read_bytes())
    soup.store.close()
    again = DurableStore(soup.path)
    if ahead:
        again.read_ahead()
    with pytest.raises(Internal, match=r"1-1\.parquet is damaged") as refused:
        list(again.read())
    assert refused.value.reason == "DATA_DAMAGED"
    again.close()


@pytest.mark.parametrize(
    ("owner", "name", "error", "kept"),
    [
        (chunks, "_write_all", OSError(errno.ENOSPC, "no space left on device"), 0),
        (chunks, "_write_all", OSError(errno.EDQUOT, "quota exceeded"), 0),
        (store, "forget_chunks", apsw.FullError("database or disk is full"), 0),
        (store, "forget_stored", apsw.FullError("database or disk is full"), 3),
    ],
)
def test_a_chunk_that_finds_no_room_is_stored_when_there_is_some(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, error: Exception, kept: int
) -> None:
    """T4: it stays in memory and in the log, leaves nothing behind, and is tried with later tuples."""
    soup.execute("CREATE STREAM s (x BIGINT)")
    query = soup.register("SELECT x FROM s BEGIN (START)")

    def full(*_: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, full)
        for start in (0, 100):
            soup.push("s", pa.table({"x": range(start, start + 100)}))
            soup.maintain()
        assert len(files(soup)) == kept
        assert values(soup, query) == list(range(200))
    soup.restart()
    assert values(soup, query) == list(range(200))
    soup.push("s", pa.table({"x": range(200, 210)}))
    soup.maintain()
    assert len(files(soup)) == 3
    assert values(soup, query) == list(range(210))
    soup.restart()
    assert values(soup, query) == list(range(210))


def test_tuples_past_their_retention_that_are_not_stored_yet_leave_an_engine_behind(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 100 ROWS")
    for n in range(0, 640, 64):
        soup.push("s", pa.table({"x": range(n, n + 64)}))
    shelf = soup.engine._streams[1].shelf
    tuples = shelf.entries[0].data.nbytes
    unsealed = sum(entry.results.charged for entry in shelf.entries)
    assert (shelf.overdue, shelf.waiting_bytes) == (8, 8 * tuples + unsealed)
    soup.maintain()
    assert (shelf.overdue, shelf.waiting_bytes, len(shelf.entries)) == (0, 0, 2)
