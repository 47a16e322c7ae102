"""The embedded engine on a directory that is copied, to a target that fails when a test says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from unittest.mock import patch

import pyarrow as pa

from psoup_storage import ReplicatedStore, Replication, uploader_of
from psoup_storage.replica import event_queue, replicated_store
from psoup_storage.replica import uploader as uploader_module
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.restore import Wanted, restore_copy
from psoup_storage.replica.targets import DirectoryTarget, Target, unreachable
from psoup_storage.replica.uploader import Uploader
from psoup_testing.engines import format_fixture
from psoup_testing.engines.format_fixture import END, START, Soup
from psoup_testing.oracles.questions import again

BEFORE, AFTER = "before", "after"
"""When a request fails: before it has done anything, or after, so that only its reply is lost."""


class FailingTarget(DirectoryTarget):
    """A copy in a directory. `fails`: says of an operation and a name whether it fails, `BEFORE` or `AFTER`, or "".

    `written`: the names of all writes that were asked for and done.
    """

    def __init__(self, place: Path, fails: Callable[[str, str], str] = lambda operation, name: "") -> None:
        super().__init__(place)
        self.fails = fails
        self.written: list[str] = []

    def create(self, name: str, content: bytes) -> bool:
        when = self._begin("create", name)
        created = super().create(name, content)
        if created:
            self.written.append(name)
        self._end(when, name)
        return created

    def add_file(self, name: str, path: Path) -> None:
        when, present = self._begin("add_file", name), self.has(name)
        super().add_file(name, path)
        if not present:
            self.written.append(name)
        self._end(when, name)

    def read(self, name: str) -> bytes | None:
        when = self._begin("read", name)
        content = super().read(name)
        self._end(when, name)
        return content

    def _begin(self, operation: str, name: str) -> str:
        when = self.fails(operation, name)
        if when == BEFORE:
            raise unreachable(name, "the test says so")
        return when

    def _end(self, when: str, name: str) -> None:
        if when == AFTER:
            raise unreachable(name, "the reply was lost")


@contextmanager
def copied(
    path: Path,
    target: Target,
    queue_bytes: int = 2**30,
    base_s: float = 3_600,
    *,
    remote: bool = False,
    keep_s: float = math.inf,
) -> Iterator[Soup]:
    """An engine on the directory `path`, whose events are copied at once. At the end all that can be is copied.

    While a copy begins, base images are made beside the test, and have any of its events. At the end none is due.
    """

    def opened(directory: Path) -> ReplicatedStore:
        with patch.object(replicated_store, "open_target", lambda place: target):
            replication = Replication("s3://bucket", queue_bytes, base_s, lambda: START, remote=remote, keep_s=keep_s)
            store = ReplicatedStore(directory, replication)
        store.uploader.start()
        return store

    with (
        patch.object(format_fixture, "DurableStore", opened),
        patch.multiple(event_queue, SEGMENT_S=0.001),
        patch.multiple(uploader_module, FIRST_PAUSE_S=0.001, LOOK_S=0.005, MOST_PAUSE_S=0.002, CLOSE_S=30.0),
    ):
        soup = Soup(path, START)
        try:
            yield soup
        finally:
            soup.store.close()


def begin(soup: Soup) -> None:
    """A stream `s` with a query, whose ID is 1."""
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.register("SELECT x FROM s BEGIN (START)")


def push(soup: Soup, *values: int) -> None:
    """Push values to `s`, each by itself."""
    for value in values:
        soup.push("s", pa.table({"x": [value]}))


def values_in(path: Path) -> list[int]:
    """The answer of the query of `begin` in a directory."""
    soup = Soup(path, END)
    answer = again(soup.invoke, 1).to_table()["x"].to_pylist()
    soup.store.close()
    return [int(value) for value in answer]


def restored_values(target: Target, path: Path, wanted: Wanted | None = None) -> list[int]:
    """The answer of the query of `begin` in a directory that is restored."""
    restore_copy(target, path, wanted)
    return values_in(path)


def acknowledged(soup: Soup) -> bool:
    """Whether a service would acknowledge all events now, once the copy has them; False if the copy has stopped."""
    store = store_of(soup)
    while not (passed := store.copy_gate.passed(store.sequence, 0.01)):
        if store.uploader.failure:
            return store.copy_gate.passed(store.sequence, 0.0)
    return passed


def copy_at(place: str | Path) -> Replication:
    """A copy that a standby follows. The clock of the standby is at `START`."""
    return Replication(str(place), 2**20, 3_600, lambda: START)


def store_of(soup: Soup) -> ReplicatedStore:
    """The store of an engine that is copied."""
    assert isinstance(soup.store, ReplicatedStore)
    return soup.store


def wait_for_base_image(soup: Soup) -> None:
    """Wait until the newest base image of the copy has the last event."""
    target, looked = store_of(soup).uploader.target, Event()
    for _ in range(3_000):
        number = last_number(target)
        base = read_object(target, number).base if number else 0
        if base and read_object(target, base).facts["sequence"] == soup.store.sequence:
            return
        looked.wait(0.01)
    raise TimeoutError(store_of(soup).uploader.trouble)


def uploader_in(soup: Soup) -> Uploader:
    """The uploader of an engine that is copied, which may have been a standby."""
    uploader = uploader_of(soup.store)
    assert uploader is not None
    return uploader


def wait_for_copy(soup: Soup) -> None:
    """Wait until a restore reaches the last event."""
    copying, looked = uploader_in(soup), Event()
    for _ in range(3_000):
        number = last_number(copying.target)
        if number and read_object(copying.target, number).facts.get("reach", -1) == soup.store.sequence:
            return
        looked.wait(0.01)
    raise TimeoutError(copying.trouble)
