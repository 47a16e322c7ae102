"""A standby that is promoted: a fence for the older writer, all events before it, and a copy that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, Internal, InvalidInput
from psoup_storage import DurableStore, ReplicatedStore, Replication, StandbyStore, open_store
from psoup_storage.replica import standby_store
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.fences import read_fences
from psoup_storage.replica.objects import EVENTS
from psoup_storage.replica.report import spans, verify
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.standby_directory import NOTE, PROMOTES, was_promoted
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.copy_target import (
    BEFORE,
    FailingTarget,
    begin,
    copied,
    copy_at,
    push,
    uploader_in,
    wait_for_copy,
)
from psoup_testing.engines.format_fixture import START, Soup
from psoup_testing.engines.standby_soup import begin_promotion, follow, standby, store_of, take_up, to_fence


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Soup]:
    """A writer with a stream, a query and a tuple, all of it in the copy."""
    with copied(tmp_path / "data", DirectoryTarget(tmp_path / "copy")) as soup:
        begin(soup)
        push(soup, 1)
        wait_for_copy(soup)
        yield soup


@pytest.fixture
def copy(tmp_path: Path) -> DirectoryTarget:
    return DirectoryTarget(tmp_path / "copy")


def ends_fenced(soup: Soup) -> bool:
    """Push to a writer that another one has fenced; returns whether its uploader ends because of the fence."""
    push(soup, 99)
    copying = uploader_in(soup)
    copying._thread.join(60)
    return "another service took over" in copying.failure


def answer(soup: Soup) -> list[int]:
    """The answer of the query of `begin`."""
    return [int(value) for value in soup.invoke(1, accept_truncation=True).to_table()["x"].to_pylist()]


def restored(copy: DirectoryTarget, path: Path) -> list[int]:
    """The answer in a directory that is made of the copy."""
    with standby(path, copy) as soup:
        return answer(soup)


def test_a_promoted_standby_goes_on_with_data_and_copy(writer: Soup, copy: DirectoryTarget, tmp_path: Path) -> None:
    with standby(tmp_path / "standby", copy) as soup:
        push(writer, 2)
        wait_for_copy(writer)
        begin_promotion(soup)
        assert take_up(soup) == 1
        assert store_of(soup).incarnation == writer.store.incarnation and not store_of(soup).follows
        assert ends_fenced(writer)
        push(soup, 4)
        assert answer(soup) == [1, 2, 4]
    assert restored(copy, tmp_path / "restored") == [1, 2, 4]
    assert verify(copy).problems == []
    assert [span.last for span in spans(copy)] == [soup.store.sequence]
    fence = read_fences(copy).last
    assert fence is not None and fence.number > read_object(copy, last_number(copy)).base, "it needs no new base image"
    with copied(tmp_path / "standby", copy) as soup:
        assert soup.store.promotion == 1
        push(soup, 5)
    assert restored(copy, tmp_path / "again") == [1, 2, 4, 5]


@pytest.mark.seeded("a fenced directory goes on because it has the incarnation of the promoted one")
def test_the_directory_of_the_older_writer_does_not_go_on(writer: Soup, copy: DirectoryTarget, tmp_path: Path) -> None:
    with standby(tmp_path / "standby", copy) as soup:
        begin_promotion(soup)
        take_up(soup)
        assert ends_fenced(writer)
    writer.store.close()
    with pytest.raises(FailedPrecondition, match="another service took over"), copied(tmp_path / "data", copy):
        pass


def test_a_promoted_directory_goes_on_with_the_command_of_a_standby(
    writer: Soup, copy: DirectoryTarget, tmp_path: Path
) -> None:
    replication = copy_at(copy.place)
    with standby(tmp_path / "standby", copy) as soup:
        begin_promotion(soup)
        take_up(soup)
    with pytest.raises(InvalidInput, match="is the data directory of a service that writes"):
        StandbyStore(tmp_path / "standby", copy_at(copy.place))
    place = str(tmp_path / "standby")
    store = open_store(place, reserve_bytes=0, replication=replication, standby=copy.place)
    assert isinstance(store, ReplicatedStore) and store.promotion == 1 and not store.follows
    store.close()
    another = open_store(str(tmp_path / "another"), reserve_bytes=0, replication=replication, standby=copy.place)
    assert isinstance(another, StandbyStore) and another.promotion == 0
    another.close()
    with pytest.raises(InvalidInput, match="makes no copy until it is promoted"):
        open_store(str(tmp_path / "third"), reserve_bytes=0, replication=replication, standby="elsewhere")


def test_a_standby_with_settings_that_a_writer_refuses_does_not_start(tmp_path: Path) -> None:
    replication = Replication(str(tmp_path / "copy"), 2**20, 3_600, lambda: START, remote=True)
    with pytest.raises(InvalidInput, match="replicate_ack = remote needs object storage"):
        StandbyStore(tmp_path / "standby", replication)


def test_a_restored_copy_of_a_promoted_writer_was_not_promoted(
    writer: Soup, copy: DirectoryTarget, tmp_path: Path
) -> None:
    with standby(tmp_path / "standby", copy) as soup:
        begin_promotion(soup)
        take_up(soup)
        push(soup, 2)
    with copied(tmp_path / "standby", copy):
        pass
    restore_copy(copy, tmp_path / "restored")
    with standby(tmp_path / "another", copy) as soup:
        assert (soup.store.promotion, store_of(soup).follows, answer(soup)) == (0, True, [1, 2])
    store = DurableStore(tmp_path / "restored")
    assert (store.promotion, store.writer) == (0, "") and store.incarnation != writer.store.incarnation
    store.close()


def test_promotions_end_where_ids_end(writer: Soup, copy: DirectoryTarget, tmp_path: Path) -> None:
    with (
        patch.object(standby_store, "MOST_PROMOTIONS", 0),
        standby(tmp_path / "standby", copy) as soup,
        pytest.raises(FailedPrecondition, match=r"were promoted 0 times, .* psoup restore .* --take-over"),
    ):
        begin_promotion(soup)
    assert read_fences(copy).last is None


# Several standbys ---------------------------------------------------------------------------------------------


def test_a_standby_follows_the_one_that_is_promoted(writer: Soup, copy: DirectoryTarget, tmp_path: Path) -> None:
    with standby(tmp_path / "a", copy) as first, standby(tmp_path / "b", copy) as second:
        begin_promotion(first)
        take_up(first)
        first.store.note("lives", "0011223344556677:3", sync=True)
        push(first, 2)
        wait_for_copy(first)
        follow(second)
        assert answer(second) == [1, 2] and second.store.sequence == first.store.sequence
        assert second.store.noted("lives") == "0011223344556677:3"
        second.store.note(NOTE, "")
    with standby(tmp_path / "b", copy) as second:  # it reads the fence again
        follow(second)
        assert answer(second) == [1, 2]


def test_of_two_promotions_at_once_the_later_one_counts(writer: Soup, copy: DirectoryTarget, tmp_path: Path) -> None:
    with standby(tmp_path / "a", copy) as first, standby(tmp_path / "b", copy) as second:
        begin_promotion(first)
        begin_promotion(second)
        assert to_fence(first) is None and store_of(first).follows
        assert take_up(second) == 2
        push(second, 2)
        wait_for_copy(second)
        follow(first)
        assert answer(first) == [1, 2]
    assert verify(copy).problems == []


def test_a_promotion_that_comes_later_is_seen_before_the_directory_changes(
    writer: Soup, copy: DirectoryTarget, tmp_path: Path
) -> None:
    with standby(tmp_path / "a", copy) as first, standby(tmp_path / "b", copy) as second:
        begin_promotion(first)
        fence = to_fence(first)
        assert fence is not None
        begin_promotion(second)
        with pytest.raises(FailedPrecondition, match="another service took over"):
            store_of(first).promote(fence)
        assert store_of(first).follows
        take_up(second)
    assert not was_promoted(tmp_path / "a") and was_promoted(tmp_path / "b")


def test_a_promoted_writer_is_fenced_by_the_next_promotion(writer: Soup, copy: DirectoryTarget, tmp_path: Path) -> None:
    with standby(tmp_path / "a", copy) as first, standby(tmp_path / "b", copy) as second:
        begin_promotion(first)
        assert take_up(first) == 1
        push(first, 2)
        wait_for_copy(first)
        begin_promotion(second)
        assert take_up(second) == 2
        assert ends_fenced(first)
        assert answer(second) == [1, 2]
    with pytest.raises(FailedPrecondition, match="another service took over"), copied(tmp_path / "a", copy):
        pass


# Events that cannot be followed one by one --------------------------------------------------------------------

CREATE = "CREATE STREAM h (at TIMESTAMP, x BIGINT) TIMESTAMP BY at AHEAD 5 MINUTES RETENTION 1 DAY ARCHIVE 9 DAYS"


def attach_history(soup: Soup, path: Path) -> None:
    times = [START - 1_000_000 * number for number in range(50, 0, -1)]
    table = pa.table({"at": pa.array(times, pa.timestamp("us")), "x": range(50)})
    write(path / "job", soup.engine.snapshot().stream("h", soup.tenant).spec, table, times, [20])
    attach(soup, "h", "job", path / "job")


def test_events_in_a_base_image_before_the_fence_come_with_the_next_start(
    writer: Soup, copy: DirectoryTarget, tmp_path: Path
) -> None:
    writer.execute(CREATE)
    query_id = writer.register("SELECT x FROM h BEGIN (START)")
    wait_for_copy(writer)
    with standby(tmp_path / "standby", copy) as soup:
        follow(soup)
        attach_history(writer, tmp_path)
        wait_for_copy(writer)
        begin_promotion(soup)
        with pytest.raises(FailedPrecondition, match="the next start takes a newer base"):
            to_fence(soup)
    with standby(tmp_path / "standby", copy) as soup:
        assert take_up(soup) == 1
        rows = soup.invoke(query_id, accept_truncation=True).to_table()["x"].to_pylist()
        assert rows == [*range(50)]


@pytest.mark.parametrize("noted", [False, True])
def test_events_before_a_fence_that_count_no_more_are_left_out(tmp_path: Path, noted: bool) -> None:
    """The history is in no base image. `noted`: the standby met it before the fence was there."""
    away = [False]
    target = FailingTarget(
        tmp_path / "copy", lambda operation, _: BEFORE if away[0] and operation == "add_file" else ""
    )
    with ExitStack() as opened:
        writer = opened.enter_context(copied(tmp_path / "data", target))
        begin(writer)
        push(writer, 1)
        writer.execute(CREATE)
        wait_for_copy(writer)
        soup = opened.enter_context(standby(tmp_path / "standby", target))
        away[0] = True
        push(writer, 2)
        attach_history(writer, tmp_path)
        reach_segment(writer)
        if noted:
            with pytest.raises(FailedPrecondition, match="attached history"):
                follow(soup)
            begin_promotion(soup)
            soup.store.close()
            soup = opened.enter_context(standby(tmp_path / "standby", target))
        else:
            begin_promotion(soup)
        away[0] = False
        take_up(soup)
        assert answer(soup) == [1, 2]


def reach_segment(soup: Soup) -> None:
    """Wait until the events are in segments, with or without a base image."""
    copying, looked = uploader_in(soup), Event()
    for _ in range(3_000):
        if copying._run is not None and copying._run[1] == soup.store.sequence and not copying.queue.waiting():
            return
        looked.wait(0.01)
    raise TimeoutError(copying.trouble)


# A process that ends ------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


class DyingTarget(DirectoryTarget):
    """A copy in a directory. The process ends at a `moment`."""

    moment = ""

    def create(self, name: str, content: bytes) -> bool:
        kind = name.partition("/")[0]
        if self.moment == f"before {kind}":
            raise Killed
        created = super().create(name, content)
        if self.moment == f"after {kind}":
            raise Killed
        return created


def promote(soup: Soup) -> None:
    begin_promotion(soup)
    take_up(soup)


@pytest.mark.parametrize(
    "moment", ["before fences", "after fences", "before log", "after log", "before the mark", "after the mark"]
)
def test_a_process_that_ends_meanwhile_leaves_a_standby_or_a_writer(
    writer: Soup, copy: DirectoryTarget, tmp_path: Path, moment: str
) -> None:
    target = DyingTarget(tmp_path / "copy")
    with ExitStack() as opened:
        soup = opened.enter_context(standby(tmp_path / "standby", target))
        target.moment = moment
        if moment == "before the mark":
            opened.enter_context(patch.object(standby_store, "mark_promoted", side_effect=Killed))
        elif moment == "after the mark":
            opened.enter_context(patch.object(StandbyStore, "copy_by", side_effect=Killed))
        with pytest.raises((Killed, Internal)):
            promote(soup)
    fence = read_fences(copy).last
    assert (fence is None) == (moment in ("before fences", "after fences", "before log"))
    assert was_promoted(tmp_path / "standby") == (moment == "after the mark")
    if moment == "after the mark":
        with copied(tmp_path / "standby", copy) as soup:
            push(soup, 2)
    else:
        with standby(tmp_path / "standby", copy) as soup:
            if fence is None:
                push(writer, 7)
                wait_for_copy(writer)
                assert to_fence(soup) is None
                assert answer(soup) == [1, 7] and store_of(soup).follows
                begin_promotion(soup)
            take_up(soup)
            push(soup, 2)
            assert soup.store.noted(PROMOTES) == ""
    assert restored(copy, tmp_path / "restored") == ([1, 7, 2] if fence is None else [1, 2])


def test_a_fence_whose_reply_was_lost_promotes_the_standby(writer: Soup, copy: DirectoryTarget, tmp_path: Path) -> None:
    target = DyingTarget(tmp_path / "copy")
    with standby(tmp_path / "standby", target) as soup:
        target.moment = "after log"
        with pytest.raises(Killed):
            begin_promotion(soup)
        target.moment = ""
        begin_promotion(soup)
        assert take_up(soup) == 1, "it finds its fence again"
        push(soup, 2)
        assert answer(soup) == [1, 2]


def test_times_in_the_copy_do_not_go_back_with_another_clock(
    writer: Soup, copy: DirectoryTarget, tmp_path: Path
) -> None:
    """The clock of the promoted standby is an hour behind."""
    behind = Replication(copy.place, 2**20, 3_600, lambda: START - 3_600_000_000)
    with standby(tmp_path / "standby", copy) as soup:
        store_of(soup).replication = behind
        promote(soup)
        push(soup, 2)
        wait_for_copy(soup)
    segments = [read_object(copy, number) for number in range(1, last_number(copy) + 1)]
    times = [part.facts["time"] for part in segments if part.kind == EVENTS]
    assert times == sorted(times) and times[-1] == START
