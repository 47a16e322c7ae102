"""Promotions of standbys that are behind, or killed, without storage, and two promotions at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from threading import Event, Lock
from unittest.mock import patch

import pytest

from psoup.errors import Internal
from psoup.errors import Unavailable as CopyAway
from psoup_client import Client, ClientOptions, FailedPrecondition, RetryOptions, Unavailable
from psoup_service.chores import promotion
from psoup_service.process.clock import wall_time
from psoup_storage import ReplicatedStore, Replication, StandbyStore
from psoup_storage.replica import event_queue
from psoup_storage.replica.fences import Fence, read_fences
from psoup_storage.replica.report import verify
from psoup_storage.replica.standby_directory import was_promoted
from psoup_storage.replica.standby_store import News
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.services.promoted_pair import ONCE, Pair, running_pair
from psoup_testing.services.threaded_service import Serving
from psoup_testing.services.zygote import Zygote


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with running_pair(tmp_path) as made:
        yield made


def test_a_standby_that_is_far_behind_says_how_far_it_is(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "FEW", 0)
    holding, reported, original = Event(), Event(), pair.followed.next
    looks: list[object] = []

    def next_unless_holding() -> News | None:
        looks.append(None)
        return None if holding.is_set() else original()

    monkeypatch.setattr(pair.followed, "next", next_unless_holding)
    holding.set()
    count = len(looks)
    pair.standby.wait_until(lambda: len(looks) > count + 1)  # no look from before is under way
    before = pair.followed.sequence
    for number in range(5):
        pair.client.push("s", {"x": [number]})
        pair.writer.wait_until(lambda: pair.store.uploader.reach == pair.store.sequence)
    said = list[tuple[int, int]]()

    def tell(applied: int, last: int) -> None:
        said.append((applied, last))
        if last > before:
            reported.set()

    with ThreadPoolExecutor(1) as pool:
        promoting = pool.submit(pair.reader.promote, progress=tell)
        assert reported.wait(60)
        assert read_fences(DirectoryTarget(pair.copy)).last is None, "it applies first"
        holding.clear()
        assert promoting.result(60).sequence == pair.store.sequence
    assert (before, pair.store.sequence) in said


def test_a_promotion_without_storage_changes_nothing(pair: Pair) -> None:
    pair.standby_away = True
    with pytest.raises(Unavailable, match="the test says so"):
        pair.reader.promote()
    with pytest.raises(FailedPrecondition, match="is a standby"):
        pair.reader.push("s", {"x": [4]})
    pair.standby_away = False
    pair.client.push("s", {"x": [4]})
    pair.reach()
    assert pair.reader.promote().sequence == pair.store.sequence


def test_writes_leave_an_older_writer_that_cannot_reach_the_storage(pair: Pair) -> None:
    """The older writer does not see the fence. It refuses each write, and answers reads."""
    lasting = ClientOptions(retry=RetryOptions(restart_seconds=300, patience_seconds=300))
    addresses = f"{pair.writer.address},{pair.standby.address}"
    with Client(addresses, timeout=300, options=lasting) as client, client.producer("s") as producer:
        producer.push({"x": [4]})
        producer.flush()
        pair.reach()
        pair.away = True
        pair.client.push("s", {"x": [5]})
        pair.store.copy_gate.most_s = 0.0
        with (
            Client(addresses, timeout=300, options=ONCE) as impatient,
            pytest.raises(Unavailable, match=r"(?s)none of the 2 .*nothing is acknowledged.*is a standby") as refused,
        ):
            impatient.push("s", {"x": [6]})
        assert (refused.value.reason, refused.value.retry_after) == ("COPY_BEHIND", 1.0)
        pair.reader.promote()
        client.push("s", {"x": [7]})
        producer.push({"x": [8]})
        producer.flush()
        assert sorted(x for (x,) in pair.reader.ask("SELECT x FROM s").rows()) == [1, 2, 3, 4, 7, 8]


@pytest.mark.seeded("a promotion that is called again fences the service that it has promoted")
def test_a_promotion_whose_fence_was_written_without_a_reply_can_be_called_again(pair: Pair) -> None:
    """The standby reads its fence and writes, while the second call has not looked for fences yet."""
    followed, writes, begin = pair.followed, Event(), pair.followed.begin_promotion
    promote = followed.promote

    def begin_without_reply(id_range: int) -> int:
        begin(id_range)
        raise CopyAway("the reply was lost")

    def begin_after_all(id_range: int) -> int:
        assert not writes.is_set(), "it would fence itself"
        return begin(id_range)

    def promote_and_tell(fence: Fence) -> None:
        promote(fence)
        writes.set()

    with patch.object(followed, "promote", promote_and_tell):
        with (
            patch.object(followed, "begin_promotion", begin_without_reply),
            pytest.raises(Unavailable, match="reply was lost"),
        ):
            pair.reader.promote()
        with patch.object(followed, "begin_promotion", begin_after_all):
            assert pair.reader.promote().number == 1
    assert len([*read_fences(DirectoryTarget(pair.copy))]) == 1
    pair.reader.push("s", {"x": [4]})
    assert pair.followed.uploader is not None
    pair.standby.wait_until(lambda: pair.followed.uploader.reach == pair.followed.sequence)


@pytest.mark.parametrize("seen", ["before the fence is read", "before the directory changes"])
def test_the_earlier_of_two_promotions_follows_on(pair: Pair, seen: str) -> None:
    """The other standby writes its fence after this one."""
    followed, other = pair.followed, StandbyStore(pair.path / "other", pair.replication)
    reading, following, begin, promote = Lock(), followed.next, followed.begin_promotion, followed.promote

    def follow() -> News | None:
        with reading:
            return following()

    def begin_both(id_range: int) -> int:
        with reading:
            number = begin(id_range)
            if seen == "before the fence is read":
                other.begin_promotion(id_range)
            return number

    def promote_too_late(fence: Fence) -> None:
        if seen == "before the directory changes":
            other.begin_promotion(0)
        promote(fence)

    refused = pytest.raises(FailedPrecondition, match=r"another service took over .* this standby follows that one")
    with (
        patch.object(followed, "next", follow),
        patch.object(followed, "begin_promotion", begin_both),
        patch.object(followed, "promote", promote_too_late),
        refused,
    ):
        pair.reader.promote()
    other.close()
    assert pair.reader.info().refusing.startswith("this service is a standby")
    last = read_fences(DirectoryTarget(pair.copy)).last
    assert last is not None
    pair.standby.wait_until(lambda: followed.place.number >= last.number)
    assert pair.standby.service.host.state == "serving" and not was_promoted_of(pair)


def was_promoted_of(pair: Pair) -> bool:
    """Whether the directory of the standby writes, once the standby has ended."""
    pair.standby.stop()
    return was_promoted(pair.path / "standby")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_standby_that_is_killed_at_any_moment_is_promoted_later(tmp_path: Path, seed: int) -> None:
    random, replication = Random(seed), Replication(str(tmp_path / "copy"), 2**24, 3_600, wall_time)
    with (
        patch.object(event_queue, "SEGMENT_S", 0.02),
        ExitStack() as opened,
        Zygote(PSOUP_STANDBY=str(tmp_path / "copy")) as zygote,
    ):
        store = ReplicatedStore(tmp_path / "data", replication)
        running = Serving(store=store)
        writer = opened.enter_context(Client(running.address, timeout=300, options=ONCE))
        writer.create_stream("CREATE STREAM s (x BIGINT)")
        writer.register("SELECT x FROM s", key="all")
        writer.push("s", {"x": [*range(50)]})
        running.wait_until(lambda: store.uploader.reach == store.sequence)
        for _ in range(4):
            zygote.start(str(tmp_path / "standby"))
            address = zygote.ready()
            with ThreadPoolExecutor(1) as pool, Client(address, timeout=300, options=ONCE) as standby:
                asking = pool.submit(standby.promote, timeout=60)
                Event().wait(random.random() * 0.2)
                zygote.kill()
                with suppress(Exception):
                    asking.result(60)
        zygote.start(str(tmp_path / "standby"))
        with Client(zygote.ready(), timeout=20) as heir:
            with suppress(FailedPrecondition):  # it writes already
                heir.promote()
            heir.push("s", {"x": [50]})
            assert heir.query(key="all").invoke().rows() == [(number,) for number in range(51)]
        assert zygote.stop() == 0
        running.wait_until(lambda: running.service.host.state == "failed")
        with pytest.raises(Internal, match="took over the copy"):
            running.stop()
    assert verify(DirectoryTarget(tmp_path / "copy")).problems == []
