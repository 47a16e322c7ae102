"""The uploader: every number once, in order, whatever the storage does; and what a restore refuses."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, Internal, InvalidInput
from psoup.events.events import StreamDropped
from psoup_storage import DurableStore
from psoup_storage.replica import event_queue, uploader
from psoup_storage.replica.chain import OWNER, last_number, read_object
from psoup_storage.replica.event_queue import EventQueue
from psoup_storage.replica.objects import object_name, pack
from psoup_storage.replica.restore import RestoredCopy, Wanted, restore_copy
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
    wait_for_base_image,
    wait_for_copy,
)
from psoup_testing.suite.sweeps import swept


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("operation", swept(["create", "add_file", "read"], fast=1))
def test_each_request_may_fail_once(tmp_path: Path, operation: str, when: str) -> None:
    failed = set[str]()

    def fails(request: str, name: str) -> str:
        place = name if name.startswith("log/") else name.partition("/")[0]  # each image has another database
        first = request == operation and place not in failed
        failed.add(place)
        return when if first else ""

    target = FailingTarget(tmp_path / "copy", fails)
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        for value in range(6):
            push(soup, value)
            wait_for_copy(soup)
    assert store_of(soup).uploader.failure == ""
    assert len(target.written) == len(set(target.written)), "something was sent twice"
    assert last_number(target) >= 6 and restored_values(target, tmp_path / "again") == list(range(6))


def test_a_number_that_another_writer_took_ends_the_copy(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    shutil.copytree(tmp_path / "data", tmp_path / "second")
    with copied(tmp_path / "data", target) as soup, copied(tmp_path / "second", target) as other:
        push(soup, 1)
        wait_for_copy(soup)
        push(other, 2)
        other.store.close()
        assert "is taken by another writer" in store_of(other).uploader.failure
        push(soup, 3)
    assert store_of(soup).uploader.failure == ""
    assert restored_values(target, tmp_path / "again") == [1, 3]


def test_an_older_state_of_the_directory_is_refused(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    shutil.copytree(tmp_path / "data", tmp_path / "older")
    with copied(tmp_path / "data", target) as soup:
        push(soup, 1)
    with (
        pytest.raises(FailedPrecondition, match="has events up to 3, and this data directory only up to 2"),
        copied(tmp_path / "older", target),
    ):
        pass
    assert values_in(tmp_path / "older") == [], "its directory cannot be opened any more"


def test_the_copy_of_another_directory_is_refused(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target):
        pass
    with (
        pytest.raises(InvalidInput, match="has the copy of another data directory"),
        copied(tmp_path / "other", target),
    ):
        pass


def test_storage_that_overwrites_objects_is_refused(tmp_path: Path) -> None:
    class Overwriting(DirectoryTarget):
        def create(self, name: str, content: bytes) -> bool:
            (tmp_path / "copy" / name).unlink(missing_ok=True)
            return super().create(name, content)

    with pytest.raises(InvalidInput, match="If-None-Match"), copied(tmp_path / "data", Overwriting(tmp_path / "copy")):
        pass


def test_after_an_outage_a_base_image_has_what_the_queue_dropped(tmp_path: Path) -> None:
    away = [False]
    target = FailingTarget(tmp_path / "copy", lambda operation, name: BEFORE if away[0] else "")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        wait_for_copy(soup)
        push(soup, *range(5))
    with copied(tmp_path / "data", target, queue_bytes=2_000) as soup:  # no base image is due until events are dropped
        away[0] = True
        push(soup, *range(5, 200))
        assert store_of(soup).uploader.queue.dropped > 3
        assert store_of(soup).uploader.queue.waiting() < 20
        away[0] = False
    assert store_of(soup).uploader.failure == ""
    assert restored_values(target, tmp_path / "last") == list(range(200))
    assert restored_values(target, tmp_path / "before", Wanted(sequence=5)) == [0, 1, 2]
    with pytest.raises(InvalidInput, match="were never copied one by one; psoup replica list"):
        restore_copy(target, tmp_path / "between", Wanted(sequence=40))
    assert not (tmp_path / "between").exists()


def test_what_a_crash_kept_from_the_copy_is_in_the_next_base_image(tmp_path: Path) -> None:
    away = [False]
    target = FailingTarget(tmp_path / "copy", lambda operation, name: BEFORE if away[0] else "")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
        push(soup, 1)
        wait_for_copy(soup)
        away[0] = True
        push(soup, 2, 3)
        with patch.object(uploader, "CLOSE_S", 0.0):
            soup.store.close()
    away[0] = False
    assert restored_values(target, tmp_path / "early") == [1]
    with copied(tmp_path / "data", target) as soup:
        push(soup, 4)
    assert restored_values(target, tmp_path / "late") == [1, 2, 3, 4]


def test_a_start_whose_events_are_all_copied_makes_no_base_image(tmp_path: Path) -> None:
    target = FailingTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    before = len([name for name in target.written if name.startswith("files/")])
    for value in range(3):
        with copied(tmp_path / "data", target) as soup:
            push(soup, value)
    assert len([name for name in target.written if name.startswith("files/")]) == before
    assert restored_values(target, tmp_path / "again") == [0, 1, 2]


def test_a_manifest_comes_after_its_files(tmp_path: Path) -> None:
    target = FailingTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target, base_s=0.0) as soup:
        begin(soup)
        for value in range(4):
            push(soup, value)
            wait_for_base_image(soup)
    written = set[str]()
    for name in target.written:
        if name.startswith("log/"):
            part = read_object(target, int(name[4:]))
            assert {f"files/{file[1]}" for file in part.facts.get("files", ())} <= written
        written.add(name)
    assert sum(read_object(target, n).kind == "base" for n in range(1, last_number(target) + 1)) > 2


def first(queue: EventQueue) -> int | None:
    """The event before the oldest one that the copy lacks."""
    behind = queue.behind()
    return None if behind is None else behind[0]


@pytest.mark.seeded("the lag of a copy begins anew when its queue is emptied")
def test_the_copy_is_behind_from_the_oldest_event_that_it_lacks() -> None:
    queue = EventQueue(1_000, lambda: 0)
    event = StreamDropped(1, "default", 7)
    for after in range(3):
        queue.put(after, [event])
    with patch.object(event_queue, "SEGMENT_S", 0.0):
        assert len(queue.take(0.0)) == 3
    assert first(queue) == 0, "they are on their way"
    queue.put(3, [event])
    queue.sent()
    assert first(queue) == 3
    for after in range(4, 9):
        queue.put(after, [event])
    assert queue.dropped == 1 and queue.waiting() < 6 and first(queue) == 3
    with patch.object(event_queue, "SEGMENT_S", 0.0):
        queue.take(0.0)
    queue.sent()
    assert first(queue) == 3, "no base image has the events that were forgotten"
    queue.covered(5)
    assert first(queue) == 3
    queue.covered(6)
    assert first(queue) is None


def test_an_event_larger_than_the_queue_is_no_gap() -> None:
    """The event waits alone. The copy is not behind once it is sent: no base image has to cover anything."""
    queue = EventQueue(100, lambda: 0)
    queue.put(0, [StreamDropped(1, "default", 7)])
    with patch.object(event_queue, "SEGMENT_S", 0.0):
        assert [group.after for group in queue.take(0.0)] == [0]
    queue.sent()
    assert queue.dropped == 0 and first(queue) is None


def test_a_large_commit_takes_several_segments() -> None:
    """So a segment is never larger than a reader takes."""
    queue = EventQueue(2**30, lambda: 0)
    with patch.multiple(event_queue, SEGMENT_S=0.0, SEGMENT_BYTES=600):
        queue.put(4, [StreamDropped(sequence, "default", 7) for sequence in range(5, 10)])
        parts = [queue.take(0.0) for _ in range(4)]
        queue.sent()
    groups = [[(group.after, [event.sequence for event in group.events]) for group in part] for part in parts]
    assert groups == [[(4, [5, 6])], [(6, [7, 8])], [(8, [9])], []]
    assert first(queue) is None


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def swapped(path: Path) -> None:
    """Another object under this name, whole and with a right checksum."""
    _, facts, payload = path.with_name(f"{int(path.name) - 1:015d}").read_bytes().split(b"\n", 2)
    path.write_bytes(pack(json.loads(facts) | {"number": int(path.name)}, payload))


@pytest.mark.parametrize(
    ("damage", "why"),
    swept(
        [
            (flipped, "its checksum is wrong"),
            (torn, "its checksum is wrong"),
            (swapped, "does not follow"),
            (Path.unlink, "is missing"),
        ],
        fast=1,
    ),
)
def test_a_damaged_segment_is_refused(tmp_path: Path, damage: Callable[[Path], None], why: str) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    with copied(tmp_path / "data", target) as soup:  # no base image is due: a restore needs each segment
        for value in range(4):
            push(soup, value)
            wait_for_copy(soup)
    last = last_number(target)
    damage(tmp_path / "copy" / object_name(last - 1))
    with pytest.raises(Internal, match=f"{object_name(last - 1)} is damaged: .*{why}"):
        restore_copy(target, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("damage", [flipped, torn, Path.unlink])
def test_a_damaged_file_of_a_base_image_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    for file in (tmp_path / "copy" / "files").iterdir():
        damage(file)
    with pytest.raises(Internal, match=r"its file psoup.db .* is missing, or has changed"):
        restore_copy(target, tmp_path / "again")


def test_a_restore_needs_a_copy_and_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no copy of a service"):
        restore_copy(str(tmp_path / "none"), tmp_path / "again")
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    with pytest.raises(InvalidInput, match="is not empty"):
        restore_copy(target, tmp_path / "data")
    with pytest.raises(InvalidInput, match="name a later moment"):
        restore_copy(target, tmp_path / "again", Wanted(time=5))
    with pytest.raises(InvalidInput, match="its last event is 2"):
        restore_copy(target, tmp_path / "again", Wanted(sequence=3))
    assert restore_copy(target, tmp_path / "again", Wanted(sequence=2))[:2] == (2, "")
    (tmp_path / "copy" / OWNER).write_text("{}")
    with pytest.raises(InvalidInput, match="is not of a copy of PSoup"):
        restore_copy(target, tmp_path / "third")


def test_a_restored_directory_begins_a_copy_of_its_own(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "copy")
    with copied(tmp_path / "data", target) as soup:
        begin(soup)
    restore_copy(target, tmp_path / "again")
    with (
        pytest.raises(InvalidInput, match="A restored directory has a new incarnation"),
        copied(tmp_path / "again", target),
    ):
        pass
    DurableStore(tmp_path / "again").close()


@pytest.mark.seeded("a restored file that a power cut takes back")
def test_all_files_of_a_restored_directory_are_synced_before_it_counts(tmp_path: Path) -> None:
    target, synced = DirectoryTarget(tmp_path / "copy"), set[int]()
    with copied(tmp_path / "data", target, base_s=0) as soup:
        soup.execute("CREATE STREAM s (x BIGINT)")
        soup.push("s", pa.table({"x": range(300)}))
        soup.maintain()
        push(soup, 1)
        wait_for_base_image(soup)
    sync = os.fsync

    def noted_sync(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        sync(handle)

    def finish(directory: Path, _: RestoredCopy) -> None:
        files = [file for file in directory.rglob("*") if file.is_file()]
        assert any(file.suffix == ".parquet" for file in files) and not {f.stat().st_ino for f in files} - synced

    with patch("os.fsync", noted_sync):
        restore_copy(target, tmp_path / "again", finish=finish)
