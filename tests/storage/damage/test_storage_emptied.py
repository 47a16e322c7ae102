"""Files of a data directory that are gone or empty: damage that a start refuses before it removes anything; and no
moment of an orderly end or a start looks like it."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from psoup.errors import Internal
from psoup.events.events import Event
from psoup_storage import DurableStore
from psoup_storage.durable.directory import Notes
from psoup_storage.durable.sqlite import database, vacuum
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.crash.faults import Disk
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.engines.starts import kept
from psoup_testing.suite.sweeps import swept

NOTE = "note-log-end"


@pytest.fixture
def data(killed_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed_directory / "data", tmp_path / "data"))


def contents(path: Path) -> dict[str, bytes]:
    """All files but those that any look at the directory makes."""
    files = [file for file in path.rglob("*") if file.is_file() and file.name != "lock" and file.stat().st_size]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def refused(path: Path, why: str) -> None:
    """A start and the doctor name the damage, and leave all files as they are."""
    before = contents(path)
    report = examine(path, repair=True)
    assert not report.well and contents(path) == before
    with pytest.raises(Internal, match=why) as problem:
        DurableStore(path)
    assert problem.value.reason == "DATA_DAMAGED"
    assert contents(path) == before


# The database


@pytest.mark.parametrize(
    "beside",
    swept(
        [{}, {"psoup.db-wal"}, {"chunks"}, {"psoup.db-wal", "chunks"}, {"chunks", NOTE}, {"psoup.db-wal", NOTE}],
        fast=(0, 5),
    ),
)
def test_an_empty_database_beside_what_a_service_left_is_damage(data: Path, beside: set[str]) -> None:
    """`beside`: what is gone, too."""
    (data / "psoup.db").write_bytes(b"")
    for name in beside:
        shutil.rmtree(data / name) if name == "chunks" else (data / name).unlink()
    refused(data, "it holds nothing, and .* is there")


@pytest.mark.parametrize("name", ["audit.jsonl", "note-lives", "chunks/1-0.parquet"])
def test_a_database_without_content_beside_a_file_is_damage(tmp_path: Path, name: str) -> None:
    """SQLite has made its first page, and nothing follows in the log: a first start may be cut off there."""
    (tmp_path / "chunks").mkdir()
    connection = apsw.Connection(str(tmp_path / "psoup.db"))
    connection.pragma("journal_mode", "WAL")
    connection.close()
    assert (tmp_path / "psoup.db").stat().st_size
    (tmp_path / name).write_bytes(b"something\n")
    refused(tmp_path, f"it holds nothing, and {name} is there")
    (tmp_path / name).write_bytes(b"")
    if name.startswith("chunks"):
        (tmp_path / name).unlink()
    DurableStore(tmp_path).close()


def test_chunks_without_any_database_are_not_removed(tmp_path: Path) -> None:
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / "1-0.parquet").write_bytes(b"the only copy")
    with pytest.raises(Internal, match=r"it holds nothing, and chunks/1-0\.parquet is there"):
        DurableStore(tmp_path)
    assert list(contents(tmp_path)) == ["chunks/1-0.parquet"]


def test_chunks_beside_a_log_without_events_are_no_leftovers(tmp_path: Path) -> None:
    DurableStore(tmp_path).close()
    (tmp_path / "chunks" / "1-0.parquet").write_bytes(b"the only copy")
    refused(tmp_path, r"it knows no event, and chunks/1-0\.parquet is there")


def test_no_first_start_that_is_cut_off_is_an_obstacle(tmp_path: Path) -> None:
    disk = Moments(tmp_path / "data", tmp_path / "moments")
    DurableStore(tmp_path / "data", vfs=disk.name).close()
    disk.unregister()
    sizes = set()
    for moment in (tmp_path / "moments").iterdir():
        sizes.add((moment / "psoup.db").stat().st_size > 0)
        DurableStore(moment).close()
    assert sizes == {False, True}


# The write-ahead log


@pytest.mark.parametrize("left", swept([None, 0, 7, 31, 32, 40], fast=(0, 3)))
def test_a_log_that_is_gone_is_damage_where_the_note_names_frames_of_it(data: Path, left: int | None) -> None:
    wal = data / "psoup.db-wal"
    content = wal.read_bytes()
    wal.unlink()
    if left is not None:
        wal.write_bytes(content[:left])
    refused(data, "frame 0 of the write-ahead log psoup.db-wal is damaged or gone")
    assert examine(data).findings[0].place == "psoup.db-wal"


class Moments(Disk):
    """Copies of a directory before each step of SQLite and behind each removal, with the newest note that a power cut
    may leave: what is written and not synced may be there, what is removed and not synced may be, too."""

    def __init__(self, path: Path, copies: Path) -> None:
        super().__init__()
        self._path, self._copies = path, copies
        self.note, self.count, self.notes = "", 0, 0

    def take(self) -> None:
        if not self._path.exists():
            return
        copy = shutil.copytree(self._path, self._copies / str(self.count), ignore=shutil.ignore_patterns("lock"))
        if self.note:
            (copy / NOTE).write_text(self.note + "\n")
        self.count += 1
        self.notes += bool(self.note)

    def deleted(self, path: str) -> None:
        self.take()

    def writing(self, path: str, offset: int, data: bytes | None) -> None:
        if data is None or offset == 0:
            self.take()

    def syncing(self, path: str) -> None:
        self.take()


def history() -> list[Event]:
    gate = Gate()
    gate.create("CREATE STREAM kept (x BIGINT)")
    gate.create("CREATE STREAM gone (x BIGINT)")
    for number in range(8):
        gate.push("gone", x=[number] * 4_000)
    gate.push("kept", x=[1])
    gate.drop("gone")
    return gate.events


@pytest.mark.long
@pytest.mark.parametrize("shrinks", [False, True])
def test_no_moment_of_an_end_or_a_start_looks_like_a_log_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shrinks: bool
) -> None:
    """The note goes, durably, between the last frame's way to the database and the end of the log."""
    monkeypatch.setattr(database, "PAGE_BYTES", 4_096)
    monkeypatch.setattr(vacuum, "LEAST_BYTES", 16_384 if shrinks else 2**40)
    path, write = tmp_path / "data", Notes.write
    disk = Moments(path, tmp_path / "moments")

    def noted(self: Notes, name: str, text: str, *, sync: bool = False) -> None:
        write(self, name, text, sync=sync)
        if self._path == path and (text or sync):
            disk.note = text

    monkeypatch.setattr(Notes, "write", noted)
    events = history()
    store = DurableStore(path, vfs=disk.name)
    store.append(events[:-1])
    store.append(events[-1:])
    shutil.copytree(path, tmp_path / "killed", ignore=shutil.ignore_patterns("lock"))
    known, disk.count = kept(shutil.copytree(tmp_path / "killed", tmp_path / "asked")), 1_000
    store.close()
    assert not (path / "psoup.db-wal").exists() and not (path / NOTE).exists()
    ended, disk.count = disk.count, 2_000
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "killed", path)
    disk.note = (path / NOTE).read_text().strip()
    DurableStore(path, vfs=disk.name).close()
    disk.unregister()
    assert ended > 1_002 and disk.count > 2_002 and disk.notes > 4
    for number in (*range(1_000, ended), *range(2_000, disk.count)):
        moment = tmp_path / "moments" / str(number)
        assert examine(moment).well, f"moment {number}: {examine(moment).findings}"
        assert kept(moment) == known, f"moment {number}"


def test_a_start_that_writes_nothing_leaves_the_note(tmp_path: Path) -> None:
    """It named no frames from then on, and the log could go unnoticed."""
    living = DurableStore(tmp_path / "living")
    living.append(history())
    killed = shutil.copytree(tmp_path / "living", tmp_path / "killed", ignore=shutil.ignore_patterns("lock"))
    living.close()
    before = (killed / NOTE).read_bytes()
    store = DurableStore(killed)
    assert (killed / NOTE).read_bytes() == before
    store.close()
