"""A standby has the state of the writer after each segment, and says why where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, Internal, InvalidInput, Unavailable
from psoup_storage import DurableStore, StandbyStore
from psoup_storage.durable.directory import AUDIT
from psoup_storage.durable.tools.backup import restore
from psoup_storage.replica import standby_directory, standby_store
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.objects import EVENTS, object_name, pack
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.segments import decode_rows, encode_rows
from psoup_storage.replica.standby_directory import NOTE, PROMOTES, prepare_standby
from psoup_storage.replica.targets import DirectoryTarget, Target
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.copy_target import BEFORE, FailingTarget, copied, copy_at, wait_for_copy
from psoup_testing.engines.format_fixture import START, Soup
from psoup_testing.engines.standby_soup import VisibleTarget, follow, standby, store_of

CREATE = "CREATE STREAM s (at TIMESTAMP, x BIGINT) TIMESTAMP BY at AHEAD 5 MINUTES RETENTION 1 DAY ARCHIVE 9 DAYS"


def push(soup: Soup, *numbers: int) -> None:
    times = pa.array([START + 1_000_000 * number for number in numbers], pa.timestamp("us"))
    soup.push("s", pa.table({"at": times, "x": list(numbers)}))


def shown(soup: Soup) -> Any:
    rows = soup.invoke(1, accept_truncation=True).to_table().to_pylist()
    state = soup.admission.state()
    state.pop("reserved")
    return rows, state, soup.store.sequence


def segment_of(copy: Path, sequence: int) -> int:
    """The number of the segment that has an event."""
    target = DirectoryTarget(copy)
    parts = [read_object(target, number) for number in range(1, last_number(target) + 1)]
    return next(part.number for part in parts if part.kind == EVENTS and part.facts["last"] >= sequence)


def write_behind_the_fence(target: DirectoryTarget) -> None:
    """Write, as the older writer, a segment with an event that no service has decided."""
    last = last_number(target)
    part = next(part for number in range(1, last) if (part := read_object(target, number)).kind == EVENTS)
    rows = [each._replace(row=each.row._replace(sequence=each.row.sequence + 3)) for each in decode_rows(part.payload)]
    sequences = {"after": 3, "first": rows[0].row.sequence, "last": rows[-1].row.sequence}
    facts = part.facts | {"number": last + 1, "previous": read_object(target, last).digest} | sequences
    assert target.create(object_name(last + 1), pack(facts, encode_rows(rows)))


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Soup]:
    """A writer with a query and three tuples, all of it in the copy."""
    with copied(tmp_path / "data", DirectoryTarget(tmp_path / "copy")) as writer:
        writer.execute(CREATE)
        writer.register("SELECT x, _id FROM s")
        push(writer, 1, 2, 3)
        wait_for_copy(writer)
        yield writer


def test_a_standby_goes_on_with_each_segment(copy: Soup, tmp_path: Path) -> None:
    with standby(tmp_path / "standby", DirectoryTarget(tmp_path / "copy")) as soup:
        assert store_of(soup).incarnation == copy.store.incarnation
        assert shown(soup) == shown(copy)
        for number in range(4, 30):
            push(copy, number)
            copy.execute(f"CREATE STREAM t{number} (y BIGINT)")
            copy.unregister(copy.register(f"SELECT y FROM t{number} WHERE y > 2", key=f"k{number}"))
        wait_for_copy(copy)
        assert follow(soup) > 0
        assert shown(soup) == shown(copy)
    push(copy, 31)
    wait_for_copy(copy)
    with standby(tmp_path / "standby", DirectoryTarget(tmp_path / "copy")) as soup:
        assert follow(soup) > 0
        assert shown(soup) == shown(copy)


@pytest.mark.parametrize("note", ["", "torn", '{"number": 1}'])
def test_a_standby_that_lost_its_note_applies_no_event_twice(copy: Soup, tmp_path: Path, note: str) -> None:
    with standby(tmp_path / "standby", DirectoryTarget(tmp_path / "copy")) as soup:
        push(copy, 4)
        wait_for_copy(copy)
        follow(soup)
        store_of(soup).note(NOTE, note)
    with standby(tmp_path / "standby", DirectoryTarget(tmp_path / "copy")) as soup:
        follow(soup)
        assert shown(soup) == shown(copy)


def test_notes_of_the_writer_come_with_the_image_and_with_a_later_start(copy: Soup, tmp_path: Path) -> None:
    place = DirectoryTarget(tmp_path / "copy")
    with standby(tmp_path / "standby", place) as soup:
        assert store_of(soup).noted("lives") == ""
        copy.store.note("lives", "0011223344556677:0", sync=True)
        push(copy, 4)
        wait_for_copy(copy)
        follow(soup)
        assert store_of(soup).noted("lives") == "0011223344556677:0"
    with standby(tmp_path / "another", place) as soup:
        assert store_of(soup).noted("lives") == "0011223344556677:0"


def test_history_that_was_attached_comes_with_the_next_image(copy: Soup, tmp_path: Path) -> None:
    place = DirectoryTarget(tmp_path / "copy")
    with standby(tmp_path / "standby", place) as soup:
        times = [START - 1_000_000 * number for number in range(50, 0, -1)]
        table = pa.table({"at": pa.array(times, pa.timestamp("us")), "x": range(50)})
        write(tmp_path / "job", copy.engine.snapshot().stream("s", copy.tenant).spec, table, times, [20])
        attach(copy, "s", "job", tmp_path / "job")
        wait_for_copy(copy)
        push(copy, 4)
        wait_for_copy(copy)
        with pytest.raises(FailedPrecondition, match=r"event 4 attached history.*the next start takes a newer base"):
            follow(soup)
        assert shown(soup)[2] == 3
    (tmp_path / "standby" / AUDIT).write_text("a call\n")
    with standby(tmp_path / "standby", place) as soup:
        follow(soup)
        assert [row["x"] for row in shown(copy)[0]] == [*range(50), 1, 2, 3, 4]
        assert shown(soup) == shown(copy)
    assert (tmp_path / "standby" / AUDIT).read_text() == "a call\n"


def test_a_standby_without_the_image_that_it_needs_waits_for_it(copy: Soup, tmp_path: Path) -> None:
    target = VisibleTarget(tmp_path / "copy", last_number(DirectoryTarget(tmp_path / "copy")))
    with standby(tmp_path / "standby", target) as soup:
        place = store_of(soup).place
        store_of(soup).note(NOTE, place._replace(gap="events are missing").text(), sync=True)
    before = sorted(path.name for path in (tmp_path / "standby").iterdir())
    with (
        pytest.raises(Unavailable, match=r"has no base image yet .* go on \(events are missing\)"),
        standby(tmp_path / "standby", target),
    ):
        pass
    assert sorted(path.name for path in (tmp_path / "standby").iterdir()) == before


@pytest.mark.seeded("a standby that applies a torn segment")
@pytest.mark.parametrize("damage", ["cut", "flipped", "of another chain"])
def test_a_damaged_segment_is_not_applied(copy: Soup, tmp_path: Path, damage: str) -> None:
    with standby(tmp_path / "standby", DirectoryTarget(tmp_path / "copy")) as soup:
        push(copy, 4)
        wait_for_copy(copy)
        push(copy, 5)
        wait_for_copy(copy)
        file = tmp_path / "copy" / object_name(segment_of(tmp_path / "copy", 5))
        content = bytearray(file.read_bytes())
        if damage == "cut":
            content = content[:-9]
        elif damage == "flipped":
            content[-9] ^= 1
        else:
            content = bytearray(file.with_name(Path(object_name(int(file.name) - 1)).name).read_bytes())
        file.write_bytes(content)
        with pytest.raises(Internal, match="is damaged"):
            follow(soup)
        assert shown(soup)[2] == 4
        assert [row["x"] for row in shown(soup)[0]] == [1, 2, 3, 4]


def test_a_gap_in_the_numbers_is_waited_for(copy: Soup, tmp_path: Path) -> None:
    with standby(tmp_path / "standby", DirectoryTarget(tmp_path / "copy")) as soup:
        push(copy, 4)
        wait_for_copy(copy)
        file = tmp_path / "copy" / object_name(segment_of(tmp_path / "copy", 4))
        push(copy, 5)
        wait_for_copy(copy)
        file.rename(tmp_path / "away")
        follow(soup)
        assert shown(soup)[2] == 3
        (tmp_path / "away").rename(file)
        follow(soup)
        assert shown(soup) == shown(copy)


def test_directories_that_are_not_of_this_standby_are_refused(copy: Soup, tmp_path: Path) -> None:
    place = str(tmp_path / "copy")
    DurableStore(tmp_path / "writer").close()
    with pytest.raises(InvalidInput, match="is the data directory of a service that writes"):
        StandbyStore(tmp_path / "writer", copy_at(place))
    StandbyStore(tmp_path / "standby", copy_at(place)).close()
    with pytest.raises(InvalidInput, match=r"standby of .*; serve it with --standby .* psoup restore .* DIR"):
        DurableStore(tmp_path / "standby")
    with copied(tmp_path / "data 2", DirectoryTarget(tmp_path / "copy 2")) as other:
        other.execute(CREATE)
        wait_for_copy(other)
        with pytest.raises(InvalidInput, match="standby of another service"):
            StandbyStore(tmp_path / "standby", copy_at(str(tmp_path / "copy 2")))
    with pytest.raises(InvalidInput, match="has no copy of a service"):
        StandbyStore(tmp_path / "third", copy_at(str(tmp_path / "nowhere")))
    assert not (tmp_path / "third").exists()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "letter").write_text("dear")
    with pytest.raises(InvalidInput, match="is not empty"):
        StandbyStore(tmp_path / "files", copy_at(place))
    assert (tmp_path / "files" / "letter").read_text() == "dear"


def test_a_directory_that_is_in_use_is_not_made_anew(copy: Soup, tmp_path: Path) -> None:
    place = DirectoryTarget(tmp_path / "copy")
    with standby(tmp_path / "standby", place) as soup:
        store_of(soup).note(NOTE, store_of(soup).place._replace(gap="events are missing").text(), sync=True)
        with pytest.raises(InvalidInput, match="is in use by another service"):
            StandbyStore(tmp_path / "standby", copy_at(place.place))
        assert shown(soup) == shown(copy)


def test_two_first_starts_on_one_directory_at_once_make_it_once(copy: Soup, tmp_path: Path) -> None:
    place, made = DirectoryTarget(tmp_path / "copy"), standby_directory.make_standby

    def make(*parts: Any) -> None:
        with pytest.raises(InvalidInput, match="is in use by another service"):
            StandbyStore(tmp_path / "standby", copy_at(place.place))
        made(*parts)

    with patch.object(standby_directory, "make_standby", make), standby(tmp_path / "standby", place) as soup:
        follow(soup)
        assert shown(soup) == shown(copy)


@pytest.mark.parametrize("moved", [(), ("chunks",), ("chunks", "note-standby"), ("chunks", "note-standby", "psoup.db")])
def test_a_standby_that_was_killed_while_it_was_made_begins_again(
    copy: Soup, tmp_path: Path, moved: tuple[str, ...]
) -> None:
    place = DirectoryTarget(tmp_path / "copy")
    StandbyStore(tmp_path / "whole", copy_at(place.place)).close()
    (tmp_path / "standby").mkdir()
    (tmp_path / "whole").rename(tmp_path / "standby" / "standby.new")
    for name in moved:
        (tmp_path / "standby" / "standby.new" / name).rename(tmp_path / "standby" / name)
    with standby(tmp_path / "standby", place) as soup:
        assert not (tmp_path / "standby" / "standby.new").exists()
        follow(soup)
        assert shown(soup) == shown(copy)


@pytest.mark.parametrize("moved", [(), ("chunks",), ("chunks", "note-standby", "note-promotes")])
def test_a_standby_whose_change_was_cut_off_starts_again_after_an_outage(
    copy: Soup, tmp_path: Path, moved: tuple[str, ...]
) -> None:
    place, path = DirectoryTarget(tmp_path / "copy"), tmp_path / "standby"
    store = StandbyStore(tmp_path / "whole", copy_at(place.place))
    store.note(PROMOTES, "a promotion", sync=True)
    store.close()
    path.mkdir()
    (path / AUDIT).write_text("a call\n")
    (tmp_path / "whole").rename(path / "standby.new")
    for name in moved:
        (path / "standby.new" / name).rename(path / name)
    away = FailingTarget(tmp_path / "copy", lambda operation, name: BEFORE)
    for _ in range(2):
        with pytest.raises(Unavailable), standby(path, away):
            pass
    with standby(path, place) as soup:
        assert store_of(soup).noted(PROMOTES) == "a promotion"
        follow(soup)
        assert shown(soup) == shown(copy)
    assert sorted(entry.name for entry in path.iterdir() if "." in entry.name[1:]) == [AUDIT, "psoup.db"]


def test_a_restore_of_a_standbys_directory_may_write(copy: Soup, tmp_path: Path) -> None:
    StandbyStore(tmp_path / "standby", copy_at(str(tmp_path / "copy"))).close()
    restore(tmp_path / "standby", tmp_path / "writer")
    store = DurableStore(tmp_path / "writer")
    assert store.incarnation != copy.store.incarnation and store.sequence == 3
    store.close()


@pytest.mark.seeded("events before a fence that a standby passes over")
def test_events_before_a_fence_are_followed(copy: Soup, tmp_path: Path) -> None:
    def taken_over(target: Target, path: Path) -> None:
        prepare_standby(target, path)
        push(copy, 4)
        wait_for_copy(copy)
        restore_copy(target, tmp_path / "heir", takes_over=True)

    with (
        patch.object(standby_store, "prepare_standby", taken_over),
        standby(tmp_path / "standby", DirectoryTarget(tmp_path / "copy")) as soup,
    ):
        assert shown(soup)[2] == 3
        with pytest.raises(FailedPrecondition, match="another service took it over"):
            follow(soup)
        assert shown(soup) == shown(copy)


@pytest.mark.seeded("a standby that applies what an older writer wrote behind a fence")
def test_a_standby_goes_on_with_the_service_that_took_the_copy_over(copy: Soup, tmp_path: Path) -> None:
    place = DirectoryTarget(tmp_path / "copy")
    with standby(tmp_path / "standby", place) as soup:
        restore_copy(place, tmp_path / "heir", takes_over=True)
        with pytest.raises(FailedPrecondition, match="another service took it over; the next start"):
            follow(soup)
        assert shown(soup) == shown(copy)
    with standby(tmp_path / "standby", place) as soup:
        write_behind_the_fence(place)
        with copied(tmp_path / "heir", place) as heir:
            push(heir, 4)
            wait_for_copy(heir)
            follow(soup)
            assert shown(soup) == shown(heir)
            assert store_of(soup).incarnation == heir.store.incarnation != copy.store.incarnation
