"""Whatever is killed during a backfill: nothing half is seen, it is run again, and each row is there once.

The driver and the service are killed by SIGKILL, as processes, in the long version; here the driver only loses what it
would lose (its lock and its duty to clean up), as a Java takes longer to start than all that is tested.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from psoup_client import Client, Conflict, Unavailable
from psoup_storage import DurableStore
from psoup_testing.crash import disks
from psoup_testing.oracles.questions import again
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.spark.session import needs_java
from psoup_testing.suite.budget import SCALE

pytestmark = [needs_java, pytest.mark.long]
POINTS = ("begun", "writing", "whole", "attached")


class Died(BaseException):
    """The driver is gone, and has cleaned nothing up."""


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a service that has a disk."""
    store = DurableStore(tmp_path_factory.mktemp("data") / "data", reserve_bytes=0)
    with serving(store=store) as service, Client(service.address, timeout=60) as client:
        yield client


def make(client: Client, stream: str) -> Any:
    """A stream with a query on it."""
    from psoup_testing.spark.spark_kills import DEFINITION, QUERY

    client.create_stream(f"CREATE STREAM {stream} {DEFINITION}")
    return client.register(QUERY.format(stream))


def check(client: Client, query: Any, stream: str) -> None:
    """All rows are there, once, with what the query matches in them, and nothing else is left."""
    from psoup_testing.spark.spark_kills import ROWS, expected

    client.wait_for(client.last_sequence)
    assert [row[0] for row in again(query.invoke).rows()] == expected()
    info = client.describe(stream)
    assert (info.tuples, info.first_tuple_id) == (ROWS, -ROWS)
    assert not os.listdir(client.begin_attach(stream, "another").folder)


def die() -> None:
    raise Died


@pytest.mark.parametrize("point", ["writing", "attached"])
def test_a_driver_that_dies_leaves_nothing_that_is_seen(
    spark: Any, durable: Client, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    from psoup_testing.spark.spark_kills import at_point, backfill

    query = make(durable, f"d{point}")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *args, **rest: None)
        with at_point(point, die), pytest.raises(Died):
            backfill(spark, durable.address, f"d{point}")
    assert len(list(query.invoke().rows())) == (1_000 if point == "attached" else 0)
    again = backfill(spark, durable.address, f"d{point}")
    assert again.duplicate == (point == "attached")
    check(durable, query, f"d{point}")


def test_a_worker_that_is_killed_is_replaced(spark: Any, durable: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from psoup_testing.spark import spark_kills

    query = make(durable, "worker")
    monkeypatch.setattr(sys.modules["psoup_spark.backfill"], "ChunkWriter", spark_kills.KilledWriter)
    done = spark_kills.backfill(spark, durable.address, "worker")
    assert (done.rows, done.duplicate) == (spark_kills.ROWS, False)
    check(durable, query, "worker")


def test_runs_of_one_name_do_not_disturb_each_other(
    spark: Any, durable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is refused; where a file system knows no locks it is attached once, by whichever ends first."""
    from psoup_testing.spark.spark_kills import at_point, backfill

    query = make(durable, "twice")

    def refused() -> None:
        with pytest.raises(Conflict, match=f"job 'killed' of stream 'twice' is .* by process {os.getpid()} on"):
            backfill(spark, durable.address, "twice")

    with at_point("begun", refused), at_point("attached", die), pytest.raises(Died):
        backfill(spark, durable.address, "twice")
    check(durable, query, "twice")

    def no_locks(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    query, results = make(durable, "unlocked"), []
    with at_point("whole", lambda: results.append(backfill(spark, durable.address, "unlocked"))):
        results.append(backfill(spark, durable.address, "unlocked"))
    assert [result.rows for result in results] == [3_000, 3_000]
    for lock in Path(durable.begin_attach("unlocked", "another").folder).glob("*.lock"):
        lock.unlink()
    check(durable, query, "unlocked")


def survive(spark: Any, zygote: Zygote, data: str, address: str, stream: str, point: str, pause: float = 0.0) -> None:
    """A backfill during which the service is killed: at the point, or so many seconds after it; then it comes back."""
    from psoup_testing.spark.spark_kills import at_point, backfill

    def kill() -> None:
        assert zygote.kill() == 9
        zygote.start(data, int(address.rpartition(":")[2]))

    def act() -> None:
        if pause:
            timer.start()
        else:
            kill()

    timer = threading.Timer(pause, kill)
    with at_point(point, act):
        done = backfill(spark, address, stream, patience=60.0)
    if pause:
        timer.join()
    assert (done.rows, done.duplicate) == (3_000, False)
    assert zygote.ready() == address


def test_a_service_that_is_killed_is_waited_for(spark: Any, tmp_path: Path) -> None:
    from psoup_testing.spark.spark_kills import backfill

    data = str(tmp_path / "data")
    with Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        with Client(address, timeout=60) as client:
            for point in ("writing", "attached"):
                query = make(client, f"s{point}")
                survive(spark, zygote, data, address, f"s{point}", point)
                check(client, query, f"s{point}")
            assert zygote.stop() == 0
            with pytest.raises(Unavailable):
                backfill(spark, address, "swriting")


def test_a_full_disk_ends_a_job_and_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    """The folder that jobs write to may be a disk of its own, shared with the workers."""
    from psoup_spark import SparkFailed, spark_errors
    from psoup_testing.spark.spark_kills import backfill

    with disks.small_disk(tmp_path / "shared", 1024 * 1024) as shared:
        store = DurableStore(tmp_path / "data", reserve_bytes=0)
        (tmp_path / "data" / "incoming").symlink_to(shared)
        with serving(store=store) as service, Client(service.address, timeout=60) as client:
            query = make(client, "full")
            disks.fill(shared / "filler", 20_000)
            with pytest.raises(SparkFailed, match="No space left on device"), spark_errors():
                backfill(spark, service.address, "full")
            assert os.listdir(shared) == ["filler"]
            assert list(query.invoke().rows()) == []
            (shared / "filler").unlink()
            assert backfill(spark, service.address, "full").rows == 3_000
            check(client, query, "full")


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_backfills_survive_kills_at_every_step(spark: Any, tmp_path: Path) -> None:
    """Drivers at each point, each as a process with its own Java; services at any moment of the attachment."""
    from psoup_testing.spark.spark_kills import backfill, run_driver

    data, kills = str(tmp_path / "data"), {"driver": 0, "service": 0}
    with Zygote(PSOUP_TEST_CHUNK_ROWS="64") as zygote:
        zygote.start(data)
        address = zygote.ready()
        with Client(address, timeout=60) as client:
            for number in range(2 * max(1, int(SCALE))):
                for point in POINTS:
                    stream = f"k{number}{point}"
                    query = make(client, stream)
                    run_driver(address, stream, point)
                    kills["driver"] += 1
                    assert backfill(spark, address, stream).duplicate == (point == "attached")
                    check(client, query, stream)
            for number in range(30 * max(1, int(SCALE))):
                stream = f"r{number}"
                query = make(client, stream)
                survive(spark, zygote, data, address, stream, "whole", 0.001 * (1 + number % 30))
                kills["service"] += 1
                check(client, query, stream)
    print(kills)
