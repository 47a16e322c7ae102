"""A service whose acknowledgements wait for the copy (`replicate_ack` = remote)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.errors import InvalidInput
from psoup_client import Client, Unavailable
from psoup_client.payload import one_message
from psoup_proto.v1 import ingest_pb2
from psoup_service import main
from psoup_service.host.line import LARGE_BYTES
from psoup_service.process.clock import wall_time
from psoup_service.process.settings_sources import load
from psoup_storage import ReplicatedStore, Replication
from psoup_storage.replica import replicated_store, uploader
from psoup_storage.replica.chain import last_number
from psoup_storage.replica.restore import restore_copy
from psoup_testing.engines.copy_target import BEFORE, FailingTarget
from psoup_testing.services.copied_service import copied_service
from psoup_testing.services.threaded_service import Serving

PUSHES = 20


def test_acknowledgements_wait_for_the_copy(tmp_path: Path) -> None:
    with copied_service(tmp_path, remote=True) as copied, ThreadPoolExecutor(PUSHES) as pool:
        client, host, target = copied.client, copied.running.service.host, copied.target
        client.create_stream("CREATE STREAM s (x BIGINT)")
        query = client.register("SELECT x FROM s BEGIN (START)")
        assert restore_copy(target, tmp_path / "early").sequence == copied.store.sequence == 2
        copied.running.wait_until(lambda: host.applied == 2)
        copied.away = True
        pushing = [pool.submit(pushed, copied.running.address, value) for value in range(PUSHES)]
        copied.running.wait_until(lambda: bool(copied.store.uploader.trouble))
        copied.running.wait_until(lambda: host.counters()["pending_commands"] == PUSHES)
        copied.running.wait_until(lambda: copied.store.sequence > 2)
        assert host.applied == 2, "it is on the disk, and not shown"
        assert not any(push.done() for push in pushing) and client.info().acknowledged == 2
        before, copied.away = last_number(target), False
        last = max(push.result(300) for push in pushing)
        assert last_number(target) - before <= PUSHES // 2, "one upload is for many events"
        client.wait_for(last)
        assert sorted(query.invoke().to_arrow()["x"].to_pylist()) == list(range(PUSHES))
        assert restore_copy(target, tmp_path / "late").sequence == last


def test_no_command_waits_for_a_copy_that_is_too_far_behind(tmp_path: Path) -> None:
    with copied_service(tmp_path, remote=True) as copied, ThreadPoolExecutor(3) as pool:
        client, running = copied.client, copied.running
        client.create_stream("CREATE STREAM s (x BIGINT, t TEXT)")
        copied.away = True
        first = pool.submit(pushed, running.address, 1)
        running.wait_until(lambda: copied.store.sequence == 2)
        small, large = pa.table({"x": [2]}), pa.table({"x": [3], "t": ["x" * LARGE_BYTES]})
        waiting = [pool.submit(plain_push, client, rows) for rows in (small, large)]
        running.wait_until(lambda: running.service.host.counters()["pending_commands"] == 3)
        assert not first.done() and not any(push.done() for push in waiting)
        copied.store.copy_gate.most_s = 0.0
        with pytest.raises(Unavailable, match="nothing is acknowledged"):
            waiting[0].result(300)
        for rows in (small, large):
            with pytest.raises(Unavailable, match="nothing is acknowledged"):
                plain_push(client, rows)
        with pytest.raises(Unavailable, match="nothing is acknowledged"):
            client.create_stream("CREATE STREAM t (x BIGINT)")
        assert not first.done()
        copied.away = False
        assert first.result(300) == 2
        plain_push(client, small)


def plain_push(client: Client, rows: pa.Table) -> None:
    """Push rows without a producer, as a client of another language does."""
    payload = one_message(rows, "")
    assert payload is not None
    request = ingest_pb2.PushRequest(stream="s", arrow_ipc=payload.data)
    client.connection.call(client.connection.ingest.Push, request)


def pushed(address: str, value: int) -> int:
    """Push a row by a client of its own. Returns the sequence of its event."""
    with Client(address, timeout=300) as client:
        return client.push("s", pa.table({"x": [value]})).sequence


def test_a_start_waits_until_the_copy_has_all_events(tmp_path: Path) -> None:
    with copied_service(tmp_path) as copied:
        copied.client.create_stream("CREATE STREAM s (x BIGINT)")
        copied.wait_for_copy()
        copied.away = True
        copied.client.create_stream("CREATE STREAM t (x BIGINT)")
        with patch.object(uploader, "CLOSE_S", 0.0):
            copied.store.uploader.close()
    away, requested = [True], Event()

    def fails(operation: str, name: str) -> str:
        requested.set()
        return BEFORE if away[0] else ""

    target = FailingTarget(tmp_path / "copy", fails)
    with (
        patch.object(replicated_store, "open_target", lambda place: target),
        patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01),
        ThreadPoolExecutor(1) as pool,
    ):
        store = ReplicatedStore(tmp_path / "data", Replication("s3://bucket", 2**20, 3_600, wall_time, remote=True))
        assert store.sequence == 2
        starting = pool.submit(Serving, store=store)
        for _ in range(3):
            requested.clear()
            assert requested.wait(300)
        assert not starting.done()
        away[0] = False
        running = starting.result(300)
        assert restore_copy(target, tmp_path / "again").sequence == 2
        running.stop()


def test_a_directory_cannot_have_acknowledgements(tmp_path: Path) -> None:
    load_remote = {"PSOUP_REPLICATE": str(tmp_path / "copy"), "PSOUP_REPLICATE_ACK": "remote"}
    replication = main._replication(load(environ=load_remote).settings)
    assert replication is not None and replication.remote
    with pytest.raises(InvalidInput, match=r"needs object storage, and .* is a directory"):
        ReplicatedStore(tmp_path / "data", replication)
    assert not (tmp_path / "data").exists()
