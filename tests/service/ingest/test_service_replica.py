"""A service whose machine is lost: its copy has what it had, also after kill -9."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from unittest.mock import patch

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.model import SECOND
from psoup.sql import create_stream
from psoup_cli.app import app
from psoup_client import Client, NotFound
from psoup_service.process.clock import wall_time
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore, ReplicatedStore, Replication
from psoup_storage.replica import event_queue, replicated_store, uploader
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.objects import object_name
from psoup_storage.replica.report import spans
from psoup_storage.replica.restore import Wanted, restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.attachments import write
from psoup_testing.engines.copy_target import BEFORE, FailingTarget, copied
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    environ = {"PSOUP_TEST_CHUNK_ROWS": "64", "PSOUP_REPLICATE": str(tmp_path / "copy")}
    with Zygote(**environ) as made:
        yield made


def wait_for_copy(copy: Path, sequence: int) -> None:
    target, looked = DirectoryTarget(copy), Event()
    for _ in range(600):
        number = last_number(target)
        if number and read_object(target, number).facts["reach"] >= sequence:
            return
        looked.wait(0.05)
    raise TimeoutError


@pytest.mark.long
def test_a_service_comes_back_from_its_copy(zygote: Zygote, tmp_path: Path) -> None:
    zygote.start(str(tmp_path / "data"))
    with Client(zygote.ready(), timeout=60) as client:
        client.create_stream("CREATE STREAM s (n BIGINT, part BIGINT)")
        query = client.register("SELECT n, part, _id FROM s BEGIN (START)", key="all")
        wait_for_copy(tmp_path / "copy", 2)
        with client.producer("s", name="p") as producer:
            for number in range(100):
                producer.push(pa.table({"n": [number] * 3, "part": [0, 1, 2]}))
        answer = query.invoke().to_arrow()
    zygote.kill()
    zygote.start(str(tmp_path / "data"))  # what the killed one had not copied leaves with a base image
    with Client(zygote.ready(), timeout=60) as client:
        sequence = client.info().sequence
    wait_for_copy(tmp_path / "copy", sequence)
    zygote.kill()
    shutil.rmtree(tmp_path / "data")
    result = CliRunner().invoke(app, ["restore", str(tmp_path / "copy"), str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert f"everything up to event {sequence:,}." in result.output
    copied = shutil.move(tmp_path / "copy", tmp_path / "copy of the lost machine")
    zygote.start(str(tmp_path / "new"))
    with Client(zygote.ready(), timeout=60) as client:
        assert client.info().sequence == sequence
        assert client.query(key="all").invoke().to_arrow().equals(answer)
        with pytest.raises(NotFound, match="from before a backup was restored"):
            client.query(query.id).invoke()
    assert zygote.stop() == 0
    early = ["restore", str(copied), str(tmp_path / "early"), "--sequence", "2"]
    result = CliRunner().invoke(app, early)
    assert result.exit_code == 0, result.output
    assert "everything up to event 2." in result.output


def test_commands_say_what_they_cannot_restore(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    again = ["restore", str(tmp_path / "backup"), str(tmp_path / "new")]
    result = CliRunner().invoke(app, again)
    assert result.exit_code == 2 and "neither a backup (psoup backup) nor a copy" in result.output
    (tmp_path / "backup" / "psoup.db").touch()
    result = CliRunner().invoke(app, [*again, "--sequence", "3"])
    assert result.exit_code != 0 and "is a backup, which has one moment" in result.output
    result = CliRunner().invoke(app, ["restore", "ftp://host/copy", str(tmp_path / "new")])
    assert result.exit_code != 0 and "in object storage at s3://, gs://, az://" in result.output
    (tmp_path / "backup" / "psoup-copy").write_text("{}")
    result = CliRunner().invoke(app, ["restore", str(tmp_path / "backup"), str(tmp_path / "new"), "--at", "soon"])
    assert result.exit_code == 2 and "'soon' is not a time" in result.output
    result = CliRunner().invoke(app, [*again, "--at", "2026-11-30", "--sequence", "3"])
    assert result.exit_code == 2 and "exclude each other" in result.output


def test_no_service_is_copied_unless_a_setting_says_so() -> None:
    assert Settings().replicate == ""


def test_the_operator_sees_a_copy_that_is_behind(tmp_path: Path) -> None:
    away = [False]
    target = FailingTarget(tmp_path / "copy", lambda operation, name: BEFORE if away[0] else "")
    with copied(tmp_path / "data", target):
        pass  # afterwards no base image is due, which would take a number
    with (
        patch.object(replicated_store, "open_target", lambda place: target),
        patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01),
        patch.object(event_queue, "SEGMENT_S", 0.001),
    ):
        store = ReplicatedStore(tmp_path / "data", Replication("", 2**20, 3_600, wall_time))
        with serving(store=store) as running, Client(running.address) as client:
            regular = running.service.regular
            client.create_stream("CREATE STREAM s (x BIGINT)")
            running.wait_until(lambda: regular.figures()["copy_objects"] > 1 and not store.uploader.lag()[0])
            away[0] = True
            client.create_stream("CREATE STREAM t (x BIGINT)")
            running.wait_until(lambda: "cannot be reached" in running.service._notices())
            figures = regular.figures()
            assert figures["copy_lag_events"] > 0 == figures["copy_stopped"]
            away[0] = False
            running.wait_until(lambda: not store.uploader.lag()[0] and not running.service._notices())
            number = object_name(last_number(target) + 1)
            (tmp_path / "copy" / number).write_bytes(b"of another writer")
            client.create_stream("CREATE STREAM u (x BIGINT)")
            running.wait_until(lambda: "events are not copied any more" in running.service._notices())
            assert regular.figures()["copy_stopped"] == 1
            assert len(client.streams()) == 3


@pytest.mark.long
def test_attached_history_is_in_the_next_base_image(tmp_path: Path) -> None:
    store = ReplicatedStore(tmp_path / "data", Replication(str(tmp_path / "copy"), 2**30, 3_600, wall_time))
    with (
        patch.object(event_queue, "SEGMENT_S", 0.001),
        serving(store=store) as running,
        Client(running.address) as client,
    ):
        client.create_stream("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t")
        query = client.register("SELECT x FROM s BEGIN (START)")
        client.push("s", history(100, 110))
        before, early = store.sequence, query.invoke().to_arrow()
        wait_for_copy(tmp_path / "copy", before)
        site = client.begin_attach("s", "years")
        times = [n * SECOND for n in range(50, 100)]
        job = Path(site.folder) / "years"
        write(job, create_stream(site.statement), history(50, 100), times, range(0, 50, 20))
        client.attach(site, "years")
        attached = store.sequence
        client.push("s", history(110, 120))
        late = query.invoke().to_arrow()
    copy = str(tmp_path / "copy")
    for sequence, answer in ((before, early), (None, late)):
        path = tmp_path / f"at {sequence}"
        wanted = Wanted() if sequence is None else Wanted(sequence=sequence)
        assert restore_copy(copy, path, wanted).sequence == (sequence or store.sequence)
        with serving(store=DurableStore(path)) as running, Client(running.address) as client:
            assert client.queries()[0].invoke().to_arrow().equals(answer)
    listed = spans(DirectoryTarget(copy))
    assert listed[-1].first >= attached and listed[-1].last == store.sequence


def history(first: int, stop: int) -> pa.Table:
    times = pa.array([n * SECOND for n in range(first, stop)], pa.timestamp("us", "UTC"))
    return pa.table({"t": times, "x": range(first, stop)})
