"""A standby that is promoted goes on for the same clients: with tokens, positions and IDs up to its last event."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, FailedPrecondition, NotFound
from psoup_client.errors import PositionLost
from psoup_service.chores import promotion
from psoup_service.process.clock import boot_time, wall_time
from psoup_service.process.settings import Settings
from psoup_storage import ReplicatedStore, Replication
from psoup_storage.replica import replicated_store
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.services.promoted_pair import ONCE, Pair, running_pair
from psoup_testing.services.receivers import Receiver
from psoup_testing.services.threaded_service import Serving, serving


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with running_pair(tmp_path) as made:
        yield made


def test_a_promoted_standby_writes_and_copies_on(pair: Pair) -> None:
    reader, last = pair.reader, pair.store.sequence
    result = reader.promote()
    assert (result.sequence, result.number) == (last, 1)
    assert "if there are any, are lost. With replicate_lag_most = off they may be any number" in result.lost
    done = reader.push("s", {"x": [4]})
    assert done.sequence == last + 1
    assert reader.query(key="many").invoke(wait_for=done.sequence).rows() == [(2,), (3,), (4,)]
    info = reader.info()
    assert info.refusing == "" and info.incarnation == pair.store.incarnation
    assert "standby of" not in pair.standby.service._notices()
    copying = replicated_store.uploader_of(pair.followed)
    assert copying is not None
    pair.standby.wait_until(lambda: copying.reach >= done.sequence)
    assert reader.promote() == result, "a repeated call says the same"


def test_a_promoted_standby_acknowledges_what_the_copy_has(tmp_path: Path) -> None:
    with running_pair(tmp_path, remote=True) as pair:
        assert "There are none" in pair.reader.promote().lost
        done, target = pair.reader.push("s", {"x": [4]}), DirectoryTarget(pair.copy)
        assert read_object(target, last_number(target)).facts["reach"] >= done.sequence
        assert pair.reader.query(key="many").invoke().rows() == [(2,), (3,), (4,)]


@pytest.mark.parametrize(
    ("remote", "limit", "said"),
    [
        (False, math.inf, "With replicate_lag_most = off they may be any number. End that service now."),
        (False, 60.0, "They are of its last 60 s (replicate_lag_most) at most"),
        (True, 60.0, "There are none if it had replicate_ack = remote"),
    ],
)
def test_the_reply_says_what_may_be_lost(remote: bool, limit: float, said: str) -> None:
    assert said in promotion.lost(Replication("s3://bucket", 1, 1, wall_time, lag_most_s=limit, remote=remote))


def test_the_time_in_the_reply_is_that_of_the_last_event(pair: Pair) -> None:
    time = pair.followed.place.time
    assert pair.reader.promote().time.timestamp() == pytest.approx(time / 1e6, abs=1e-5)


def test_copies_and_positions_up_to_the_last_event_go_on(pair: Pair) -> None:
    client, reader = pair.client, pair.reader
    copy = client.copy(client.query(key="many").id)
    copy.sync()
    with client.follow("s", after="start") as feed:
        position = next(feed).position
    reader.promote()
    reader.push("s", {"x": [4]})
    at_standby = reader.copy_from(copy.to_bytes())
    changes = at_standby.sync()
    assert (changes.reset, changes.came, changes.gone) == ("", 1, 0)
    assert at_standby.rows() == [(2,), (3,), (4,)]
    with reader.follow("s", after=position) as feed:
        assert next(feed).tuples["x"].to_pylist() == [4]


@pytest.mark.seeded("a token of the lost tail accepted")
def test_a_copy_of_a_lost_event_is_reset(pair: Pair) -> None:
    client, reader = pair.client, pair.reader
    copy = client.copy(client.query(key="many").id)
    copy.sync()
    pair.push_lost(10)
    assert copy.sync().came == 1
    stored = copy.to_bytes()
    reader.promote()
    reader.push("s", {"x": [20]})
    at_standby = reader.copy_from(stored)
    assert at_standby.sync().reset == "data put back"
    assert at_standby.rows() == [(2,), (3,), (20,)]


def test_keys_that_were_changed_before_the_promotion_stay_valid(pair: Pair) -> None:
    """The standby signs no token between the change and its promotion."""
    keys = f"7:{'ab' * 32},{pair.store.noted('sync-keys')}"
    pair.store.note("sync-keys", keys)  # as psoup doctor --rotate-key between two starts
    pair.client.push("s", {"x": [4]})
    pair.reach()
    pair.reader.promote()
    assert pair.standby.service._servicers.sync.tokens.keys[7] == b"\xab" * 32


def test_a_position_of_a_lost_event_is_lost(pair: Pair) -> None:
    client, reader = pair.client, pair.reader
    pair.push_lost(10)
    with client.follow("s", after="start") as feed:
        position = next(feed).position
    reader.promote()
    reader.push("s", {"x": [20]})
    with pytest.raises(PositionLost, match="lacks events") as caught:
        reader.follow("s", after=position)
    assert caught.value.why == "ROLLED_BACK"


@pytest.mark.seeded("an ID of the lost tail given to another query")
@pytest.mark.parametrize("restarted", [False, True])
def test_ids_of_the_lost_tail_name_nothing(pair: Pair, restarted: bool) -> None:
    client = pair.client
    pair.away = True
    lost = client.register("SELECT x FROM s WHERE x > 2", key="lost").id
    lost_stream = client.create_stream("CREATE STREAM gone (y BIGINT)").stream_id
    pair.reader.promote()
    with ExitStack() as opened:
        reader = pair.reader
        if restarted:
            pair.standby.stop()
            store = ReplicatedStore(pair.path / "standby", pair.replication)
            again = opened.enter_context(serving(store=store))
            reader = opened.enter_context(Client(again.address, timeout=300, options=ONCE))
        queries = [reader.register(f"SELECT x FROM s WHERE x < {number}", key=f"k{number}") for number in range(3)]
        streams = [reader.create_stream(f"CREATE STREAM t{number} (y BIGINT)") for number in range(3)]
        assert lost not in [query.id for query in queries]
        assert lost_stream not in [stream.stream_id for stream in streams]
        with pytest.raises(NotFound, match="there is no query"):
            reader.query(lost).invoke()
        assert [query.id for query in reader.queries()] == [reader.query(key="many").id, *(q.id for q in queries)]
        reader.push("t1", {"y": [1]})
        assert reader.ask("SELECT y FROM t1").rows() == [(1,)]
        assert queries[2].invoke().rows() == [(1,)]
        assert reader.query(key="many").invoke().rows() == [(2,), (3,)]


def test_calls_under_way_go_on(pair: Pair) -> None:
    reader = pair.reader
    copy = reader.copy(reader.query(key="many").id)
    with reader.watch([copy]) as watching, reader.follow("s", after="start") as feed:
        assert next(watching)[1].came == 2 and next(feed).tuples["x"].to_pylist() == [2, 3]
        reader.promote()
        with Client(pair.standby.address, timeout=300) as another:
            another.push("s", {"x": [4]})
        assert next(watching)[1].came == 1 and next(feed).tuples["x"].to_pylist() == [4]
        assert copy.rows() == [(2,), (3,), (4,)]


def test_a_service_that_is_no_standby_is_not_promoted(pair: Pair) -> None:
    with pytest.raises(FailedPrecondition, match=r"this service is not a standby, .*: it writes already"):
        pair.client.promote()
    said = CliRunner().invoke(app, ["promote", "--address", pair.writer.address])
    assert said.exit_code == 5 and "is not a standby" in said.output


def test_the_command_says_what_is_lost(pair: Pair) -> None:
    said = CliRunner().invoke(app, ["promote", "--address", pair.standby.address])
    assert said.exit_code == 0, said.output
    assert f"The standby writes from now on. It has everything up to event {pair.store.sequence}" in said.output
    assert "Later events that the older service acknowledged, if there are any, are lost" in said.output
    again = CliRunner().invoke(app, ["promote", "--json", "--address", pair.standby.address])
    assert f'"sequence": {pair.store.sequence}' in again.output


def test_now_is_the_clock_of_the_machine_after_the_promotion(pair: Pair) -> None:
    clock, begun, booted = pair.standby.service.clock, wall_time(), boot_time()
    assert clock.now() == pair.followed.time <= begun
    pair.reader.promote()
    assert clock.now() >= begun and clock.boot() >= booted and not clock.state().pending
    done = pair.reader.push("s", {"x": [9]})
    recent = "SELECT x FROM s BEGIN (NOW - 1 MINUTES)"
    assert pair.reader.ask(recent, wait_for=done.sequence).rows()[-1] == (9,)


@pytest.mark.seeded("a webhook sent by a standby")
def test_work_that_makes_events_begins_with_the_promotion(tmp_path: Path) -> None:
    with Receiver() as receiver, ExitStack() as opened:

        def begin(client: Client) -> None:
            client.execute("CREATE STREAM d AS (SELECT x * 10 AS y FROM s WHERE x > 2)")
            client.add_webhook("many", receiver.url)
            receiver.wait(1)

        settings = Settings(port=0, webhook_hosts=(receiver.origin,))
        pair = opened.enter_context(running_pair(tmp_path, settings, begin))
        client, reader = pair.client, pair.reader
        client.push("s", {"x": [5]})
        receiver.wait(2)
        assert client.ask("SELECT y FROM d").rows() == [(30,), (50,)]
        pair.writer.wait_until(lambda: deliveries(pair.writer) == 2)
        pair.reach()
        assert reader.ask("SELECT y FROM d").rows() == [(30,), (50,)]
        pair.away = True
        reader.promote()
        reader.push("s", {"x": [6]})
        assert reader.ask("SELECT y FROM d").rows() == [(30,), (50,), (60,)]
        came = receiver.until(lambda requests: requests[-1].data["came"] == [{"x": 6}])
        assert [request.data["came"] for request in came[1:]] == [[{"x": 5}], [{"x": 6}]]
        assert reader.add_webhook("many", f"{receiver.url}/2").webhook.url == f"{receiver.url}/2"


def test_queries_that_were_asked_at_the_older_writer_do_not_expire(tmp_path: Path) -> None:
    def begin(client: Client) -> None:
        client.register("SELECT x FROM s", key="brief", expires_after=dt.timedelta(days=1))

    with running_pair(tmp_path, begin=begin) as pair:
        for page in pair.standby.service.host.snapshot().lifetimes._pages.values():
            page.last -= 100  # as if no client had asked for 100 days; the standby does not know better
        pair.reader.promote()
        assert pair.standby.expire() == 0
        assert pair.reader.query(key="brief").invoke().rows() == [(1,), (2,), (3,)]


def test_a_promoted_standby_has_the_tasks_of_a_writer(pair: Pair) -> None:
    tasks = pair.standby.service.regular.supervisor
    before = set(tasks.names)
    pair.reader.promote()
    assert set(tasks.names) - before == set(pair.writer.service.regular.supervisor.names) - before
    assert "standby" in before and not {"copy", "expiry", "watermarks", "row expiry"} & before


def deliveries(running: Serving) -> int:
    """The deliveries of the only webhook that are logged."""
    (webhook,) = running.service.host.snapshot().webhooks.values()
    return webhook.delivered
