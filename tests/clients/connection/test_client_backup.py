"""A backup from a service that is not trusted: only files with names of a backup are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw
import grpc
import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, InvalidData
from psoup_proto.file_names import backup_path
from psoup_proto.v1 import backup_pb2, backup_pb2_grpc
from psoup_storage import DurableStore
from psoup_storage.durable.sqlite.seals import register

CHUNK = "chunks/1-0.parquet"
FORMS = [
    "/etc/passwd",
    "//etc/cron.d/evil",
    "../evil",
    "chunks/../../evil",
    "chunks/../psoup.db",
    "chunks//1-0.parquet",
    "./psoup.db",
    "psoup.db/",
    "psoup.db\n",
    "psoup.db\0",
    "psoup.db-wal",
    "PSOUP.DB",
    "",
    ".",
    "/",
    "chunks",
    "chunks/",
    "chunks/.parquet",
    "chunks/1-0.parquet/x",
    "chunks/1-0.parquet.matches.matches",
    "chunks/1-0.parquet.new",
    "chunks/-1-0.parquet",
    "chunks/1-a51c2a7f-0.parquet",
    "chunks/\u0661-0.parquet",
    "folds/1.0.0.folds",
    "audit.jsonl",
    "psoup.toml",
    "lock",
]


class Impostor(backup_pb2_grpc.BackupServiceServicer):
    """Answers Backup with these messages."""

    def __init__(self) -> None:
        self.messages: list[backup_pb2.BackupResponse] = []

    def Backup(self, request: object, context: object) -> Iterator[backup_pb2.BackupResponse]:
        yield from self.messages


@contextmanager
def listening() -> Iterator[tuple[Impostor, str]]:
    impostor, server = Impostor(), grpc.server(ThreadPoolExecutor(2))
    backup_pb2_grpc.add_BackupServiceServicer_to_server(impostor, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield impostor, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture(scope="module")
def impostor() -> Iterator[tuple[Impostor, str]]:
    with listening() as found:
        yield found


def plan(files: int, size: int) -> backup_pb2.BackupResponse:
    return backup_pb2.BackupResponse(plan=backup_pb2.BackupPlan(files=files, bytes=size, sequence=1, incarnation="0"))


def file(name: str, size: int) -> backup_pb2.BackupResponse:
    return backup_pb2.BackupResponse(file=backup_pb2.BackupFile(name=name, bytes=size))


def content(raw: bytes) -> backup_pb2.BackupResponse:
    return backup_pb2.BackupResponse(content=raw)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", FORMS)
def test_a_name_that_no_backup_has_is_refused_by_name(
    name: str, impostor: tuple[Impostor, str], tmp_path: Path
) -> None:
    service, address = impostor
    outside = f"//{str(tmp_path).lstrip('/')}/elsewhere" if name.startswith("//") else name
    service.messages = [plan(1, 4), file(outside, 4), content(b"evil")]
    with Client(address) as client, pytest.raises(InvalidData) as caught:
        client.backup(tmp_path / "monday")
    assert f"a file named {outside!r}, which no backup has" in str(caught.value)
    assert everything(tmp_path) == []


def test_the_command_says_so(impostor: tuple[Impostor, str], tmp_path: Path) -> None:
    service, address = impostor
    service.messages = [plan(1, 4), file("../evil", 4), content(b"evil")]
    said = CliRunner().invoke(app, ["backup", str(tmp_path / "monday"), "--address", address])
    assert (said.exit_code, "a file named '../evil', which no backup has" in said.stderr) == (1, True)
    assert everything(tmp_path) == []


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([plan(2, 8), file("psoup.db", 4), content(b"psou"), file(CHUNK, 5)], "more than the 8 bytes of its plan"),
        ([plan(2, 8), file("psoup.db", -4)], "a file of -4 bytes"),
        ([plan(2, 8), file("psoup.db", 2**62)], "more than the 8 bytes of its plan"),
        ([plan(2, 8), file("psoup.db", 4), content(b"psoup")], "more of 'psoup.db' than it said"),
        ([plan(2, 8), file("psoup.db", 4), content(b"pso"), file(CHUNK, 4)], "1 byte of 'psoup.db' is missing"),
        (
            [plan(2, 8), file("psoup.db", 4), content(b"psou"), file("psoup.db", 4), content(b"psou")],
            "'psoup.db' twice",
        ),
        ([plan(1, 4), file("psoup.db", 4), content(b"psou"), file(CHUNK, 0)], "more than the 1 file of its plan"),
        ([plan(1, 4), file(CHUNK, 4), content(b"psou")], "without psoup.db"),
        ([plan(-1, 4), file("psoup.db", 4)], "a plan of -1 files"),
        ([plan(1, -4), file("psoup.db", 4)], "-4 bytes"),
        ([plan(1, 2**62), file("psoup.db", 2**62)], "has room for"),
        ([file("psoup.db", 4), content(b"psou")], "before its plan"),
        ([content(b"psou")], "before its plan"),
        ([plan(1, 4), content(b"psou")], "content of no file"),
        ([plan(1, 4), plan(1, 4), file("psoup.db", 4)], "a second plan"),
        ([plan(1, 4), backup_pb2.BackupResponse()], "an empty message"),
        ([plan(1, 4)], "0 of 1 file"),
        ([], "no plan"),
    ],
)
def test_sizes_that_do_not_fit_the_plan_are_refused(
    messages: list[backup_pb2.BackupResponse], said: str, impostor: tuple[Impostor, str], tmp_path: Path
) -> None:
    service, address = impostor
    service.messages = messages
    with Client(address) as client, pytest.raises(InvalidData) as caught:
        client.backup(tmp_path / "monday")
    assert said in str(caught.value)
    assert everything(tmp_path) == []


def test_a_link_in_the_place_of_the_new_folder_is_not_followed(impostor: tuple[Impostor, str], tmp_path: Path) -> None:
    service, address = impostor
    service.messages = [plan(1, 4), file("psoup.db", 4), content(b"psou")]
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "monday.part")
    with Client(address) as client, pytest.raises(OSError, match=r"monday\.part"):
        client.backup(tmp_path / "monday")
    assert everything(tmp_path) == ["elsewhere", "monday.part"]


def test_a_folder_that_was_replaced_by_a_link_is_not_followed(impostor: tuple[Impostor, str], tmp_path: Path) -> None:
    service, address = impostor
    (tmp_path / "elsewhere").mkdir()
    service.messages = [plan(2, 8), file("psoup.db", 4), content(b"psou"), file(CHUNK, 4), content(b"evil")]

    def replace(name: str, done: int, total: int) -> None:
        if name == "psoup.db":
            os.symlink(tmp_path / "elsewhere", tmp_path / "monday.part" / "chunks")

    with Client(address) as client, pytest.raises(OSError, match="chunks"):
        client.backup(tmp_path / "monday", progress=replace)
    assert everything(tmp_path / "elsewhere") == []


def test_a_backup_has_these_names_and_its_owner_alone_may_read_them(
    impostor: tuple[Impostor, str], tmp_path: Path
) -> None:
    service, address = impostor
    names = ["psoup.db", CHUNK, f"{CHUNK}.matches", "chunks/12-a51c2a7f0-3.parquet"]
    service.messages = [plan(4, 16)]
    for name in names:
        service.messages += [file(name, 4), content(b"ab"), content(b"cd")]
    with Client(address) as client:
        result = client.backup(tmp_path / "monday")
    assert (result.files, result.bytes) == (4, 16)
    assert everything(tmp_path / "monday") == sorted([*names, "chunks"])
    assert all((tmp_path / "monday" / name).read_bytes() == b"abcd" for name in names)
    modes = {name: (tmp_path / "monday" / name).stat().st_mode & 0o777 for name in ["", "chunks", *names]}
    assert set(modes.values()) == {0o700, 0o600}


def test_a_copy_of_a_newer_service_is_there_and_could_not_be_examined(
    impostor: tuple[Impostor, str], tmp_path: Path
) -> None:
    service, address = impostor
    DurableStore(tmp_path / "data").close()
    database = apsw.Connection(str(tmp_path / "data" / "psoup.db"))
    register(database)
    database.execute("UPDATE meta SET value = '99' WHERE name = 'format'")
    database.pragma("wal_checkpoint(truncate)")
    database.close()
    raw = (tmp_path / "data" / "psoup.db").read_bytes()
    service.messages = [plan(1, len(raw)), file("psoup.db", len(raw)), content(raw)]
    said = CliRunner().invoke(app, ["backup", str(tmp_path / "monday"), "--address", address])
    assert (said.exit_code, "a newer version of PSoup wrote it" in said.stderr) == (2, True), said.output
    assert (tmp_path / "monday" / "psoup.db").read_bytes() == raw


def test_no_name_that_is_taken_leaves_the_folder() -> None:
    assert backup_path("psoup.db") == ("psoup.db",)
    assert backup_path(CHUNK) == ("chunks", "1-0.parquet")
    assert not any(map(backup_path, FORMS))
