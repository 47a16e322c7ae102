"""Followers through a real service: what they are told, positions, resets, restarts and what is refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from psoup_client import (
    Client,
    ClientOptions,
    Following,
    InvalidRequest,
    Match,
    NotFound,
    PositionLost,
    RetryOptions,
    Unavailable,
)
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.services.zygote import Zygote

MakeStream = Callable[[str], str]
QUICK = ClientOptions(retry=RetryOptions(first_pause_seconds=0.01, longest_pause_seconds=0.05))


def numbers(*values: int) -> list[dict[str, int]]:
    return [{"n": value} for value in values]


def matches(following: Following, count: int) -> list[tuple[int, str | None]]:
    """The next pairs of n and a query's key, `count` in all, each batch whole."""
    pairs = list[tuple[int, str | None]]()
    while len(pairs) < count:
        pairs += [(match.tuple["n"], key) for match in next(following) for key in match.keys]
    assert len(pairs) == count
    return pairs


def test_a_batch_has_tuples_with_the_keys_and_labels_of_their_queries(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT, t TEXT)")
    large = client.register(f"SELECT n FROM {stream} WHERE n > 1", key=f"{stream}-large", labels={"user": "u1"})
    every = client.register(f"SELECT n FROM {stream}")
    with client.follow(stream) as following:
        client.push(stream, [{"n": 1, "t": "a"}, {"n": 2, "t": None}])
        batch = next(following)
    assert (len(batch), batch.matches.num_rows, batch.lag, batch.next_id) == (2, 3, 0, 2)
    assert repr(batch) == "<FollowBatch: 2 tuples, 3 matches, lag 0>"
    assert following.position == batch.position
    first, second = batch
    assert isinstance(first, Match)
    assert (first.tuple["_id"], first.tuple["n"], first.tuple["t"]) == (0, 1, "a")
    assert (first.query_ids, first.keys, first.labels) == ([every.id], [None], [{}])
    assert (second.tuple["t"], second.query_ids) == (None, [large.id, every.id])
    assert (second.keys, second.labels) == ([f"{stream}-large", None], [{"user": "u1"}, {}])
    with pytest.raises(StopIteration):
        next(following)


def test_a_follower_begins_now_at_the_start_or_after_a_position(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT)")
    client.register(f"SELECT n FROM {stream}", key=f"{stream}-q")
    client.push(stream, numbers(1, 2, 3))
    with client.follow(stream) as now, client.follow(stream, "start", max_rows=2) as start:
        assert matches(now, 0) == []
        batch = next(start)
        assert [match.tuple["n"] for match in batch] == [1, 2] and batch.lag == 1
        client.push(stream, numbers(4))
        assert [n for n, _ in matches(now, 1)] == [4]
    for _ in range(2):  # a position may be used again
        with client.follow(stream, after=batch.position) as again:
            assert [n for n, _ in matches(again, 2)] == [3, 4]


def test_queries_are_told_from_their_registration_on(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT)")
    keys = [f"{stream}-{letter}" for letter in "abc"]
    label = {"of": stream}
    client.register(f"SELECT n FROM {stream} WHERE n > 0", key=keys[0], labels=label)
    client.push(stream, numbers(1))
    late = client.register(f"SELECT n FROM {stream} WHERE n > 0", key=keys[1], labels=label)
    client.push(stream, numbers(2))
    with client.follow(stream, "start", labels=label) as following, client.follow(stream, "start", old=True) as old:
        assert matches(following, 3) == [(1, keys[0]), (2, keys[0]), (2, keys[1])]
        assert matches(old, 4) == [(1, keys[0]), (1, keys[1]), (2, keys[0]), (2, keys[1])]
        late.unregister()
        client.register(f"SELECT n FROM {stream} WHERE n = 3", key=keys[0], labels=label, replace=True)
        client.register(f"SELECT n FROM {stream} WHERE n = 3", key=keys[2], labels=label)
        client.push(stream, numbers(4, 3))
        assert matches(following, 2) == [(3, keys[0]), (3, keys[2])]
    with client.follow(stream, "start", keys=keys[::2]) as following:
        assert matches(following, 2) == [(3, keys[0]), (3, keys[2])]


def test_moving_windows_are_not_applied_and_fixed_ones_are(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT)")
    client.register(f"SELECT n FROM {stream} BEGIN (NOW - 3 ROWS) END (NOW - 2 ROWS)", key=f"{stream}-moves")
    client.register(f"SELECT n FROM {stream} ORDER BY n LIMIT 1", key=f"{stream}-first")
    client.register(f"SELECT n FROM {stream} BEGIN (TIMESTAMP '2100-01-01 00:00:00')", key=f"{stream}-later")
    client.register(f"SELECT n FROM {stream} BEGIN (START) END (TIMESTAMP '2001-01-01 00:00:00')", key=f"{stream}-past")
    with client.follow(stream) as following:
        client.push(stream, numbers(7, 8))
        assert matches(following, 4) == [(n, f"{stream}-{name}") for n in (7, 8) for name in ("moves", "first")]


def test_what_has_rows_of_its_own_is_refused_or_left_out(client: Client, make_stream: MakeStream) -> None:
    stream, other = make_stream("(n BIGINT)"), make_stream("(n BIGINT)")
    label = {"of": stream}
    client.register(f"SELECT n FROM {stream}", key=f"{stream}-plain", labels=label)
    refused = {
        "count": f"SELECT count(*) FROM {stream}",
        "distinct": f"SELECT DISTINCT n FROM {stream}",
        "join": f"SELECT a.n FROM {stream} a, {other} b WHERE a.n = b.n",
    }
    for name, sql in refused.items():
        query = client.register(sql, key=f"{stream}-{name}", labels=label)
        for named in ({"keys": [f"{stream}-{name}"]}, {"queries": [query]}):
            with pytest.raises(InvalidRequest, match=r"is not a selection: .*watch it instead") as problem:
                client.follow(stream, **named)
            assert problem.value.reason == "NOT_A_SELECTION"
    elsewhere = client.register(f"SELECT n FROM {other}", key=f"{other}-q")
    with pytest.raises(InvalidRequest, match=f"is on another stream than '{stream}'"):
        client.follow(stream, queries=[elsewhere])
    with client.follow(stream, labels=label, progress=True) as following:
        client.push(stream, numbers(1))
        batch = next(batch for batch in following if len(batch))
        assert batch.left_out == 3 and [match.keys for match in batch] == [[f"{stream}-plain"]]


def test_bad_arguments_are_named(client: Client, make_stream: MakeStream) -> None:
    stream, other = make_stream("(n BIGINT)"), make_stream("(n BIGINT)")
    position = client.follow(stream).position
    with pytest.raises(NotFound, match="no stream"):
        client.follow("nothing_here")
    with pytest.raises(NotFound, match="no query with key 'missing'"):
        client.follow(stream, keys=["missing"])
    assert client.follow(stream, position, keys=["missing"]).position == position  # it may have left since
    with pytest.raises(NotFound, match="there is no query 'q-"):
        client.follow(stream, queries=[client.register(f"SELECT n FROM {stream}").id.rpartition("-")[0] + "-999999"])
    with pytest.raises(InvalidRequest, match="max_rows is -1; it must be from 1 to 100,000"):
        client.follow(stream, max_rows=-1)
    with pytest.raises(InvalidRequest, match="name is 'a b'; it may have at most 64 letters"):
        client.follow(stream, name="a b")
    with pytest.raises(ValueError, match="keys has 1,001 names: one follower has at most 1,000; use labels"):
        client.follow(stream, keys=map(str, range(1_001)))
    with pytest.raises(InvalidRequest, match=f"is one in stream '{stream}', not in '{other}'") as problem:
        client.follow(other, position)
    assert problem.value.reason == "POSITION_OF_ANOTHER_STREAM"
    hostile = [
        "begin",
        "p1-",
        "p1-AAAA",
        position[:-1],
        position + "A",
        position.replace("p1-", "p1-A"),
        "é",
        "p1-" + "A" * 9_999,
    ]
    hostile += [position[:20] + ("B" if position[20] != "B" else "C") + position[21:-3] + "AAA"]
    for text in hostile:
        with pytest.raises((InvalidRequest, PositionLost)) as refused:
            client.follow(stream, text)
        assert getattr(refused.value, "reason", "") in ("POSITION_INVALID", "POSITION_LOST")


@pytest.mark.seeded("a position before the oldest tuple goes on in silence")
def test_a_position_of_tuples_that_are_gone_says_what_was_missed(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT) RETENTION 3 ROWS")
    client.register(f"SELECT n FROM {stream}", key=f"{stream}-q")
    following = client.follow(stream)
    following.close()
    client.push(stream, numbers(*range(10)))
    with pytest.raises(PositionLost, match=r"7 tuples after it, from ID 0 on, are not kept") as lost:
        client.follow(stream, following.position)
    assert (lost.value.why, lost.value.missed, lost.value.first_id) == ("NOT_KEPT", 7, 7)
    with client.follow(stream, lost.value.position) as after:
        assert [n for n, _ in matches(after, 3)] == [7, 8, 9]


def test_a_stream_made_anew_is_another_one(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT)")
    following = client.follow(stream)
    client.drop(stream)
    with pytest.raises(NotFound, match="dropped"):
        next(following)
    client.create_stream(f"CREATE STREAM {stream} (n BIGINT)")
    with pytest.raises(PositionLost, match="this is another stream of that name") as lost:
        client.follow(stream, following.position)
    assert (lost.value.why, lost.value.missed) == ("OTHER_STREAM", None)


def told_across(client: Client, restart: Callable[[], None]) -> None:
    """Followers at the newest tuple and behind go on after `restart`, also with what was pushed meanwhile."""
    client.create_stream("CREATE STREAM s (n BIGINT)")
    client.register("SELECT n FROM s WHERE n >= 0", key="all")
    client.push("s", numbers(0))
    with client.follow("s") as newest, client.follow("s", "start", max_rows=1) as behind:
        client.push("s", numbers(1, 2))
        assert matches(newest, 2) == [(1, "all"), (2, "all")]
        assert matches(behind, 1) == [(0, "all")]
        restart()
        client.register("SELECT n FROM s WHERE n = 4", key="four")
        client.push("s", numbers(3, 4))
        assert matches(newest, 3) == [(3, "all"), (4, "all"), (4, "four")]
        left = [matches(behind, 1)[0] for _ in range(5)]
        assert left == [(1, "all"), (2, "all"), (3, "all"), (4, "all"), (4, "four")]


@pytest.mark.long
@pytest.mark.seeded("a follower keeps its place when the service restarts")
def test_followers_go_on_after_a_drain(tmp_path: Path, kept_port: KeptPort) -> None:
    settings = Settings(port=kept_port.number)
    with serving(settings, store=DurableStore(tmp_path)) as first, Client(first.address, options=QUICK) as client:
        again = list[Serving]()

        def restart() -> None:
            first.stop()
            again.append(Serving(settings, store=DurableStore(tmp_path)))

        try:
            told_across(client, restart)
        finally:
            for service in again:
                service.stop()


@pytest.mark.long
def test_followers_go_on_after_a_kill(tmp_path: Path) -> None:
    with Zygote() as zygote:
        zygote.start(str(tmp_path))
        address = zygote.ready()

        def restart() -> None:
            zygote.kill()
            zygote.start(str(tmp_path), int(address.rpartition(":")[2]))
            zygote.ready()

        with Client(address, options=QUICK) as client:
            told_across(client, restart)


@pytest.mark.long
def test_data_that_were_put_back_lose_positions(tmp_path: Path) -> None:
    path, before = tmp_path / "data", tmp_path / "before"
    with serving(store=DurableStore(path)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        client.register("SELECT n FROM s", key="q")
        client.push("s", numbers(1))
        early = client.follow("s").position
    shutil.copytree(path, before)
    with (
        serving(store=DurableStore(path)) as service,
        Client(service.address) as client,
        client.follow("s", early) as following,
    ):
        client.push("s", numbers(2))
        assert matches(following, 1) == [(2, "q")]
        late = following.position
    with serving(store=DurableStore(before)) as service, Client(service.address) as client:
        client.push("s", numbers(3))
        with client.follow("s", early) as following:
            assert matches(following, 1) == [(3, "q")]
        with pytest.raises(PositionLost, match="put back to an earlier state") as lost:
            client.follow("s", late)
        assert (lost.value.why, lost.value.missed, lost.value.first_id) == ("ROLLED_BACK", None, 0)
    with serving() as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        with pytest.raises(PositionLost, match="it is of other data") as lost:
            client.follow("s", late)
        assert lost.value.why == "INCARNATION"


def test_a_follower_that_is_left_behind_is_told_while_it_iterates(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT) RETENTION 3 ROWS")
    client.register(f"SELECT n FROM {stream} WHERE n = 99 OR n < 8", key=f"{stream}-q")
    with client.follow(stream, "start", max_rows=1) as following:
        for start in range(0, 90, 10):
            client.push(stream, numbers(*range(start, start + 10)))
        values, lost = list[int](), list[PositionLost]()
        client.push(stream, numbers(99))
        while 99 not in values:
            try:
                values += [match.tuple["n"] for match in next(following)]
            except PositionLost as problem:
                lost.append(problem)
    assert values == sorted(set(values))
    assert lost == [] or sum(problem.missed or 0 for problem in lost) <= 88


def test_a_service_that_stays_away_is_told() -> None:
    with serving() as service, Client(service.address, options=QUICK) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        following = client.follow("s", patience=0.0)
        service.stop()
        with pytest.raises(Unavailable):
            next(following)


def test_closing_from_another_thread_ends_the_iteration(client: Client, make_stream: MakeStream) -> None:
    following = client.follow(make_stream("(n BIGINT)"))
    closer = threading.Timer(0.05, following.close)
    closer.start()
    assert list(following) == []
    closer.join()
