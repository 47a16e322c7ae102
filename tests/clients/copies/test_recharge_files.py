"""Files of copies that are older, read-only, locked, damaged, cut, gone or full, and processes killed in them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from psoup_client import Client
from psoup_recharge import Recharge, Store, StoreError
from psoup_recharge import sqlite as sqlite_module
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.crash.faults import EIO, ENOSPC, Disk, Fault, failing
from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.sweeps import swept

MakeStream = Callable[[str], str]
FORMAT_1 = """
CREATE TABLE store (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE queries (
    number INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE NOT NULL, sql TEXT NOT NULL, query_id TEXT NOT NULL,
    key TEXT NOT NULL, priority REAL NOT NULL, fresh REAL NOT NULL, token BLOB NOT NULL DEFAULT x'',
    form BLOB, complete INTEGER NOT NULL DEFAULT 0, now TEXT, synced REAL, error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE history (
    at TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, came INTEGER NOT NULL, gone INTEGER NOT NULL,
    reset TEXT NOT NULL, error TEXT NOT NULL
) STRICT;
INSERT INTO store VALUES ('id', 'abcdef');
INSERT INTO queries (name, sql, query_id, key, priority, fresh) VALUES ('old', 'SELECT n FROM s', '', '', 3, 60);
PRAGMA application_id = 0x50536F70;
PRAGMA user_version = 1;
"""


@pytest.fixture
def stream(client: Client, make_stream: MakeStream) -> str:
    name = make_stream("(n BIGINT, t TEXT)")
    client.push(name, {"n": range(2_000), "t": ["x" * 50] * 2_000})
    return name


@pytest.fixture
def path(tmp_path: Path, client: Client, stream: str) -> Iterator[Path]:
    """A file with 2,000 rows of a copy `q`; then 500 rows more are there for the next recharge."""
    path = tmp_path / "copies.db"
    with Store(path) as store:
        store.add("q", sql=f"SELECT n, t FROM {stream} BEGIN (NOW - 2000 ROWS)")
        store.recharge(client)
    client.push(stream, {"n": range(2_000, 2_500), "t": ["y" * 50] * 500})
    return path


def held(path: Path) -> list[int]:
    """What the copy holds; checked by SQLite."""
    with Store(path) as store:
        assert store._file.run("PRAGMA integrity_check") == [("ok",)]
        return list(store.read("q").column("n").to_pylist())


FULL = ["the disk is full; nothing was changed"]
BEFORE, AFTER = list(range(2_000)), list(range(500, 2_500))


def on(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    """Open files on a disk of a test."""
    monkeypatch.setattr(sqlite_module.apsw, "Connection", partial(apsw.Connection, vfs=disk.name))


@pytest.mark.seeded("the token is stored in another transaction than the rows")
@pytest.mark.parametrize("fault", swept([EIO, ENOSPC], fast=1), ids=["error", "full"])
def test_a_disk_that_fails_leaves_the_copy_as_it_was(
    client: Client, path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    said, place = set[str](), 0
    while True:
        with failing(place, fault) as disk, monkeypatch.context() as patched:
            on(patched, disk)
            try:
                with Store(path) as store:
                    store.recharge(client)
            except StoreError as problem:
                said.add(problem.message.partition(": ")[2].partition(" (")[0])
            reached = bool(disk.failed)
        now = held(path)
        assert now in (BEFORE, AFTER), "half of a change"
        if now == AFTER:
            break
        assert reached
        place += 1
    assert place > 3
    assert said == {"the disk failed, or has no more room; nothing was changed", *FULL[fault is not ENOSPC :]}
    with Store(path) as store:
        assert store.recharge(client).copies[0].complete


def test_a_file_that_may_not_be_written_is_read(client: Client, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = apsw.SQLITE_OPEN_READONLY
    monkeypatch.setattr(sqlite_module.apsw, "Connection", partial(apsw.Connection, flags=flags))
    with Store(path) as store:
        assert store.read("q").num_rows == 2_000 and store.entry("q").complete and store.now()[0]
        for change in (partial(store.recharge, client), partial(store.add, "r", key="k"), partial(store.forget, "q")):
            with pytest.raises(StoreError, match="cannot be written; nothing was changed"):
                change()
    monkeypatch.undo()
    assert held(path) == BEFORE


def test_another_process_that_writes_is_waited_for(client: Client, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_module, "_BUSY_MS", 1)
    other = apsw.Connection(str(path))  # of the same library, as locks are of a process
    other.execute("BEGIN IMMEDIATE")
    with Store(path) as store:
        assert store.read("q").num_rows == 2_000, "reading goes on"
        with pytest.raises(StoreError, match="another program is writing to it; try again"):
            store.recharge(client)
        other.execute("COMMIT")
        store.recharge(client)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="another program is writing to it; try again"):
        Store(path)
    other.close()
    assert held(path) == AFTER


def test_a_file_that_is_gone_or_another_is_not_written_to(client: Client, path: Path) -> None:
    with Store(path) as store:
        path.rename(path.with_suffix(".away"))
        for there in (False, True):
            if there:
                Store(path).close()
            with pytest.raises(StoreError, match="it was removed, or replaced by another file; nothing was changed"):
                store.recharge(client)
    path.with_suffix(".away").replace(path)
    assert held(path) == BEFORE


def test_damaged_and_cut_files_are_told(client: Client, path: Path) -> None:
    content = path.read_bytes()
    pages = len(content) // 4_096
    for damaged in (
        content[: len(content) // 2],
        content[:50],
        content[:4_096] + os.urandom(len(content) - 4_096),
        content[:100] + bytes(3_996) + content[4_096:],
        content[: 4_096 * (pages - 1)] + bytes(4_096),
    ):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="damaged; delete it, and the next recharge brings all rows"):
            _use(path, client)
    path.write_bytes(b"")
    with Store(path) as store:
        assert not store.entries(), "an empty file is a new store"


def _use(path: Path, client: Client) -> Recharge:
    with Store(path) as store:
        told = store.recharge(client)
        store.read("q")
        store._file.run("SELECT * FROM sqlite_schema")
        return told


KILLED = """
import sys
from pathlib import Path
from psoup_recharge.sqlite import File

file = File(Path(sys.argv[1]))
file.run("PRAGMA cache_size = 4")
with file.changing():
    file.run("DELETE FROM rows_1")
    file.run("UPDATE queries SET token = x'01'")
    file.run("CREATE TABLE more AS SELECT randomblob(100000) FROM history")
    print("in it", flush=True)
    sys.stdin.read()
"""


@pytest.mark.long
def test_a_process_that_is_killed_in_a_transaction_leaves_the_copy_as_it_was(client: Client, path: Path) -> None:
    before = path.read_bytes()
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    assert child.stdout.readline() == "in it\n"
    assert path.read_bytes() != before, "half of it is in the file"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()
    assert held(path) == BEFORE
    with Store(path) as store:
        (copy,) = store.recharge(client).copies
    assert (copy.came, copy.gone, copy.reset) == (500, 500, "")
    assert held(path) == AFTER


@pytest.mark.seeded("a change is applied to a copy that has another token by now")
def test_two_processes_on_one_file_do_not_undo_each_other(client: Client, path: Path, stream: str) -> None:
    with Store(path) as first, Store(path) as second:
        real, calls = client.connection.call, 0

        def meanwhile(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            reply = real(*arguments, **named)  # type: ignore[arg-type]
            if calls == 1:  # the reply to the first is under way, and the second is faster
                second.recharge(client)
                client.push(stream, {"n": [2_500], "t": ["z"]})
            return reply

        client.connection.call = meanwhile  # type: ignore[method-assign]
        try:
            told = first.recharge(client).copies[0]
        finally:
            client.connection.call = real  # type: ignore[method-assign]
        assert (told.came, told.gone, told.complete) == (1, 1, True), "its first reply was dropped"
        assert [copy["came"] for copy in second.history()] == [1, 500, 2_000]
    assert held(path) == list(range(501, 2_501))


def test_a_reader_sees_one_state_of_the_file(client: Client, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_module, "_BUSY_MS", 1)
    real = Store._form

    def meanwhile(store: Store, name: str) -> object:
        found = real(store, name)
        with Store(path) as other, pytest.raises(StoreError, match="another program"):
            other.recharge(client)
        return found

    with Store(path) as store:
        monkeypatch.setattr(Store, "_form", meanwhile)
        assert list(store.read("q").column("n").to_pylist()) == BEFORE
        monkeypatch.setattr(Store, "_form", real)
        store.recharge(client)
    assert held(path) == AFTER


def test_a_service_that_was_put_back_brings_all_rows_again(tmp_path: Path) -> None:
    data, before, file = tmp_path / "data", tmp_path / "before", tmp_path / "copies.db"
    for rows in ([], [7, 8], [9]):
        if rows == [9]:  # tuple IDs mean other tuples from here on
            shutil.rmtree(data)
            shutil.copytree(before, data)
        with serving(Settings(port=0), store=DurableStore(data)) as service, Client(service.address) as client:
            if not rows:
                client.create_stream("CREATE STREAM s (n BIGINT)")
                client.push("s", {"n": [1, 2, 3]})
            else:
                client.push("s", {"n": rows})
            with Store(file) as store:
                store.add("q", sql="SELECT n FROM s BEGIN (START)")
                (copy,) = store.recharge(client).copies
                assert copy.reset == {0: "first", 2: "", 1: "data put back"}[len(rows)]
                assert store.read("q").column("n").to_pylist() == [1, 2, 3, *rows]
        if not rows:
            shutil.copytree(data, before)


def test_a_copied_file_goes_on_by_itself(client: Client, path: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied.db"
    copied.write_bytes(path.read_bytes())
    for file in (path, copied):
        (copy,) = _use(file, client).copies
        assert (copy.came, copy.reset) == (500, "")
        assert held(file) == AFTER


def test_a_file_of_the_format_before_is_brought_to_this_one(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    plain = sqlite3.connect(path)
    plain.executescript(FORMAT_1)
    plain.close()
    with Store(path) as store:
        (entry,) = store.entries()
        assert (entry.name, entry.priority, entry.fresh, entry.share, entry.order) == ("old", 3, 60, 0, "newest")
        assert store.key_of(entry) == "recharge/abcdef/old" and store.now() == (None, 0)
    with Store(path) as again:
        assert again._file.run("PRAGMA user_version") == [(2,)]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    for version in (0, 3, -1):
        path.unlink(missing_ok=True)
        plain = sqlite3.connect(path)
        plain.executescript(FORMAT_1 + f"PRAGMA user_version = {version};")
        plain.close()
        with pytest.raises(StoreError, match=f"format {version}, and this program reads 1 to 2"):
            Store(path)
