"""Kill -9 of a writer and of a standby at each step of their work with the copy: the next start goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event
from unittest.mock import patch

import pytest

from psoup_client import Client, ClientOptions, RetryOptions
from psoup_client.errors import PSoupError
from psoup_service.process.clock import wall_time
from psoup_storage import ReplicatedStore, Replication
from psoup_storage.replica import event_queue, uploader
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.report import verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import values_in
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import places

pytestmark = pytest.mark.long
ONCE = ClientOptions(retry=RetryOptions(attempts=1, restart_seconds=0))
WRITER_STEPS, STANDBY_STEPS = 40, 60


def push_until_it_dies(zygote: Zygote, address: str, numbers: Iterator[int]) -> list[int]:
    """Push numbers one by one until the service is killed. Returns those that it has acknowledged."""
    taken = list[int]()
    with Client(address, options=ONCE) as client, suppress(PSoupError):
        if not client.streams():
            client.create_stream("CREATE STREAM s (x BIGINT)")
        if not client.queries():
            client.register("SELECT x FROM s BEGIN (START)")
        for number in numbers:
            client.push("s", {"x": [number]})
            taken.append(number)
    return taken


def wait_for_copy(copy: Path, sequence: int) -> None:
    target, looked = DirectoryTarget(copy), Event()
    for _ in range(3_000):
        if read_object(target, last_number(target)).facts["reach"] >= sequence:
            return
        looked.wait(0.01)
    raise TimeoutError


def test_a_writer_that_is_killed_at_any_step_goes_on(tmp_path: Path) -> None:
    """After each of the kills the copy is sound. What it has is what was acknowledged first."""
    copy, numbers, taken = tmp_path / "copy", count(), list[int]()
    for step in places(WRITER_STEPS, 12):
        with Zygote(PSOUP_REPLICATE=str(copy), PSOUP_TEST_DEADLY_COPY=f"writer {step}") as zygote:
            zygote.start(str(tmp_path / "data"))
            if address := zygote.ready_or_dead():
                taken += push_until_it_dies(zygote, address, numbers)
                assert zygote.died() == signal.SIGKILL
        if (copy / "psoup-copy").exists() and last_number(DirectoryTarget(copy)):
            assert verify(DirectoryTarget(copy)).problems == []
    with Zygote(PSOUP_REPLICATE=str(copy)) as zygote:
        zygote.start(str(tmp_path / "data"))
        with Client(zygote.ready(), timeout=20) as client:
            sequence = client.push("s", {"x": [-1]}).sequence
            shown = [value for (value,) in client.queries()[0].invoke(wait_for=sequence).rows()]
        wait_for_copy(copy, sequence)
        assert zygote.stop() == 0
    assert [value for value in shown if value in set(taken)] == taken and shown[-1] == -1
    assert restore_copy(str(copy), tmp_path / "again").sequence == sequence
    assert values_in(tmp_path / "again") == shown and verify(DirectoryTarget(copy)).problems == []


def test_a_standby_that_is_killed_at_any_step_goes_on(tmp_path: Path) -> None:
    replication = Replication(str(tmp_path / "copy"), 2**24, 3_600, wall_time)
    with (
        patch.multiple(uploader, LOOK_S=0.01),
        patch.object(event_queue, "SEGMENT_S", 0.01),
        serving(store=(store := ReplicatedStore(tmp_path / "data", replication))) as running,
        Client(running.address) as writer,
    ):
        writer.create_stream("CREATE STREAM s (x BIGINT)")
        query = writer.register("SELECT x FROM s BEGIN (START)")
        running.wait_until(lambda: store.uploader.reach == store.sequence)
        for step in places(STANDBY_STEPS, 20):
            environ = {"PSOUP_STANDBY": str(tmp_path / "copy"), "PSOUP_TEST_DEADLY_COPY": f"standby {step}"}
            with Zygote(**environ) as zygote:
                zygote.start(str(tmp_path / "standby"))
                if zygote.ready_or_dead():
                    writer.push("s", {"x": [step]})
                    assert zygote.died() == signal.SIGKILL
        last = writer.push("s", {"x": [-1]}).sequence
        with Zygote(PSOUP_STANDBY=str(tmp_path / "copy")) as zygote:
            zygote.start(str(tmp_path / "standby"))
            with Client(zygote.ready(), timeout=20) as reader:
                rows = reader.query(query.id).invoke(wait_for=last).rows()
            assert rows == query.invoke(wait_for=last).rows()
            assert zygote.stop() == 0
