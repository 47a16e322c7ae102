"""Two writers of one copy, over random histories with storage that fails.

In the mode `remote` the newer one has all that the older one acknowledged. In the mode `local` it has that, or a rejoin
of the older one's directory keeps it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Lock

import pytest

from psoup_storage.replica.rejoin import rejoin
from psoup_storage.replica.report import verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.copy_target import (
    AFTER,
    BEFORE,
    FailingTarget,
    acknowledged,
    begin,
    copied,
    push,
    restored_values,
    store_of,
    wait_for_copy,
)
from psoup_testing.engines.diverged_rows import copied_values, kept_values
from psoup_testing.engines.standby_soup import follow, standby
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import Budget

HISTORIES = Budget("two writers", 6)
LOCAL = Budget("two writers, local", 6)
MOST = 3_000
"""The most rows of a history."""


class Whims:
    """Lets a part of the requests fail, before or after they were done."""

    def __init__(self, random: Random) -> None:
        self._random, self._lock = random, Lock()
        self._share = random.choice((0.0, 0.1))

    def __call__(self, operation: str, name: str) -> str:
        with self._lock:
            failed = self._random.random() < self._share
            return self._random.choice((BEFORE, AFTER)) if failed else ""


@pytest.mark.long
def test_the_newer_writer_has_what_the_older_one_acknowledged(tmp_path: Path) -> None:
    for seed in HISTORIES.rounds():
        tell(tmp_path / str(seed), Random(seed))
        HISTORIES.count()


def tell(path: Path, random: Random) -> None:
    """A history in which one directory takes over from another while that goes on to push."""
    target = FailingTarget(path / "copy", Whims(random))
    whole = DirectoryTarget(target.place)
    start, value, taken = random.randrange(12), 0, list[int]()
    with ThreadPoolExecutor(1) as pool, copied(path / "data", target, remote=True) as soup:
        begin(soup)
        assert acknowledged(soup)
        taking = None
        while not store_of(soup).uploader.failure and value < 5_000:
            if value >= start and taking is None:
                taking = pool.submit(restore_copy, whole, path / "heir", takes_over=True)
            first, value = value, value + random.randint(1, 3)
            push(soup, *range(first, value))
            if acknowledged(soup):
                taken += range(first, value)
        assert taking is not None and taking.result(300).missing == ""
        assert "another service took over" in store_of(soup).uploader.failure
    assert restored_values(whole, path / "early")[: len(taken)] == taken
    with copied(path / "heir", target, remote=True) as heir:
        push(heir, 10_000)
        assert acknowledged(heir)
    again = restored_values(whole, path / "late")
    assert again[: len(taken)] == taken and again[-1] == 10_000
    assert verify(whole).problems == []


@pytest.mark.long
def test_what_the_newer_writer_lacks_is_kept(tmp_path: Path) -> None:
    for seed in LOCAL.rounds():
        tell_local(tmp_path / str(seed), Random(seed))
        LOCAL.count()


def tell_local(path: Path, random: Random) -> None:
    """The same without a wait for the copy. Each row that was pushed is in the copy or kept, and in one of them."""
    target = FailingTarget(path / "copy")
    whole, whims = DirectoryTarget(target.place), Whims(random)
    start, value, more = random.randrange(300), 0, random.randint(1, 200)
    with ThreadPoolExecutor(1) as pool, copied(path / "data", target) as soup:
        begin(soup)
        wait_for_copy(soup)
        target.fails, taking = whims, None
        while taking is None or not (taking.done() or value >= MOST):
            if value >= start and taking is None:
                taking = pool.submit(restore_copy, whole, path / "heir", takes_over=True)
            first, value = value, value + random.randint(1, 3)
            push(soup, *range(first, value))
            if random.random() < 0.05:
                soup.maintain()
        assert taking.result(300).missing == ""
        push(soup, *range(value, value + more))
    value += more
    target.fails = lambda operation, name: ""
    result = rejoin(whole, path / "data")
    rows = kept_values(path / "data", "s")
    assert result.diverged is not None and len(rows) >= more
    copy = sorted(value for _, value in copied_values(whole, path / "early", "s").elements())
    assert sorted([*copy, *rows]) == list(range(value))
    with copied(path / "heir", target) as heir:
        push(heir, 10_000)
        wait_for_copy(heir)
    with standby(path / "data", whole) as soup:
        follow(soup)
        assert again(soup.invoke, 1).to_table()["x"].to_pylist() == [*copy, 10_000]
