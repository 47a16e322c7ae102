"""A copy that another data directory takes over: the older writer stops, and nothing of it counts behind the fence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from psoup.errors import FailedPrecondition, InvalidInput, Unavailable
from psoup_cli.app import app
from psoup_storage.replica import uploader
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.fences import counting_object, read_fences
from psoup_storage.replica.objects import object_name, pack
from psoup_storage.replica.report import spans, verify
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
    wait_for_copy,
)
from psoup_testing.engines.format_fixture import Soup


class Stopped(Event):
    """Whether an uploader has stopped its service, and why."""

    def __init__(self, soup: Soup) -> None:
        super().__init__()
        self.why = ""
        store_of(soup).uploader.stop = self._stop

    def _stop(self, why: str) -> None:
        self.why = why
        self.set()


def wait_for_image(target: DirectoryTarget) -> None:
    """Wait until the newer writer has made its base image: then it writes nothing without events."""
    looked, fences = Event(), read_fences(target)
    for _ in range(3_000):
        if counting_object(target, fences, last_number(target)).base > fences.epoch:
            return
        looked.wait(0.01)
    raise TimeoutError


@pytest.mark.seeded("a fence skips a number")
@pytest.mark.seeded("a taken number is believed to be the writer's own")
@pytest.mark.seeded("a fenced directory goes on after a restart")
def test_a_takeover_stops_the_older_writer(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        stopped = Stopped(soup)
        begin(soup)
        push(soup, 1)
        wait_for_copy(soup)
        number = last_number(target)
        assert restore_copy(target, tmp_path / "heir", takes_over=True)[:2] == (soup.store.sequence, "")
        fence = read_fences(target).last
        assert fence is not None and fence.number == last_number(target) > number
        push(soup, 2)
        assert stopped.wait(30)
        assert "another service took over the copy" in stopped.why == store_of(soup).uploader.failure
    assert restored_values(target, tmp_path / "early") == [1]
    with copied(tmp_path / "heir", target) as heir:
        fence = read_fences(target).last
        assert fence is not None and store_of(heir).incarnation == fence.incarnation
        push(heir, 3)
    assert store_of(heir).uploader.failure == ""
    assert restored_values(target, tmp_path / "late") == [1, 3]
    with pytest.raises(FailedPrecondition, match="another service took over"), copied(tmp_path / "data", target):
        pass
    assert values_in(tmp_path / "data") == [1, 2], "it can still be looked at"
    with pytest.raises(InvalidInput, match="of another data directory"), copied(tmp_path / "other", target):
        pass
    assert verify(target).problems == []


def test_a_writer_without_events_notices_a_takeover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploader, "FENCE_LOOK_S", 0.001)
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        stopped = Stopped(soup)
        begin(soup)
        wait_for_copy(soup)
        restore_copy(target, tmp_path / "heir", takes_over=True)
        assert stopped.wait(30)


def test_objects_of_the_older_writer_behind_the_fence_are_passed_over(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        push(soup, 1)
    shutil.copytree(tmp_path / "copy", tmp_path / "parted")
    with copied(tmp_path / "data", DirectoryTarget(tmp_path / "parted")) as soup:
        for value in (7, 8):
            push(soup, value)
            wait_for_copy(soup)
    restore_copy(target, tmp_path / "heir", takes_over=True)
    late = tmp_path / "parted" / object_name(last_number(target) + 1)
    assert read_object(DirectoryTarget(tmp_path / "parted"), int(late.name)).epoch == 0
    shutil.copyfile(late, tmp_path / "copy" / "log" / late.name)
    assert restored_values(target, tmp_path / "early") == [1]
    assert spans(target)[-1].last == 3
    with copied(tmp_path / "heir", target) as heir:
        push(heir, 2)
    assert store_of(heir).uploader.failure == ""
    assert restored_values(target, tmp_path / "late") == [1, 2]
    assert verify(target).problems == [] and spans(target)[-1].last == 4


def test_the_writer_passes_over_an_object_that_takes_its_number(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        wait_for_copy(soup)
    stale = (tmp_path / "copy" / object_name(last_number(target))).read_bytes()
    restore_copy(target, tmp_path / "heir", takes_over=True)
    with copied(tmp_path / "heir", target) as heir:
        push(heir, 1)
        wait_for_image(target)
        wait_for_copy(heir)
        number = last_number(target) + 1
        _, facts, payload = stale.split(b"\n", 2)
        content = pack(json.loads(facts) | {"number": number, "previous": "0" * 64}, payload)
        assert target.create(object_name(number), content)
        push(heir, 2)
        wait_for_copy(heir)
    assert read_object(target, number).epoch == 0 and last_number(target) > number
    assert store_of(heir).uploader.failure == ""
    assert restored_values(target, tmp_path / "again") == [1, 2]
    assert verify(target).problems == []


def test_events_that_the_newer_writer_lacks_are_passed_over(tmp_path: Path) -> None:
    """The queue of the older writer was emptied, and it could not make a base image any more."""
    away, full = [False], [False]
    target = FailingTarget(
        tmp_path / "copy",
        lambda operation, name: BEFORE if away[0] or (full[0] and operation == "add_file") else "",
    )
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        push(soup, 1, 2)
    with copied(tmp_path / "data", target, queue_bytes=2_000) as soup:  # no base image is due until events are dropped
        stopped = Stopped(soup)
        away[0] = full[0] = True
        push(soup, *range(3, 60))
        away[0] = False
        looked = Event()
        for _ in range(3_000):
            if read_object(target, last_number(target)).facts.get("last") == soup.store.sequence:
                break
            looked.wait(0.01)
        else:
            raise TimeoutError
        restored = restore_copy(DirectoryTarget(target.place), tmp_path / "heir", takes_over=True)
        assert 4 <= restored.sequence < soup.store.sequence
        push(soup, 60)
        assert stopped.wait(30)
    full[0] = False
    with copied(tmp_path / "heir", target) as heir:
        push(heir, *range(100, 170))
    before = list(range(1, restored.sequence - 1))
    assert restored_values(target, tmp_path / "again") == [*before, *range(100, 170)]
    assert [(span.first <= 4, span.last) for span in spans(target)] == [(True, restored.sequence + 70)]
    assert verify(target).problems == []


def test_the_later_of_two_takeovers_counts(tmp_path: Path) -> None:
    target = FailingTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        push(soup, 1)
    number = object_name(last_number(target) + 1)
    target.fails = lambda operation, name: AFTER if (operation, name) == ("create", number) else ""
    with pytest.raises(Unavailable, match="the reply was lost"):
        restore_copy(target, tmp_path / "none", takes_over=True)
    assert not (tmp_path / "none").exists()
    for heir in ("first", "second"):
        restore_copy(target, tmp_path / heir, takes_over=True)
    assert read_fences(target).epoch == last_number(target)
    with pytest.raises(FailedPrecondition, match="another service took over"), copied(tmp_path / "first", target):
        pass
    with copied(tmp_path / "second", target) as soup:
        push(soup, 2)
    assert restored_values(target, tmp_path / "again") == [1, 2]


def test_the_command_takes_over(tmp_path: Path) -> None:
    target, runner = DirectoryTarget(tmp_path / "copy"), CliRunner()
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    place, heir = str(tmp_path / "copy"), str(tmp_path / "heir")
    result = runner.invoke(app, ["restore", place, heir, "--take-over", "--sequence", "1"])
    assert result.exit_code == 2 and "leave out --at" in result.output
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert runner.invoke(app, ["restore", place, str(tmp_path / "full"), "--take-over"]).exit_code != 0
    assert read_fences(target).last is None, "nothing is fenced by a restore that is refused"
    result = runner.invoke(app, ["restore", place, heir, "--take-over"])
    assert result.exit_code == 0, result.output
    assert f"psoup serve --data-dir {heir} --replicate {place}" in " ".join(result.output.split())
    assert read_fences(target).epoch == last_number(target)
