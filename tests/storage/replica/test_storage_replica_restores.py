"""Restores from a copy answer, at any event, what the engine answered there. The history has every kind of event."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from psoup.errors import FailedPrecondition, PSoupError
from psoup.events.events import Event
from psoup_storage import Replication
from psoup_storage.durable.tools.backup import restore
from psoup_storage.replica import event_queue
from psoup_storage.replica.replicated_store import ReplicatedStore
from psoup_storage.replica.restore import Wanted, base_images, last_object, restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines import format_fixture
from psoup_testing.engines.copy_target import wait_for_base_image
from psoup_testing.engines.format_fixture import END, START, Soup, ask, leave, tell
from psoup_testing.engines.standby_soup import VisibleTarget, follow, standby
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SEED

SAMPLES = 8
MOST_QUERIES = 330


pytestmark = pytest.mark.long


class SampledStore(ReplicatedStore):
    """A store that copies its directory, as a killed service leaves it, after some events."""

    samples: list[tuple[int, int]]

    def __init__(self, path: Path) -> None:
        self.samples, self.time = [], START
        replication = Replication(str(path.parent / "copy"), 2**30, 3, self._tick)
        super().__init__(path, replication)
        self.uploader.start()

    def append(self, events: Sequence[Event]) -> None:
        super().append(events)
        if (self.sequence * 7919 + SEED) % 61 == 0:
            leave(self.path, self.path.parent / f"killed-{self.sequence}")
            self.samples.append((self.sequence, self.time))

    def _tick(self) -> int:
        self.time += 1_000
        return self.time


class Told(NamedTuple):
    folder: Path
    samples: list[tuple[int, int]]
    last: int
    answers: list[Any]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A copy of a history that a service has told, and its directory at some events."""
    folder = tmp_path_factory.mktemp("history")
    with (
        patch.object(format_fixture, "DurableStore", SampledStore),
        patch.multiple(event_queue, SEGMENT_BYTES=4_096, SEGMENT_S=0.05),
    ):
        soup = Soup(folder / "data", START)
        wait_for_base_image(soup)  # all events can be restored from then on
        tell(soup)
        store = soup.store
        assert isinstance(store, SampledStore)
        last = store.sequence
        leave(folder / "data", folder / "killed")
        store.close()
        assert store.uploader.failure == store.uploader.trouble == ""
    return Told(folder, store.samples, last, all_answers(folder / "killed"))


def all_answers(path: Path) -> list[Any]:
    """The answers of all queries, the state of admission and the last event of a directory."""
    soup = Soup(path, END)
    state = soup.admission.state()
    state.pop("reserved")  # expired tuples are dropped with the next event, as after any start
    answers = [_answer(soup, query_id) for query_id in range(1, MOST_QUERIES)]
    shown = [answers, state, soup.store.sequence]
    soup.store.close()
    return shown


def _answer(soup: Soup, query_id: int) -> str:
    try:
        answer = soup.invoke(query_id, accept_truncation=True)
    except PSoupError as problem:
        return type(problem).__name__
    return f"{answer.completeness} {answer.to_table().to_pylist()}"


def test_the_last_event_is_restored(history: Told, tmp_path: Path) -> None:
    restored = restore_copy(str(history.folder / "copy"), tmp_path / "data")
    assert (restored.sequence, restored.missing) == (history.last, "")
    shutil.copytree(tmp_path / "data", tmp_path / "again")
    assert all_answers(tmp_path / "data") == history.answers
    expected = Soup(history.folder / "killed", END)
    soup = Soup(tmp_path / "again", END)
    assert again(ask, soup) == again(ask, expected)
    assert soup.store.incarnation != expected.store.incarnation
    for each in (soup, expected):
        each.store.close()


@pytest.mark.parametrize("sample", range(SAMPLES))
def test_any_event_is_restored(history: Told, tmp_path: Path, sample: int) -> None:
    sequence, time = history.samples[sample * len(history.samples) // SAMPLES]
    place = str(history.folder / "copy")
    restored = restore_copy(place, tmp_path / "data", Wanted(sequence=sequence))
    by_time = restore_copy(place, tmp_path / "by time", Wanted(time=time))
    assert restored[:2] == by_time[:2] == (sequence, "")
    before = leave_again(history.folder / f"killed-{sequence}", tmp_path / "killed")
    assert all_answers(tmp_path / "data") == all_answers(before)


@pytest.mark.parametrize("first", range(3))
def test_a_standby_is_a_restore_of_its_last_event(history: Told, tmp_path: Path, first: int) -> None:
    place = history.folder / "copy"
    newest = last_object(DirectoryTarget(place))
    oldest, last = [*base_images(DirectoryTarget(place), newest)][-1].number, newest.number
    target, looks = VisibleTarget(place, oldest + first * (last - oldest) // 4), 0
    while target.last < last:
        with standby(tmp_path / "standby", target) as soup, suppress(FailedPrecondition):  # the next start has an image
            for number in range(target.last, min(target.last + last // 5, last) + 1):
                target.last = number
                follow(soup)
        looks += 1
        sequence = restore(tmp_path / "standby", tmp_path / f"standby {looks}")
        restore_copy(str(place), tmp_path / f"restored {looks}", Wanted(sequence=sequence))
        assert all_answers(tmp_path / f"standby {looks}") == all_answers(tmp_path / f"restored {looks}")
    assert looks > 1


def leave_again(path: Path, target: Path) -> Path:
    """A copy of a directory, since asking changes it."""
    return Path(shutil.copytree(path, target))
