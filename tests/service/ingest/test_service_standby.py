"""A standby follows the copy of a service: it answers all reads, refuses all writes, and needs only the storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from psoup.errors import Internal
from psoup.events.events import Event, Pushed
from psoup_client import Client, FailedPrecondition, Unavailable
from psoup_client.times import to_micros
from psoup_service.host import standby_host
from psoup_service.host.standby_host import StandbyHost
from psoup_service.main import announce
from psoup_service.process.clock import wall_time
from psoup_service.sync.keys import StoredKeys
from psoup_storage import ReplicatedStore, Replication, StandbyStore
from psoup_storage.durable.log.codec import Decoder
from psoup_storage.replica import event_queue, uploader
from psoup_testing.services.copied_service import ONCE
from psoup_testing.services.reply_wait import asked_until
from psoup_testing.services.standby_pair import Pair, last_reach, standby_pair
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with standby_pair(tmp_path) as made:
        yield made


def test_reads_are_answered_as_of_the_last_event(pair: Pair) -> None:
    with Client(pair.writer.address) as writer, Client(pair.standby.address) as reader:
        pair.reach()
        query = writer.query(key="many")
        assert reader.query(query.id).invoke().rows() == [(2,), (3,)]
        done = writer.push("s", {"x": [4]})
        assert reader.query(key="many").invoke(wait_for=done.sequence).rows() == [(2,), (3,), (4,)]
        assert reader.ask("SELECT count(*) FROM s").rows() == [(4,)]
        assert [stream.name for stream in reader.streams()] == ["s"]
        assert reader.info().incarnation == writer.info().incarnation
        assert "as of" in pair.standby.service._notices()


@pytest.mark.seeded("an answer of a standby by its own clock")
def test_now_is_the_time_of_the_last_event(pair: Pair) -> None:
    with Client(pair.writer.address) as writer, Client(pair.standby.address) as reader:
        pair.reach()
        store = pair.standby.service.store
        assert isinstance(store, StandbyStore)
        before = pair.standby.service.clock.now()
        assert before == store.time <= wall_time()
        recent = "SELECT x FROM s BEGIN (NOW - 1 MINUTES)"
        assert reader.ask(recent).rows() == [(1,), (2,), (3,)]
        done = writer.push("s", {"x": [9]})
        assert reader.ask(recent, wait_for=done.sequence).rows()[-1] == (9,)
        assert pair.standby.service.clock.now() > before


@pytest.mark.seeded("NOW of a standby that moves after the event")
def test_now_moves_before_an_event_is_shown(pair: Pair) -> None:
    host, seen = pair.standby.service.host, list[bool]()
    assert isinstance(host, StandbyHost)
    follow = host.follow

    async def watched(events: Sequence[Event]) -> None:
        seen.extend(event.time <= host.clock.now() for event in events if isinstance(event, Pushed))
        await follow(events)

    with Client(pair.writer.address) as writer, patch.object(host, "follow", watched):
        pair.reach()
        writer.push("s", {"x": [9]})
        pair.reach()
    assert seen and all(seen)


def test_the_start_is_in_the_time_of_the_machine_and_names_the_copy(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    service = pair.standby.service
    with Client(pair.standby.address) as reader:
        assert to_micros(reader.info().started) > service.clock.now()
    announce(service)
    assert "this service is a standby, which only reads: it follows " in capsys.readouterr().err


def test_every_write_is_refused(pair: Pair) -> None:
    with Client(pair.standby.address) as reader:
        pair.reach()
        query = reader.query(key="many")
        for write in (
            lambda: reader.push("s", {"x": [1]}),
            lambda: reader.create_stream("CREATE STREAM t (y BIGINT)"),
            lambda: reader.register("SELECT x FROM s"),
            lambda: reader.execute("DROP STREAM s"),
            query.unregister,
        ):
            with pytest.raises(FailedPrecondition, match=r"is a standby, which only reads: it follows .*copy"):
                write()
        assert query.invoke().rows() == [(2,), (3,)]
        assert reader.info().refusing.startswith("this service is a standby, which only reads: it follows ")


@pytest.mark.seeded("a standby that goes on after events that it could not apply")
def test_events_that_cannot_be_applied_end_the_standby(pair: Pair) -> None:
    host = pair.standby.service.host
    pair.reach()
    with Client(pair.writer.address) as writer, patch.object(Decoder, "decode", side_effect=MemoryError):
        writer.push("s", {"x": [4]})
        pair.standby.wait_until(lambda: host.state == "failed")
    with Client(pair.standby.address) as reader:
        assert reader.query(key="many").invoke().rows() == [(2,), (3,)]
    with pytest.raises(Internal):
        pair.standby.stop()
    pair.standby._problem = None


def test_a_read_that_must_show_a_later_event_waits_for_it_and_is_refused(pair: Pair) -> None:
    with Client(pair.writer.address) as writer, Client(pair.standby.address, options=ONCE) as reader:
        pair.reach()
        pair.leave()
        done = writer.push("s", {"x": [4]})
        with (
            patch.object(standby_host, "WAIT_S", 0.2),
            pytest.raises(Unavailable, match=r"has the events up to \d+, and the call asks for event \d+"),
        ):
            reader.query(key="many").invoke(wait_for=done.sequence)
        assert reader.query(key="many").invoke().rows() == [(2,), (3,)]
        pair.away[0] = False
        pair.reach()
        assert reader.query(key="many").invoke(wait_for=done.sequence).rows() == [(2,), (3,), (4,)]


@pytest.mark.seeded("a standby that resets the copy of a later event")
def test_a_copy_goes_on_at_the_standby_and_back(pair: Pair) -> None:
    with Client(pair.writer.address) as writer, Client(pair.standby.address) as reader:
        pair.reach()
        copy = writer.copy(writer.query(key="many").id)
        copy.sync()
        pair.leave()
        writer.push("s", {"x": [4]})
        assert copy.sync().came == 1
        stored = copy.to_bytes()
        at_standby = reader.copy_from(stored)
        with patch.object(standby_host, "WAIT_S", 0.2), pytest.raises(Unavailable, match="has the events up to"):
            at_standby.sync()
        pair.away[0] = False
        pair.reach()
        changes = at_standby.sync()
        assert (changes.reset, changes.came, changes.gone) == ("", 0, 0)
        writer.push("s", {"x": [5]})
        pair.reach()
        assert at_standby.sync().came == 1
        assert copy.sync().came == 1


def test_keys_that_sign_tokens_are_the_writers(pair: Pair) -> None:
    store = pair.writer.service.store
    keys = StoredKeys(pair.standby.service.store)
    before = dict(keys.all)
    assert before == StoredKeys(store).all
    store.note(
        "sync-keys", f"7:{'ab' * 32},{store.noted('sync-keys')}"
    )  # as psoup doctor --rotate-key between two starts
    with Client(pair.writer.address) as writer:
        writer.push("s", {"x": [4]})
    pair.reach()
    assert dict(keys.all) == {7: b"\xab" * 32} | before


def test_what_cannot_be_followed_ends_the_standby(pair: Pair, tmp_path: Path) -> None:
    with Client(pair.writer.address) as writer:
        pair.reach()
        pair.leave()
        for number in range(3):
            writer.push("s", {"x": [number]})
        store = pair.writer.service.store
        assert isinstance(store, ReplicatedStore)
        pair.writer.wait_until(lambda: not store.uploader.lag()[0])
        segment = sorted((tmp_path / "copy" / "log").iterdir())[-1]
        segment.write_bytes(segment.read_bytes()[:-3])
        pair.away[0] = False
        pair.standby.wait_until(lambda: pair.standby.service.host.state == "failed")
        assert "is damaged" in pair.standby.service.host.failure
    with pytest.raises(Internal, match="is damaged"):
        pair.standby.stop()
    pair.standby._problem = None


@pytest.mark.long
def test_a_standby_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    replication = Replication(str(tmp_path / "copy"), 2**24, 3_600, wall_time)
    with (
        patch.multiple(uploader, LOOK_S=0.01),
        patch.object(event_queue, "SEGMENT_S", 0.02),
        serving(store=(store := ReplicatedStore(tmp_path / "data", replication))) as running,
        Client(running.address) as writer,
        Zygote(PSOUP_STANDBY=str(tmp_path / "copy")) as zygote,
    ):
        writer.create_stream("CREATE STREAM s (x BIGINT)")
        writer.register("SELECT x, _id FROM s WHERE x % 3 = 0", key="third")
        running.wait_until(lambda: last_reach(tmp_path / "copy") == store.sequence)
        last = 0
        for turn in range(6):
            zygote.start(str(tmp_path / "standby"))
            with Client(zygote.ready(), timeout=60) as reader:
                for number in range(20):
                    last = writer.push("s", {"x": [100 * turn + number] * 3}).sequence
                assert reader.info().sequence <= store.sequence
            zygote.kill()
        zygote.start(str(tmp_path / "standby"))
        with Client(zygote.ready(), timeout=60) as reader:
            asked_until(lambda: reader.info().sequence, lambda sequence: sequence >= last)
            rows = writer.query(key="third").invoke().rows()
            assert reader.query(key="third").invoke().rows() == rows and len(rows) == 3 * 40
        assert zygote.stop() == 0
