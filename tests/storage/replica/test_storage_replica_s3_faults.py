"""A writer and a standby over a server of S3: replies fail, come late or are lost, or access is denied."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event, Lock
from unittest.mock import patch

import pytest

from psoup.errors import FailedPrecondition, InvalidInput, Unavailable
from psoup_client import Client
from psoup_service.chores import standby as standby_chore
from psoup_service.chores.standby import StandbyClock
from psoup_service.process.clock import wall_time
from psoup_storage import ReplicatedStore, Replication, StandbyStore
from psoup_storage.replica import event_queue, targets, uploader
from psoup_storage.replica.report import verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import Target, open_target
from psoup_testing.engines.copy_target import (
    acknowledged,
    begin,
    copied,
    copy_at,
    push,
    restored_values,
    store_of,
    values_in,
)
from psoup_testing.engines.standby_soup import follow, standby
from psoup_testing.oracles.questions import again
from psoup_testing.services.object_storage import CUT, LOST, PLAIN, TORN, UNSURE, StorageProxy, object_storage
from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.budget import Budget

HISTORIES = Budget("faults of object storage", 12)
DENIED = r"cannot be reached: access is denied: the credentials have ended, or lack a permission.*403 Forbidden"


@pytest.fixture(scope="module")
def running() -> Iterator[StorageProxy]:
    with object_storage() as proxy, patch.object(targets, "RETRIES", 0):
        yield proxy


@pytest.fixture
def storage(running: StorageProxy) -> Iterator[StorageProxy]:
    """The storage, without faults at first."""
    running.fails = lambda method, path: ""
    yield running
    running.fails = lambda method, path: ""


@pytest.fixture
def target(storage: StorageProxy, tmp_path: Path) -> Target:
    return open_target(f"s3://bucket/{tmp_path.name}")


class Script:
    """The faults of the next requests for numbered objects, one after the other."""

    def __init__(self) -> None:
        self._faults: Iterator[str] = iter(())
        self._lock = Lock()

    def __call__(self, method: str, path: str) -> str:
        with self._lock:
            return next(self._faults, "") if "/log/" in path else ""

    def play(self, *faults: str) -> None:
        with self._lock:
            self._faults = iter(faults)


def test_each_fault_is_survived(storage: StorageProxy, target: Target, tmp_path: Path) -> None:
    script = Script()
    with copied(tmp_path / "data", target, remote=True) as soup:
        begin(soup)
        assert acknowledged(soup)
        storage.fails = script
        faults: list[tuple[str, ...]] = [(CUT,), (LOST,), (UNSURE,), ("409",), ("429",), ("500",), ("503",), ("403",)]
        faults.append((LOST, CUT, "", "500", "", "", TORN, "409"))  # a write, again, again, has, again, has, a read …
        for value, some in enumerate(faults):
            script.play(*some)
            push(soup, value)
            assert acknowledged(soup)
        written = [path for method, path in storage.done if method == "PUT" and "/log/" in path]
        assert len(written) > len(set(written)), "no reply was lost"
    assert store_of(soup).uploader.failure == "" and verify(target).problems == []
    assert restored_values(target, tmp_path / "again") == list(range(len(faults)))


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (PLAIN, "overwrites an object although it is asked to create it only if its name is free"),
        ("501", "cannot create an object only if its name is free"),
    ],
)
def test_storage_without_conditional_writes_is_refused(
    storage: StorageProxy, target: Target, tmp_path: Path, fault: str, why: str
) -> None:
    storage.fails = lambda method, path: fault if method == "PUT" else ""
    with pytest.raises(InvalidInput, match=rf"{why} \(If-None-Match: \*\)") as e, copied(tmp_path / "data", target):
        pass
    assert e.value.reason == "NO_CONDITIONAL_WRITES"


def test_a_bucket_that_does_not_exist_is_refused(storage: StorageProxy, tmp_path: Path) -> None:
    target = open_target("s3://nowhere/copy")
    nowhere = "s3://nowhere/copy: the bucket does not exist"
    with pytest.raises(InvalidInput, match=nowhere), copied(tmp_path / "data", target):
        pass
    with pytest.raises(InvalidInput, match=nowhere):
        restore_copy(target, tmp_path / "again")


def test_a_conflict_is_no_answer(storage: StorageProxy, target: Target) -> None:
    """409: another write of the name is under way. It may fail, so the number is not taken yet."""
    storage.fails = lambda method, path: "409"
    for request in (lambda: target.read("log/1"), lambda: target.has("log/1"), lambda: target.create("log/1", b"")):
        with pytest.raises(Unavailable, match="cannot be reached"):
            request()
    storage.fails = lambda method, path: "409" if method == "PUT" else ""
    with pytest.raises(Unavailable, match="409 Conflict"):
        target.create("log/1", b"")
    storage.fails = lambda method, path: ""
    assert target.create("log/1", b"") and not target.create("log/1", b"")


@pytest.mark.parametrize("remote", [False, True])
def test_credentials_that_end_are_named(storage: StorageProxy, tmp_path: Path, remote: bool) -> None:
    """The service goes on. With `remote`, acknowledgements wait, and the state of the copy has the reason."""
    replication = Replication(f"s3://bucket/{tmp_path.name}", 2**20, 3_600, wall_time, remote=remote)
    with (
        patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01),
        patch.object(event_queue, "SEGMENT_S", 0.001),
        serving(store=(store := ReplicatedStore(tmp_path / "data", replication))) as running,
        Client(running.address, timeout=300) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        client.create_stream("CREATE STREAM s (x BIGINT)")
        query = client.register("SELECT x FROM s BEGIN (START)")
        running.wait_until(lambda: store.uploader.reach >= store.sequence)
        storage.fails = lambda method, path: "403"
        pushing = pool.submit(client.push, "s", {"x": [1]})
        running.wait_until(lambda: store.uploader.lag()[0] == 1 and "access is denied" in store.uploader.trouble)
        state = client.info().copy
        assert state is not None and "403 Forbidden" in state.problem and state.lag_events == 1
        assert "access is denied" in running.service._notices() and client.info().state == "serving"
        if remote:
            assert not pushing.done() and query.invoke().rows() == []
        else:
            assert query.invoke(wait_for=pushing.result(300).sequence).rows() == [(1,)]
        storage.fails = lambda method, path: ""
        assert query.invoke(wait_for=pushing.result(300).sequence).rows() == [(1,)]
        running.wait_until(lambda: not store.uploader.lag()[0] and not store.uploader.trouble)
    assert restore_copy(replication.place, tmp_path / "again").sequence == store.sequence


def test_credentials_that_have_ended_before_are_named(storage: StorageProxy, target: Target, tmp_path: Path) -> None:
    """By every command, and by a standby. A writer starts, and copies once it may."""
    storage.fails = lambda method, path: "403"
    for reader in (
        lambda: restore_copy(target, tmp_path / "again"),
        lambda: verify(target),
        lambda: StandbyStore(tmp_path / "standby", copy_at(target.place)),
    ):
        with pytest.raises(Unavailable, match=DENIED):
            reader()
    assert not (tmp_path / "again").exists() and not (tmp_path / "standby").exists()
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        push(soup, 1)
        storage.fails = lambda method, path: ""
    assert restored_values(target, tmp_path / "again") == [1]


@pytest.mark.long
def test_a_standby_follows_through_faults(storage: StorageProxy, tmp_path: Path) -> None:
    replication = Replication(f"s3://bucket/{tmp_path.name}", 2**20, 3_600, wall_time, remote=True)
    with (
        patch.multiple(uploader, FIRST_PAUSE_S=0.001, MOST_PAUSE_S=0.002, LOOK_S=0.01),
        patch.multiple(standby_chore, EVERY_S=0.01, MOST_PAUSE_S=0.02),
        serving(store=(store := ReplicatedStore(tmp_path / "data", replication))) as writing,
        Client(writing.address, timeout=300) as writer,
    ):
        writer.create_stream("CREATE STREAM s (x BIGINT)")
        query = writer.register("SELECT x FROM s BEGIN (START)")
        followed = StandbyStore(tmp_path / "standby", replication)
        with (
            serving(clock=StandbyClock(followed), store=followed) as following,
            Client(following.address, timeout=300) as reader,
        ):
            storage.fails = Whims(Random(7), 0.3, 0.3)
            for value in range(60):
                done = writer.push("s", {"x": [value]})
            storage.fails = lambda method, path: "403"
            notices = following.service._notices
            following.wait_until(lambda: "access is denied" in notices() and "standby of s3://bucket/" in notices())
            assert reader.ask("SELECT count(*) FROM s").rows()[0][0] <= 60, "reads go on"
            storage.fails = lambda method, path: ""
            following.wait_until(lambda: following.service.host.applied >= done.sequence)
            assert reader.query(query.id).invoke().rows() == query.invoke().rows() == [(v,) for v in range(60)]
            following.wait_until(lambda: "access is denied" not in notices())
    assert store.uploader.failure == "" and verify(open_target(replication.place)).problems == []


class Whims:
    """Lets a part of the requests fail or come late, each in its own way.

    A smaller part of the reads, `reads`, because a restore makes many and begins again after a failure.
    """

    def __init__(self, random: Random, share: float, reads: float) -> None:
        self._random, self._lock, self._share, self._reads = random, Lock(), share, reads
        self._never = Event()

    def __call__(self, method: str, path: str) -> str:
        with self._lock:
            if self._random.random() >= (self._share if method == "PUT" else self._reads):
                return ""
            fault = self._random.choice((CUT, LOST, TORN, UNSURE, "409", "500", "503", "403", "late"))
            late = self._random.random() / 50
        if fault == "late":
            self._never.wait(late)
            return ""
        return fault


@pytest.mark.long
def test_histories_of_writers_and_standbys_over_faulty_storage(storage: StorageProxy, tmp_path: Path) -> None:
    for seed in HISTORIES.rounds():
        storage.fails = lambda method, path: ""
        tell(tmp_path / str(seed), storage, Random(seed))
        HISTORIES.count()


def tell(path: Path, storage: StorageProxy, random: Random) -> None:
    """A writer with a standby, which another writer takes over from at some moment."""
    target = open_target(f"s3://bucket/{path.parent.name}/{path.name}")
    share, start, value, taken = random.choice((0.05, 0.2)), random.randrange(1, 9), 0, list[int]()
    with ThreadPoolExecutor(1) as pool, copied(path / "data", target, remote=True) as soup:
        begin(soup)
        assert acknowledged(soup)
        with standby(path / "standby", target) as reader:  # type: ignore[arg-type]
            storage.fails = Whims(random, share, share / 20)
            taking = None
            while not store_of(soup).uploader.failure:
                if value >= start and taking is None:
                    taking = pool.submit(take_over, storage, target, path)
                first, value = value, value + random.randint(1, 3)
                push(soup, *range(first, value))
                if acknowledged(soup):
                    taken += range(first, value)
                with suppress(Unavailable, FailedPrecondition):
                    follow(reader)
            assert taking is not None
            heir = taking.result(300)
            assert "another service took over" in store_of(soup).uploader.failure
            storage.fails = lambda method, path: ""
            with pytest.raises(FailedPrecondition, match="another service took it over"):
                follow(reader)
            shown = again(reader.invoke, 1).to_table()["x"].to_pylist()
        assert shown[: len(taken)] == taken
    storage.fails = Whims(random, share, share / 20)
    with copied(heir, target, remote=True) as newer:
        push(newer, 10_000)
        assert acknowledged(newer)
        storage.fails = lambda method, path: ""
    restored = restored_values(target, path / "late")
    assert restored == values_in(heir) == [*shown, 10_000]
    assert verify(target).problems == []


def take_over(storage: StorageProxy, target: Target, path: Path) -> Path:
    """Take the copy over, again until it succeeds. Returns the new directory. Each failure leaves more to be read."""
    for number in range(2):
        with suppress(Unavailable):
            restore_copy(target, path / f"heir {number}", takes_over=True)
            return path / f"heir {number}"
    storage.fails = lambda method, path: ""
    restore_copy(target, path / "heir", takes_over=True)
    return path / "heir"
