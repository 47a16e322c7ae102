"""A backup of a running service: a prefix of what was acknowledged, restorable, with IDs of its own."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.errors import Internal, InvalidInput, ResourceExhausted
from psoup_cli.app import app
from psoup_client import Client, FailedPrecondition, InvalidData, NotFound
from psoup_client.calls.backup import Receiver
from psoup_proto.v1 import backup_pb2
from psoup_storage import DurableStore
from psoup_storage.durable.directory import DataDirectory
from psoup_storage.durable.tools.backup import restore
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SEED


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote(PSOUP_TEST_CHUNK_ROWS="64") as made:
        yield made


class Pusher:
    """Pushes batch 0, 1, 2 … of three rows each, in a thread, until told to stop."""

    def __init__(self, address: str) -> None:
        self.stop, self.told = threading.Event(), threading.Condition()
        self._client = Client(address, timeout=60)
        self._producer = self._client.producer("s", name="p", window_batches=4, on_reply=lambda _: self._tell())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        return self._producer.acknowledged

    def reach(self, enough: Callable[[], bool]) -> None:
        """Push until it is; asked after each acknowledgement."""
        with self.told:
            assert self.told.wait_for(enough, 60)

    def end(self) -> int:
        self.stop.set()
        self._thread.join()
        self._client.close()
        return self.acknowledged

    def _tell(self) -> None:
        with self.told:
            self.told.notify_all()

    def _run(self) -> None:
        number = 0
        with self._producer:
            while not self.stop.is_set():
                number = self._producer.push(pa.table({"n": [number] * 3, "part": [0, 1, 2]}))


@pytest.mark.long
def test_a_backup_under_load_is_a_prefix_and_is_restored_exactly(zygote: Zygote, tmp_path: Path) -> None:
    zygote.start(str(tmp_path / "data"))
    address = zygote.ready()
    with Client(address, timeout=60) as client:
        client.create_stream("CREATE STREAM s (n BIGINT, part BIGINT)")
        query = client.register("SELECT n, part, _id FROM s BEGIN (START)")
        watched = [client.register(f"SELECT n FROM s WHERE n % 7 = {k}") for k in range(7)]
        client.unregister(watched[3].id)
        pusher = Pusher(address)
        pusher.reach(lambda: len(list((tmp_path / "data" / "chunks").glob("*"))) > 4)
        results, bounds = [], []
        for number in range(2):
            before = pusher.acknowledged
            results.append(client.backup(tmp_path / f"backup-{number}"))
            bounds.append((before, pusher.acknowledged))
            pusher.reach(lambda: pusher.acknowledged >= bounds[-1][1] + 90)
        pusher.end()
        left = sorted(path.name for path in (tmp_path / "data").glob("backup-*"))
    assert zygote.stop() == 0
    assert [result.sequence for result in results] == sorted(result.sequence for result in results)
    assert left == [], "the copy on the service's disk stays"
    for number, (least, _) in enumerate(bounds):
        report = examine(tmp_path / f"backup-{number}")
        assert report.well and report.figures["chunks"] > 3
        assert restore(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}") == results[number].sequence
        zygote.start(str(tmp_path / f"restored-{number}"))
        with Client(zygote.ready(), timeout=60) as client:
            assert client.info().incarnation != results[number].incarnation
            with pytest.raises(NotFound, match="from before a backup was restored"):
                client.query(query.id).invoke()
            found = client.queries()
            assert len(found) == 7
            rows = found[0].invoke().to_arrow().to_pylist()
            batches = len(rows) // 3
            assert rows == [{"n": i // 3, "part": i % 3, "_id": i} for i in range(3 * batches)]
            assert batches >= least, "what was acknowledged before the backup is not in it"
            with client.producer("s", name="p") as producer:  # a producer that starts again from 0 doubles nothing
                producer.push(pa.table({"n": [0] * 3, "part": [0, 1, 2]}))
        assert zygote.stop() == 0


def test_a_restored_directory_keeps_its_new_incarnation(tmp_path: Path) -> None:
    store = DurableStore(tmp_path / "data")
    old = store.incarnation
    store.close()
    restore(tmp_path / "data", tmp_path / "one")
    restore(tmp_path / "data", tmp_path / "two")
    found = []
    for name in ("one", "two", "one", "data"):
        store = DurableStore(tmp_path / name)
        found.append(store.incarnation)
        store.close()
    assert found[0] == found[2] and found[3] == old
    assert len(set(found)) == 3


def test_what_changes_at_a_restore_and_what_stays(tmp_path: Path) -> None:
    sql = "SELECT x, _id FROM s WHERE x > 1"
    with serving(store=DurableStore(tmp_path / "data")) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        keyed = client.register(sql, key="large", labels={"user": "u1"})
        asked = client.register(sql, request_id="nightly")
        with client.producer("s", name="p", epoch=3) as producer:
            producer.push({"x": [1, 2, 3]})
        position, rows, last = client.position("s", "p"), keyed.invoke().rows(), client.last_sequence
    restore(tmp_path / "data", tmp_path / "restored")
    with serving(store=DurableStore(tmp_path / "restored")) as service, Client(service.address) as client:
        with pytest.raises(NotFound, match="another"):
            client.query(keyed.id)
        found = client.query(key="large")
        assert (found.id != keyed.id, found.id.split("-")[2]) == (True, keyed.id.split("-")[2])
        assert (found.info.labels, found.info.sql) == ({"user": "u1"}, sql)
        assert found.invoke().rows() == rows == [(2, 1), (3, 2)]
        again = client.register(sql, request_id="nightly")
        assert (again.id.split("-")[2], len(client.queries("s"))) == (asked.id.split("-")[2], 2)
        assert (client.position("s", "p"), client.info().sequence) == (position, last)


def test_restore_refuses_what_would_do_harm(tmp_path: Path) -> None:
    store = DurableStore(tmp_path / "data")
    with pytest.raises(InvalidInput, match="in use"):
        restore(tmp_path / "data", tmp_path / "copy")
    store.close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("")
    with pytest.raises(InvalidInput, match="mine is not empty"):
        restore(tmp_path / "data", tmp_path / "mine")
    content = bytearray((tmp_path / "data" / "psoup.db").read_bytes())
    content[100] ^= 1  # what kind of page the first one is
    (tmp_path / "data" / "psoup.db").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"data is damaged: psoup\.db"):
        restore(tmp_path / "data", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_restore_takes_the_names_of_a_backup_and_no_links(killed_directory: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(killed_directory / "data", tmp_path / "data"))
    before = {"psoup.db", "chunks", *(path.name for path in (data / "chunks").iterdir())}
    for name in ("psoup.db-journal", "chunks/1-0.parquet.new", "chunks/evil.parquet", "evil"):
        (data / name).write_bytes(b"x")
    restore(data, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").rglob("*")} == before
    (tmp_path / "secret").write_bytes(b"a secret")
    (data / "chunks" / "1-0.parquet.matches").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidInput, match=r"matches is a link, not a file of a backup"):
        restore(data, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_backup_that_cannot_be_made_harms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DurableStore(tmp_path / "data")

    def full(*_: object) -> None:
        raise apsw.FullError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(type(store._database), "copy", full)
        with pytest.raises(Internal, match="the backup could not be made: no room") as refused:
            store.freeze()
        assert refused.value.reason == "BACKUP_FAILED"
        patched.setattr(DataDirectory, "free_bytes", lambda _: 70_000_000)
        with pytest.raises(ResourceExhausted, match="is full"):
            DurableStore(tmp_path / "other", reserve_bytes=80_000_000).freeze()
    with monkeypatch.context() as patched:
        patched.setattr(DataDirectory, "make_file", lambda _, path: os.listdir(path / "none"))
        with pytest.raises(Internal, match=r"could not be made: No such file or directory$"):
            store.freeze()
        patched.setattr(DataDirectory, "free_bytes", lambda _: 0)
        store.room.look_again()
        with pytest.raises(ResourceExhausted, match=r"^the disk of data is full"):
            store.check_room(1)
    (tmp_path / "data" / "backup-0badcafe").mkdir()
    frozen = store.freeze()
    assert [name for name, _ in frozen.files] == ["psoup.db"]
    frozen.close()
    frozen.close()
    store.close()
    assert [f.severity for f in examine(tmp_path / "data").findings] == ["leftover"]
    DurableStore(tmp_path / "data").close()
    assert examine(tmp_path / "data").findings == []


def test_a_file_system_without_links_gets_copies(
    killed_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree(killed_directory / "data", tmp_path / "data")
    store = DurableStore(path)

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    frozen = store.freeze()
    chunks = [name for name, _ in frozen.files if name.startswith("chunks/")]
    assert len(chunks) == 21
    assert all(b"".join(frozen.read(name)) == (path / name).read_bytes() for name in chunks)
    frozen.close()
    store.close()


def test_a_service_in_memory_has_nothing_to_copy(tmp_path: Path) -> None:
    serving = Serving()
    try:
        with Client(serving.address) as client, pytest.raises(FailedPrecondition, match="in memory only"):
            client.backup(tmp_path / "b")
        said = CliRunner().invoke(app, ["backup", str(tmp_path / "c"), "--address", serving.address])
        assert said.exit_code == 5
    finally:
        serving.stop()


def test_the_receiver_takes_only_what_fits(tmp_path: Path) -> None:
    def receiver() -> Receiver:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        made = Receiver(folder, lambda name, done, total: None)
        made.take(backup_pb2.BackupResponse(plan=backup_pb2.BackupPlan(files=1, bytes=3)))
        return made

    def begin(made: Receiver, name: str, size: int) -> None:
        made.take(backup_pb2.BackupResponse(file=backup_pb2.BackupFile(name=name, bytes=size)))

    made = receiver()
    begin(made, "psoup.db", 2)
    with pytest.raises(InvalidData, match=r"more of 'psoup\.db'"):
        made.take(backup_pb2.BackupResponse(content=b"xyz"))
    made = receiver()
    begin(made, "psoup.db", 3)
    with pytest.raises(InvalidData, match=r"3 bytes of 'psoup\.db' are missing"):
        made.end()
    with pytest.raises(InvalidData, match="0 of 1 file and"):
        receiver().end()


@pytest.mark.long
def test_the_commands_go_there_and_back(zygote: Zygote, tmp_path: Path) -> None:
    runner = CliRunner()
    zygote.start(str(tmp_path / "data"))
    address = zygote.ready()
    with Client(address, timeout=60) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        client.push("s", {"x": list(range(500 + SEED % 7))})
    said = runner.invoke(app, ["backup", str(tmp_path / "b"), "--address", address])
    assert said.exit_code == 0, said.output
    assert "everything up to event 2" in said.stderr
    again = runner.invoke(app, ["backup", str(tmp_path / "b"), "--address", address])
    assert again.exit_code == 1 and "is there already" in again.stderr
    assert zygote.stop() == 0
    said = runner.invoke(app, ["restore", str(tmp_path / "b"), str(tmp_path / "r")])
    assert said.exit_code == 0 and "everything up to event 2. Queries have new IDs from the next start" in said.stderr
    assert runner.invoke(app, ["restore", str(tmp_path / "b"), str(tmp_path / "r")]).exit_code == 2
    assert runner.invoke(app, ["doctor", str(tmp_path / "r")]).exit_code == 0
