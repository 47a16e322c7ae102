"""Writers that push at once over one copy, in random histories of takeovers and storage faults.

remote    the newer writer has all acknowledged events
local     it may lack the last ones of the older writer
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Event, Lock

import pytest

from psoup.errors import Unavailable
from psoup_storage.replica.report import verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import (
    AFTER,
    BEFORE,
    FailingTarget,
    begin,
    copied,
    push,
    restored_values,
    store_of,
    values_in,
)
from psoup_testing.engines.format_fixture import Soup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SCALE, Budget, replayable, unscaled

FEW = {remote: Budget(f"writers at once, remote {remote}", unscaled(2)) for remote in (True, False)}
HISTORIES = min(350, round(1_500 / SCALE))
"""As many in `make test-long`, times its scale; `make soak` tells 1,500, and no multiple of them."""
MANY = {remote: Budget(f"writers at once, remote {remote}, many", HISTORIES) for remote in (True, False)}
EACH = 10_000
"""The first value of a writer: this times its place."""


class Weather:
    """The storage as a writer finds it: a part of its requests fails, before or after they were done; or all do.

    Fewer reads fail than writes, because a start makes many reads and begins again after a failure.
    """

    def __init__(self, random: Random, *shares: float) -> None:
        self._random, self._lock = Random(random.random()), Lock()
        self._share = random.choice(shares)
        self.away = False

    def __call__(self, operation: str, name: str) -> str:
        with self._lock:
            share = self._share / (8 if operation == "read" else 1)
            failed = self.away or self._random.random() < share
            return self._random.choice((BEFORE, BEFORE if self.away else AFTER)) if failed else ""


class Writer:
    """A writer of the copy. `pushed`: its own values. `taken`: those that it has acknowledged."""

    def __init__(self, soup: Soup, place: int, weather: Weather) -> None:
        self.soup, self.weather, self.uploader = soup, weather, store_of(soup).uploader
        self._next = EACH * place
        self._sequences: list[int] = []
        self.pushed, self.taken = list[int](), list[int]()

    def push(self, count: int) -> None:
        """Push values, unless the service has ended because it was fenced."""
        for _ in range(count if not self.uploader.failure else 0):
            push(self.soup, self._next)
            self.pushed.append(self._next)
            self._sequences.append(self.soup.store.sequence)
            self._next += 1
        self.look()

    def look(self) -> None:
        """Note what is acknowledged by now."""
        gate = store_of(self.soup).copy_gate
        while len(self.taken) < len(self.pushed) and gate.passed(self._sequences[len(self.taken)], 0.0):
            self.taken.append(self.pushed[len(self.taken)])

    def copied(self) -> int:
        """The number of values that the copy is known to have."""
        reach = self.uploader.reach
        return sum(sequence <= reach for sequence in self._sequences)

    def wait(self) -> None:
        """Wait until the copy has all events, or will have none any more."""
        self.weather.away = False
        while not self.uploader.reached(self.soup.store.sequence, 0.01) and not self.uploader.failure:
            pass
        self.look()

    def values(self) -> list[int]:
        """The answer of the query of `begin`."""
        return [int(value) for value in again(self.soup.invoke, 1).to_table()["x"].to_pylist()]


@contextmanager
def writing(path: Path, copy: Path, place: int, random: Random, *, remote: bool) -> Iterator[Writer]:
    weather = Weather(random, 0.0, 0.1, 0.4)
    target = FailingTarget(copy, weather)
    queue_bytes, base_s = random.choice((2**30, 2_000)), random.choice((3_600, 0.05))
    with copied(path, target, queue_bytes, base_s, remote=remote) as soup:
        try:
            yield Writer(soup, place, weather)
        finally:
            weather.away = False


@pytest.mark.parametrize("remote", [True, False])
def test_the_newer_writer_has_what_the_older_one_acknowledged(tmp_path: Path, remote: bool) -> None:
    tell_all(FEW[remote], tmp_path, remote)


@pytest.mark.long
@pytest.mark.parametrize("remote", [True, False])
def test_many_histories_of_writers_at_once(tmp_path: Path, remote: bool) -> None:
    tell_all(MANY[remote], tmp_path, remote)


def tell_all(budget: Budget, path: Path, remote: bool) -> None:
    for seed in budget.rounds():
        with replayable(seed):
            tell(path / str(seed), Random(seed), remote=remote)
        shutil.rmtree(path / str(seed))
        budget.count()


def tell(path: Path, random: Random, *, remote: bool) -> None:
    """A history of two or three writers, and each takes over from the one before while that goes on."""
    copy, before = path / "copy", list[int]()  # `before`: the values of earlier writers, as far as they count
    with ExitStack() as writers:
        older = writers.enter_context(writing(path / "data", copy, 0, random, remote=remote))
        begin(older.soup)
        older.wait()
        for place in range(1, random.choice((2, 2, 3))):
            push_some(random, older)
            heir, wanted = take_over(copy, path / f"heir {place}", random, older)
            newer = writers.enter_context(writing(heir, copy, place, random, remote=remote))
            values = newer.values()
            reached = len(values) - len(before)
            assert values == [*before, *older.pushed[:reached]], "only the last events of the older writer are lost"
            assert reached >= wanted, "the copy had these before"
            push_some(random, older, newer)
            stop(older)
            assert not remote or (older.taken == older.pushed[: len(older.taken)] and len(older.taken) <= reached)
            before, older = values, newer
        push_some(random, older)
        older.wait()
        assert older.uploader.failure == "" and older.taken == older.pushed
        last = older.soup.store.path
    whole = DirectoryTarget(copy)
    assert restored_values(whole, path / "again") == values_in(last) == [*before, *older.pushed]
    assert verify(whole).problems == []


def push_some(random: Random, *writers: Writer) -> None:
    """Push to the writers in turn, while the storage comes and goes."""
    for _ in range(random.randrange(2, 9)):
        writer = random.choice(writers)
        writer.weather.away = random.random() < 0.3
        writer.push(random.randint(1, 12))


def take_over(copy: Path, path: Path, random: Random, older: Writer) -> tuple[Path, int]:
    """Take over while the older writer goes on, again until it succeeds.

    Returns the new directory, and the number of the older one's values that the copy had before.
    """
    wanted = older.copied()
    targets = [FailingTarget(copy, Weather(random, 0.1, 0.4)) for _ in range(2)] + [DirectoryTarget(copy)]

    def attempt() -> Path:
        for number, target in enumerate(targets):
            with suppress(Unavailable):
                restore_copy(target, path / str(number), takes_over=True)
                return path / str(number)
        raise AssertionError("storage that does not fail was not enough")

    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(attempt)
        for _ in range(random.randrange(100)):
            older.push(1)
            if taking.done():
                break
        return taking.result(300), wanted


def stop(older: Writer) -> None:
    """Let the older writer find the fence: it writes something, and reaches the storage."""
    older.weather.away = False
    older.push(1)
    looked = Event()
    for _ in range(3_000):
        if older.uploader.failure:
            break
        looked.wait(0.01)
    assert "another service took over" in older.uploader.failure
    older.look()
