"""Files and databases of base images that are not as their manifest says are refused, in little memory."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.errors import Internal, ResourceExhausted
from psoup_cli.app import app
from psoup_storage import StandbyStore
from psoup_storage.replica import base_image, headers, targets
from psoup_storage.replica.chain import read_object
from psoup_storage.replica.objects import BASE, object_name
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import begin, copied, copy_at, push, restored_values, store_of
from psoup_testing.engines.hostile_copy import MIB, last_of, make_copy, refuse, refuse_in, rewrite


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_copy(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """The copy, to be changed."""
    return Path(shutil.copytree(sound, tmp_path / "copy"))


@pytest.mark.parametrize("name", ["../psoup.db", "/tmp/psoup.db", "chunks/../../x", "chunks/..", "lock", "", "a\x00b"])
def test_names_that_lead_elsewhere_are_refused(copy: Path, tmp_path: Path, name: str) -> None:
    number = last_of(copy, BASE)
    (database,) = read_object(DirectoryTarget(copy), number).facts["files"]
    rewrite(copy, number, files=[database, [name, *database[1:]]])
    refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: it names the file .*, which no backup has")
    assert not (tmp_path / "psoup.db").exists()


def test_a_list_of_files_is_whole(copy: Path, tmp_path: Path) -> None:
    number = last_of(copy, BASE)
    (database,) = read_object(DirectoryTarget(copy), number).facts["files"]
    for files in ([database, database], []):
        rewrite(copy, number, files=files)
        refuse_in(copy, tmp_path, f"{object_name(number)} is damaged: its files have a name twice, or there is no")
    rewrite(copy, number, files=[database] * 9)
    with patch.object(headers, "MOST_FILES", 8):
        refuse(copy, tmp_path, number, "no list of at most 8 files")


def with_database(copy: Path, database: bytes, number: int, **facts: Any) -> None:
    """Give a base image another database. `facts`: of its entry in the list of files."""
    packed = pa.compress(database, "zstd", asbytes=True) if facts.pop("zstd", True) else database
    entry = {"size": len(packed), "content": len(database)} | facts
    digest = hashlib.sha256(packed).hexdigest()
    (copy / "files" / digest).write_bytes(packed)
    rewrite(copy, number, files=[["psoup.db", digest, entry["size"], "zstd", entry["content"]]])


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"content": 5 * MIB}, "it has more than the 5,242,880 bytes that the manifest says"),
        ({"content": 65 * MIB}, "it has 67,108,864 bytes, and not the 68,157,440 that the manifest says"),
        ({"size": 9}, "it has more than 9 bytes, as no object of that name"),
        ({"zstd": False}, "it cannot be decompressed"),
    ],
)
def test_a_database_that_is_not_as_large_as_its_manifest_says_is_refused(
    copy: Path, tmp_path: Path, facts: dict[str, Any], why: str
) -> None:
    number, written = last_of(copy, BASE), list[int]()
    with_database(copy, bytes(64 * MIB), number, **facts)

    def pieces(target: targets.Target, file: base_image.ImageFile) -> Any:
        for piece in base_image.content_of(target, file):
            written.append(len(piece))
            yield piece

    with patch("psoup_storage.replica.restore.content_of", pieces):
        refuse_in(copy, tmp_path, f"{object_name(number)}.*psoup.db .* is missing,? or.*changed")
        with pytest.raises(Internal, match=why):
            restore_copy(str(copy), tmp_path / "restored")
    assert sum(written) <= 3 * facts.get("content", 0) and max(written, default=0) <= MIB


def test_a_copy_for_which_the_disk_has_no_room_is_refused_before_it_is_read(copy: Path, tmp_path: Path) -> None:
    number = last_of(copy, BASE)
    with_database(copy, b"", number, content=2**60)
    with pytest.raises(ResourceExhausted, match=f"the base image needs {2**60:,} bytes, and [0-9,]+ are free"):
        restore_copy(str(copy), tmp_path / "restored")
    with pytest.raises(ResourceExhausted, match="the base image needs"):
        StandbyStore(tmp_path / "standby", copy_at(copy))
    shown = CliRunner().invoke(app, ["restore", str(copy), str(tmp_path / "restored")])
    assert shown.exit_code == 2 and "the base image needs" in shown.output
    assert not (tmp_path / "restored").exists() and not (tmp_path / "standby").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("CREATE TRIGGER more AFTER INSERT ON log BEGIN DELETE FROM meta; END", "the definition of more is not"),
        ("DELETE FROM log WHERE sequence = 2", "its last event is 1, and the manifest says 2"),
        ("", "file is not a database"),
    ],
)
def test_another_database_is_refused(copy: Path, tmp_path: Path, change: str, why: str) -> None:
    restore_copy(str(copy), tmp_path / "first")
    number, path = last_of(copy, BASE), tmp_path / "first" / "psoup.db"
    if change:
        connection = apsw.Connection(str(path))
        connection.execute("DELETE FROM log WHERE sequence > 2")
        connection.execute(change)
        connection.close()
    with_database(copy, path.read_bytes() if change else os.urandom(9_000), number, sequence=2)
    rewrite(copy, number, sequence=2)
    text = f"{object_name(number)} is damaged: its file psoup.db cannot be used: .*{why}"
    for reader in (
        lambda: restore_copy(str(copy), tmp_path / "x"),
        lambda: StandbyStore(tmp_path / "y", copy_at(copy)),
    ):
        with pytest.raises(Internal, match=text):
            reader()
    assert not (tmp_path / "x").exists() and not (tmp_path / "y").exists()


def test_a_writer_makes_no_manifest_that_readers_would_refuse(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        with patch.object(base_image, "MOST_FILES", 0):
            begin(soup)
            frozen = soup.store.freeze()
            with pytest.raises(ResourceExhausted, match="it would have 1 files, and 0 are the most"):
                base_image.send_files(target, frozen, lambda: False)
            frozen.close()
        push(soup, 1)
    assert store_of(soup).uploader.failure == ""
    assert restored_values(target, tmp_path / "again") == [1]
