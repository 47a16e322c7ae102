"""Old objects of a copy are removed, and everything that a restore, a standby or a newer writer needs stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, InvalidInput, Unavailable
from psoup_storage.replica import followed_copy
from psoup_storage.replica.chain import first_number, last_number, read_object
from psoup_storage.replica.fences import counting_object, read_fences
from psoup_storage.replica.objects import NumberedObject, object_name
from psoup_storage.replica.old_objects import OldObjects, ReaderMark
from psoup_storage.replica.rejoin import rejoin
from psoup_storage.replica.report import spans, verify
from psoup_storage.replica.restore import Wanted, base_images, image_files, last_object, restore_copy
from psoup_storage.replica.targets import DirectoryTarget, Target
from psoup_testing.engines.copy_target import begin, copied, push, restored_values, wait_for_copy
from psoup_testing.engines.format_fixture import START, Soup
from psoup_testing.engines.standby_soup import follow, standby, store_of

HOUR_S = 3_600


def images_of(target: Target) -> list[NumberedObject]:
    """The manifests of a copy, the oldest first."""
    return [*base_images(target, last_object(target))][::-1]


def wait_for_image(soup: Soup, target: Target) -> None:
    """Wait until the copy has a base image as of the last event."""
    looked = Event()
    for _ in range(6_000):
        with suppress(Unavailable, InvalidInput):  # it was removed meanwhile, or there is none yet
            image = next(base_images(target, last_object(target)), None)
            if image is not None and image.facts["sequence"] == soup.store.sequence:
                return
        looked.wait(0.01)
    raise TimeoutError


def push_images(soup: Soup, target: Target, *values: int) -> None:
    """Push values to `s`, and wait for a base image after each."""
    for value in values:
        push(soup, value)
        wait_for_image(soup, target)


def age(target: DirectoryTarget, number: int, hours: float) -> None:
    """Let a manifest and its files be older than they are."""
    names = [file.object for file in image_files(read_object(target, number), target.place)]
    for name in [object_name(number), *names]:
        path = Path(target.place) / name
        written = path.stat().st_mtime_ns - round(hours * HOUR_S * 1e9)
        os.utime(path, ns=(written, written))


def remove(target: Target, hours: float = 5) -> int:
    """Remove what is older, as the writer does it after its newest base image."""
    return OldObjects(target, hours * HOUR_S, lambda: False).remove(images_of(target)[-1])


def names_in(place: Path | str) -> set[str]:
    """The names of all objects of a copy."""
    return {file.relative_to(place).as_posix() for file in Path(place).rglob("*") if file.is_file()}


@pytest.fixture
def target(tmp_path: Path) -> DirectoryTarget:
    """A copy with an image after each of the values 1 to 6. The images up to the value 3 are ten hours old.

    All these images have the same chunks. The value n is the event n + 4.
    """
    made = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", made, base_s=0) as soup:
        begin(soup)
        soup.execute("CREATE STREAM stored (x BIGINT)")
        soup.push("stored", pa.table({"x": range(300)}))
        soup.maintain()
        wait_for_image(soup, made)
        push_images(soup, made, *range(1, 7))
    for image in images_of(made):
        if image.facts["sequence"] <= 7:
            age(made, image.number, 10)
    return made


@pytest.mark.seeded("a file of a later image removed with an old one")
@pytest.mark.seeded("a base image older than the segments that were removed")
def test_each_moment_after_the_oldest_image_that_stays_can_be_restored(target: DirectoryTarget, tmp_path: Path) -> None:
    before = names_in(target.place)
    assert remove(target) > 0
    (oldest, *later) = images_of(target)
    assert oldest.facts["sequence"] == 7 and len(later) == 3
    assert first_number(target) == oldest.facts["after"] + 1
    assert [(span.first, span.last) for span in spans(target)] == [(7, 10)]
    assert verify(target).problems == []
    for sequence in range(7, 11):
        values = restored_values(target, tmp_path / f"at {sequence}", Wanted(sequence=sequence))
        assert values == list(range(1, sequence - 3))
    with pytest.raises(InvalidInput, match=r"the oldest base image of .* is of event 7, .*: name a later moment"):
        restore_copy(target, tmp_path / "early", Wanted(sequence=6))
    needed = {file.object for image in images_of(target) for file in image_files(image, target.place)}
    after = names_in(target.place)
    assert {name for name in after if name.startswith("files/")} == needed
    assert all(any(".parquet" in file.name for file in image_files(image, target.place)) for image in images_of(target))
    numbers = [int(name.partition("/")[2]) for name in after if name.startswith("log/")]
    assert min(numbers) == first_number(target) and len(after) < len(before)
    assert remove(target) == 0


def test_files_of_an_image_that_was_not_completed_are_removed(target: DirectoryTarget, tmp_path: Path) -> None:
    def leave(name: str, hours: float) -> str:
        file = tmp_path / "content"
        file.write_bytes(name.encode())
        target.add_file(name, file)
        written = file.stat().st_mtime_ns - round(hours * HOUR_S * 1e9)
        os.utime(Path(target.place) / name, ns=(written, written))
        return name

    digest = "0123456789abcdef" * 4
    old, fresh = leave(f"files/{digest}", 10), leave(f"files/{digest[::-1]}", 4)
    strange = {leave(f"files/{digest}-7000", 10), leave("files/other", 10), leave(f"files/{digest}-x", 10)}
    remove(target)
    assert {fresh, *strange} <= names_in(target.place) and old not in names_in(target.place)
    assert verify(target).problems == []


def test_the_service_goes_on_after_a_removal(target: DirectoryTarget, tmp_path: Path) -> None:
    remove(target)
    number = last_number(target)
    with copied(tmp_path / "data", target, base_s=0) as soup:
        push_images(soup, target, 7, 8)
    assert last_number(target) > number and verify(target).problems == []
    assert restored_values(target, tmp_path / "again") == list(range(1, 9))
    assert remove(target) == 0
    age(target, images_of(target)[1].number, 10)
    assert remove(target) > 0 and verify(target).problems == []
    assert restored_values(target, tmp_path / "later") == list(range(1, 9))


def test_nothing_is_removed_before_its_time(target: DirectoryTarget) -> None:
    before = names_in(target.place)
    assert remove(target, hours=11) == 0
    assert names_in(target.place) == before


def test_a_service_removes_old_objects_by_itself(tmp_path: Path) -> None:
    target, looked = DirectoryTarget(tmp_path / "copy"), Event()
    with copied(tmp_path / "data", target, base_s=0, keep_s=0.0) as soup:
        begin(soup)
        value = 0
        while first_number(target) == 1:
            value += 1
            assert value < 1_000
            push_images(soup, target, value)
            looked.wait(0.01)
    assert verify(target).problems == []
    assert restored_values(target, tmp_path / "again") == list(range(1, value + 1))


@pytest.mark.seeded("a fence removed with old segments")
def test_fences_stay(target: DirectoryTarget, tmp_path: Path) -> None:
    restore_copy(target, tmp_path / "heir", takes_over=True)
    (fence,) = read_fences(target)
    newest = images_of(target)[-1]
    with copied(tmp_path / "heir", target, base_s=0) as heir:
        wait_for_image(heir, target)
        push_images(heir, target, 7, 8)
    images = images_of(target)
    first = next(image for image in images if image.epoch)
    named = {file.object for file in image_files(newest, target.place)}
    sent = [file for file in image_files(first, target.place) if file.object not in named]
    assert sent and all(file.epoch == fence.number for file in sent), "an older writer cannot remove them"
    for image in images[:-1]:
        age(target, image.number, 10)
    assert remove(target) > 0
    assert first_number(target) > fence.number and [*read_fences(target)] == [fence]
    assert verify(target).problems == []
    with pytest.raises(FailedPrecondition, match="another service took over"), copied(tmp_path / "data", target):
        pass
    soup = Soup(tmp_path / "data", START)
    push(soup, 20)
    soup.store.close()
    with pytest.raises(InvalidInput, match=r"were removed from .* \(replicate_keep\)"):
        rejoin(target, tmp_path / "data")
    assert restored_values(target, tmp_path / "early") == list(range(1, 9))
    restore_copy(target, tmp_path / "second", takes_over=True)
    with copied(tmp_path / "second", target) as soup:
        push(soup, 9)
    assert restored_values(target, tmp_path / "late") == list(range(1, 10))
    assert verify(target).problems == []


class EndingTarget(DirectoryTarget):
    """A copy that fails after `left` objects were removed."""

    left = 0

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            if not self.left:
                raise Unavailable("the service ends")
            self.left -= 1
            super().delete([name])


def test_a_removal_that_is_cut_off_anywhere_is_completed(target: DirectoryTarget, tmp_path: Path) -> None:
    shutil.copytree(target.place, tmp_path / "whole")
    whole = DirectoryTarget(tmp_path / "whole")
    total = remove(whole)
    assert total > 5
    for left in range(total):
        place = tmp_path / f"copy {left}"
        shutil.copytree(target.place, place)
        cut = EndingTarget(place)
        cut.left = left
        with pytest.raises(Unavailable):
            remove(cut)
        assert verify(cut).problems == []
        assert spans(cut) == spans(whole)
        remove(DirectoryTarget(place))
        assert names_in(place) == names_in(tmp_path / "whole")


def test_the_mark_of_a_standby_keeps_what_it_needs(target: DirectoryTarget, tmp_path: Path) -> None:
    images = images_of(target)
    ReaderMark(target).renew(images[1].number)
    (mark,) = target.names_after("marks/")
    assert remove(target) > 0
    assert first_number(target) <= images[1].number
    os.utime(Path(target.place) / mark, (0, 0))
    assert remove(target) > 0
    assert first_number(target) > images[1].number
    assert [*target.names_after("marks/")] == []


def test_a_standby_renews_its_mark(target: DirectoryTarget, tmp_path: Path) -> None:
    with standby(tmp_path / "standby", target) as soup:
        follow(soup)
        (mark,) = target.names_after("marks/")
        assert int(mark[6:21]) == store_of(soup).place.number + 1
    reader = ReaderMark(target)
    with patch("psoup_storage.replica.old_objects.RENEW_S", 0.0):
        reader.renew(4)
        reader.renew(5)
    assert [int(name[6:21]) for name in target.names_after("marks/")] == [5]
    reader.remove()
    assert [*target.names_after("marks/")] == []


def test_a_standby_that_is_too_far_behind_begins_again(
    target: DirectoryTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_copy, "REMOVAL_LOOK_S", 0.0)
    with standby(tmp_path / "standby", target) as soup:
        follow(soup)
        with copied(tmp_path / "data", target, base_s=0) as writer:
            push_images(writer, target, 7, 8, 9)
            wait_for_copy(writer)
        for name in target.names_after("marks/"):
            os.utime(Path(target.place) / name, (0, 0))
        for image in images_of(target)[:-1]:
            age(target, image.number, 10)
        remove(target)
        with pytest.raises(FailedPrecondition, match="were removed"):
            follow(soup)
    assert counting_object(target, read_fences(target), last_number(target)).facts["reach"] == 13
    with standby(tmp_path / "standby", target) as soup:
        follow(soup)
        assert store_of(soup).sequence == 13
    assert read_object(target, first_number(target)).number == first_number(target)
