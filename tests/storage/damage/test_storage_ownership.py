"""A data directory in other hands: of another user, of another process, of a newer version."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from typer.testing import CliRunner

from psoup.errors import Internal, InvalidInput
from psoup_cli.app import app
from psoup_service.process import kernel_cache
from psoup_service.sync.keys import rotate
from psoup_storage import DurableStore, open_store
from psoup_storage.durable.directory import DataDirectory, Notes
from psoup_storage.durable.read_only_store import LookingStore
from psoup_storage.durable.sqlite.schema import FORMAT
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.suite.sweeps import swept

STRANGER = 54_321
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")


@pytest.fixture
def data(killed_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed_directory / "data", tmp_path / "data"))


def opened(data: Path) -> None:
    open_store(str(data), reserve_bytes=0).close()


def changed(data: Path, statement: str) -> None:
    """Change the database behind the service's back, and leave the write-ahead log."""
    database = apsw.Connection(str(data / "psoup.db"))
    register(database)
    database.execute(statement)
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    database.close()


# Of another process ---------------------------------------------------------------------------------------------


def held(data: Path) -> apsw.Connection:
    """Open the database as a service in another process does; its lock was removed."""
    database = apsw.Connection(str(data / "psoup.db"))
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    database.pragma("locking_mode", "EXCLUSIVE")
    database.pragma("user_version")
    return database


@pytest.mark.parametrize(
    "use",
    swept(
        [
            opened,
            lambda data: LookingStore(data).close(),
            lambda data: examine(data),
            lambda data: examine(data, repair=True, aside=True),
            lambda data: rotate(data),
            lambda data: restore(data, data.parent / "copy"),
        ],
        fast=2,
    ),
    ids=["serve", "replay", "doctor", "repair", "rotate", "restore"],
)
def test_a_directory_whose_lock_was_removed_is_still_in_use(data: Path, use: Callable[[Path], object]) -> None:
    running = held(data)
    before = (data / "note-sync-keys").exists()
    for _ in range(2):
        with pytest.raises(InvalidInput, match="is in use: another process has its database open") as refused:
            use(data)
        assert refused.value.reason == "DATA_DIR_IN_USE"
    running.close()
    assert (data / "note-sync-keys").exists() == before
    assert examine(data).well


def test_the_doctor_says_that_it_could_not_look(data: Path) -> None:
    store = DurableStore(data, reserve_bytes=0)
    (data / "lock").unlink()
    said = CliRunner().invoke(app, ["doctor", str(data)])
    assert (said.exit_code, "damage" in said.output, "is in use" in said.stderr) == (2, False, True)
    store.close()


# Of a newer version ---------------------------------------------------------------------------------------------


@pytest.fixture
def newer(data: Path) -> Path:
    changed(data, f"UPDATE meta SET value = '{FORMAT + 1}' WHERE name = 'format'")
    return data


def test_a_newer_format_is_not_damage(newer: Path, tmp_path: Path) -> None:
    for use in (examine, opened, lambda path: restore(path, tmp_path / "copy")):
        with pytest.raises(InvalidInput, match=f"reads .*{FORMAT}: a newer version of PSoup wrote it") as refused:
            use(newer)
        assert refused.value.reason == "UNKNOWN_FORMAT"
    said = CliRunner().invoke(app, ["doctor", str(newer)])
    assert (said.exit_code, "damage" in said.output, "a newer version" in said.stderr) == (2, False, True)


def test_a_number_that_was_flipped_is_damage(newer: Path) -> None:
    changed(newer, "UPDATE meta SET checksum = checksum + 1 WHERE name = 'format'")
    assert [finding.place for finding in examine(newer).wrong] == ["psoup.db"]
    with pytest.raises(Internal, match=f"its format, {FORMAT + 1}, has changed since it was written"):
        opened(newer)


# Of another user ------------------------------------------------------------------------------------------------


def test_the_audit_log_belongs_to_the_data(data: Path) -> None:
    (data / "audit.jsonl").write_text("{}\n")
    assert examine(data).findings == []


@pytest.mark.parametrize("euid", [0, STRANGER])
@pytest.mark.parametrize("content", [True, False])
def test_a_directory_of_another_user_is_refused_at_a_start(
    data: Path, euid: int, content: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = data if content else data.parent / "empty"
    directory.mkdir(exist_ok=True)
    stat = os.stat

    def owned(path: object, **options: bool) -> os.stat_result:
        facts = stat(path, **options)  # type: ignore[call-overload]
        return os.stat_result((*facts[:4], STRANGER + 1, *facts[5:]))

    monkeypatch.setattr("os.geteuid", lambda: euid)
    monkeypatch.setattr("os.stat", owned)
    before = sorted(directory.rglob("*"))
    with pytest.raises(InvalidInput) as refused:
        opened(directory)
    assert f"{directory} belongs to user {STRANGER + 1}, and this process runs as user" in str(refused.value)
    assert f"chown -R {euid} {directory}), or name one that is not there yet" in str(refused.value)
    kernel_cache.choose(str(directory))
    assert sorted(directory.rglob("*")) == before


@ROOT_ONLY
@pytest.mark.parametrize("name", ["psoup.db", "chunks", "lock", "note-evaluating"])
def test_an_entry_of_another_user_is_refused(data: Path, name: str) -> None:
    (data / "note-evaluating").write_text("x\n")
    (data / "lock").touch()
    os.chown(data / name, STRANGER, -1)
    with pytest.raises(InvalidInput, match=rf"{name} in the data directory .* belongs to user {STRANGER}"):
        opened(data)


@ROOT_ONLY
def test_jobs_of_another_user_may_write_into_incoming(data: Path) -> None:
    (data / "incoming").mkdir()
    os.chown(data / "incoming", STRANGER, STRANGER)
    opened(data)


@ROOT_ONLY
def test_root_looks_at_the_directory_of_another_user_and_leaves_him_the_files(data: Path) -> None:
    for path in (data, *data.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    (data / "lock").unlink(missing_ok=True)
    assert examine(data).well
    notes = Notes(data)
    notes.write("sync-keys", "1:00")
    notes.close()
    assert {path.stat().st_uid for path in data.rglob("*")} == {STRANGER}


def test_a_link_in_the_place_of_the_lock_is_not_followed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (data / "lock").unlink(missing_ok=True)
    (data / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InvalidInput, match="cannot be used"):
        DataDirectory(data)
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_directory_that_is_not_there_yet_belongs_to_its_maker(tmp_path: Path) -> None:
    opened(tmp_path / "new")
    assert (tmp_path / "new").stat().st_uid == os.geteuid()
