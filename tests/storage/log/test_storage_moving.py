"""The write-ahead log moves to the database beside commits, and begins anew; nothing that was acknowledged is lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from psoup.errors import Internal
from psoup.events.events import Event
from psoup_storage import DurableStore
from psoup_storage.contract import at_once
from psoup_storage.durable.directory import Notes
from psoup_storage.durable.log.codec import encode
from psoup_storage.durable.sqlite import checkpointer, database
from psoup_storage.durable.sqlite.checkpointer import Mover
from psoup_testing.engines.admission_gate import Gate

CHECKPOINT = 64 * 1024
PATIENCE = 30


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PAGE_BYTES", 4_096)
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", CHECKPOINT)


def history(pushes: int) -> list[Event]:
    """Pushes of eight kilobytes each."""
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT)")
    for number in range(pushes):
        gate.push("s", x=[number] * 1_000)
    return gate.events


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DurableStore]:
    store = DurableStore(tmp_path / "data")
    store.share(at_once)
    yield store
    store.close()


def mover(store: DurableStore) -> Mover:
    assert store._database._mover is not None
    return store._database._mover


def moved(store: DurableStore) -> None:
    """Return once what is moved is moved."""
    move = mover(store)._move
    if move is not None:
        move.exception(PATIENCE)


def left_by_a_kill(store: DurableStore, to: Path) -> list[object]:
    """The rows that a start finds of the files as they are now."""
    shutil.copytree(store.path, to)
    after = DurableStore(to)
    try:
        return [encode(event) for event in after.read()]
    finally:
        after.close()


def test_commits_go_on_while_the_log_is_moved(
    tmp_path: Path, store: DurableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, go = Mover.begin, threading.Event()

    def begin_later(self: Mover) -> None:
        self._pool.submit(go.wait, PATIENCE)  # the only thread of the pool
        begin(self)

    monkeypatch.setattr(Mover, "begin", begin_later)
    events = iter(history(60))
    done = [next(events)]
    store.append(done)
    while not store.due:
        done.append(next(events))
        store.append(done[-1:])
    store.settle()
    assert mover(store).under_way
    assert not store.due
    done += [next(events) for _ in range(6)]
    for event in done[-6:]:
        store.append([event])
        store.settle()
    assert mover(store).under_way
    rows = [encode(event) for event in done]
    assert left_by_a_kill(store, tmp_path / "while") == rows
    go.set()
    moved(store)
    assert left_by_a_kill(store, tmp_path / "then") == rows
    done.append(next(events))
    store.append(done[-1:])
    assert store._database._frames < 10, "the log did not begin anew once all of it was moved"
    assert left_by_a_kill(store, tmp_path / "after") == [encode(event) for event in done]


@pytest.mark.parametrize("waits", [True, False])
def test_the_log_begins_anew_again_and_again(tmp_path: Path, store: DurableStore, waits: bool) -> None:
    """`waits`: each time until all of it is moved; else commits come meanwhile, as they do."""
    events, logs, longest = history(160), set[bytes](), 0
    wal = store.path / "psoup.db-wal"
    for event in events:
        store.append([event])
        if store.due:
            store.settle()
            if waits:
                moved(store)
        logs.add(wal.read_bytes()[16:24])
        longest = max(longest, wal.stat().st_size)
        salts = Notes(store.path).read("log-end").split()[1]
        assert salts == wal.read_bytes()[16:24].hex(), "the note on what is synced is of another log"
    assert longest <= (database._POSTPONED + 1) * CHECKPOINT
    assert len(logs) > 2
    assert left_by_a_kill(store, tmp_path / "killed") == [encode(event) for event in events]


@pytest.mark.seeded("a piece that was moved to the database is not synced")
@pytest.mark.seeded("the file that is synced is closed before the database, or stays open behind it")
def test_the_disk_has_the_database_before_a_commit_would_wait_for_it(
    store: DurableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is synced beside commits: when the log begins anew, SQLite finds little that is not on the disk."""
    synced, begun, sync, checkpoint = list[int](), 0, checkpointer.sync_content, database.Database._checkpoint
    base, pieces = store._database._directory.database, Mover.begin

    def begin(self: Mover) -> None:
        nonlocal begun
        begun += 1
        pieces(self)

    def sync_content(file: int) -> None:
        assert os.path.sameopenfile(file, own)
        sync(file)
        synced.append(threading.get_ident())

    def short_checkpoint(self: database.Database) -> None:
        checkpoint(self)  # waits for the piece that is under way
        assert len(synced) == begun, "a piece was moved and not synced"

    own = os.open(base, os.O_RDONLY)
    monkeypatch.setattr(Mover, "begin", begin)
    monkeypatch.setattr(checkpointer, "sync_content", sync_content)
    monkeypatch.setattr(database.Database, "_checkpoint", short_checkpoint)
    for event in history(160):
        store.append([event])
        if store.due:
            store.settle()
    moved(store)
    assert len(synced) == begun > 2
    assert threading.get_ident() not in synced
    store.close()
    os.close(own)


@pytest.mark.seeded("a piece that was moved to the database is not synced")
@pytest.mark.seeded("the file that is synced is closed before the database, or stays open behind it")
def test_the_file_that_is_synced_is_open_as_long_as_the_database(store: DurableStore) -> None:
    """To close it would give up SQLite's lock, which keeps other processes out of the database."""

    def others_in() -> bool:
        """Whether another process can read it."""
        read = f"import sqlite3; sqlite3.connect({str(base)!r}, timeout=0).execute('SELECT * FROM meta').fetchall()"
        return subprocess.run([sys.executable, "-c", read], capture_output=True, check=False).returncode == 0

    base, file = store._database._directory.database, mover(store)._file
    for event in history(20):
        store.append([event])
        if store.due:
            store.settle()
            moved(store)
    assert not others_in()
    store.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
    assert others_in()


@pytest.mark.parametrize("fails", ["move", "sync"])
def test_an_error_of_the_disk_while_the_log_is_moved_ends_the_store(
    tmp_path: Path, store: DurableStore, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def fail(self: Mover) -> None:
        def move() -> tuple[int, int]:
            raise apsw.IOError("injected")

        self._move = self._pool.submit(move)

    def fail_to_sync(file: int) -> None:
        raise OSError(errno.EIO, "injected")

    if fails == "move":
        monkeypatch.setattr(Mover, "begin", fail)
    else:
        monkeypatch.setattr(checkpointer, "sync_content", fail_to_sync)
    events = iter(history(60))
    done = [next(events)]
    store.append(done)
    while not store.due:
        done.append(next(events))
        store.append(done[-1:])
    store.settle()
    moved(store)
    for _ in range(2):
        with pytest.raises(Internal, match="injected"):
            store.append([next(events)])
    rows = [encode(event) for event in done]
    assert left_by_a_kill(store, tmp_path / "killed")[: len(rows)] == rows


def test_a_full_disk_while_the_log_is_moved_is_tried_again(
    tmp_path: Path, store: DurableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, tries = Mover.begin, list[str]()

    def full_at_first(self: Mover) -> None:
        def move() -> tuple[int, int]:
            raise apsw.FullError("injected")

        tries.append("full" if not tries else "room")
        if len(tries) == 1:
            self._move = self._pool.submit(move)
        else:
            begin(self)

    monkeypatch.setattr(Mover, "begin", full_at_first)
    events = history(60)
    for event in events:
        store.append([event])
        if store.due:
            store.settle()
            moved(store)
    assert tries[:2] == ["full", "room"]
    assert left_by_a_kill(store, tmp_path / "killed") == [encode(event) for event in events]


def test_the_note_is_of_a_log_that_a_large_commit_begins(store: DurableStore) -> None:
    """All of a short log is moved, and the next commit has more frames than it had: no number of frames tells."""
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT)")
    gate.push("s", x=range(3_000))
    gate.push("s", x=range(30_000))
    *before, large = gate.events
    wal = store.path / "psoup.db-wal"
    store.append(before)
    assert store.due
    store.settle()
    moved(store)
    old = wal.read_bytes()[16:24]
    store.append([large])
    frames, salts, _ = Notes(store.path).read("log-end").split()
    assert (salts, int(frames)) == (wal.read_bytes()[16:24].hex(), store._database._frames) and salts != old.hex()
