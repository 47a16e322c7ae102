"""Groups of followers on a real service: shares, confirmations, workers that die, and a service that is killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from psoup_client import (
    Client,
    Conflict,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PositionLost,
    Query,
    RetryOptions,
    Unavailable,
)
from psoup_client.channel.options import ClientOptions
from psoup_client.errors import AlreadyExists
from psoup_testing.services.group_workers import Account, GroupMember, Pair, drain
from psoup_testing.services.threaded_service import Serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.sweeps import swept

Make = Callable[[str], str]


def registered(client: Client, stream: str, count: int = 20) -> list[Query]:
    """Queries of five users; query n matches the rows whose kind is n modulo 4."""
    return [
        client.register(
            f"SELECT * FROM {stream} WHERE kind = ?", [n % 4], key=f"{stream}-{n}", labels={"user": f"u{n % 5}"}
        )
        for n in range(count)
    ]


def pushed(client: Client, stream: str, queries: list[Query], start: int, count: int) -> set[Pair]:
    """Push rows; returns the pairs that they make with the queries."""
    client.push(stream, [{"n": n, "kind": n % 4} for n in range(start, start + count)])
    return {(n, query.id) for n in range(start, start + count) for i, query in enumerate(queries) if i % 4 == n % 4}


def test_workers_share_the_matches_by_labels(client: Client, make_stream: Make, running: Serving) -> None:
    stream = make_stream("(n BIGINT, kind BIGINT)")
    queries = registered(client, stream)
    with client.follow(stream, group="mailer", name="one") as left, client.follow(stream, group="mailer") as right:
        wanted = pushed(client, stream, queries, 0, 40)
        pairs, users = set[Pair](), list[set[str]]()

        def work(worker: Iterator[object]) -> None:
            mine = set[str]()
            users.append(mine)
            for batch in worker:
                assert repr(batch).startswith("<GroupBatch: ")
                mine.update(label["user"] for match in batch for label in match.labels)  # type: ignore[attr-defined]
                pairs.update(zip(*(batch.matches[name].to_pylist() for name in ("tuple_id", "query_id")), strict=True))  # type: ignore[attr-defined]
                if pairs == wanted:
                    done.set()

        done = threading.Event()
        threads = [threading.Thread(target=work, args=(worker,)) for worker in (left, right)]
        for thread in threads:
            thread.start()
        assert done.wait(60), f"lacking: {sorted(wanted - pairs)[:5]}"
        (group,) = client.groups(stream)
        assert sum(worker.partitions for worker in group.workers) == 64
        left.close()
        right.close()
        for thread in threads:
            thread.join()
    if all(users):
        assert not users[0] & users[1], "all matches of a user go to one worker"


def group_lag(running: Serving, stream: str) -> float | None:
    """The metric with the lag of group `mailer`. None without one."""
    labels = {"tenant": "default", "stream": stream, "group": "mailer"}
    return running.service._metrics.registry.get_sample_value("psoup_group_lag_tuples", labels)


def test_a_batch_is_confirmed_by_the_next_one_and_not_by_an_exception(
    client: Client, make_stream: Make, running: Serving
) -> None:
    stream = make_stream("(n BIGINT, kind BIGINT)")
    queries = registered(client, stream, 4)
    with client.follow(stream, group="mailer", after="start") as worker:
        assert worker._first.partitions == 64
    pushed(client, stream, queries, 0, 4)
    for _ in range(2):
        with client.follow(stream, group="mailer") as worker:
            assert [match.tuple["n"] for match in next(worker)] == [0, 1, 2, 3], "it comes again until it is confirmed"
            assert group_lag(running, stream) == 4
    with client.follow(stream, group="mailer") as worker:
        batch = next(worker)
        before = client.last_sequence
        batch.confirm()
        assert client.last_sequence > before, "so the list of groups waits for the confirmation"
        batch.confirm()
    (group,) = client.groups(stream)
    assert (group.next_id, group.lag, group.workers, group.confirmed is None) == (4, 0, (), False)
    assert group_lag(running, stream) == 0
    pushed(client, stream, queries, 4, 1)
    with client.follow(stream, group="mailer") as worker:
        assert [match.tuple["n"] for match in next(worker)] == [4]


@pytest.mark.long
def test_a_worker_whose_lease_is_over_is_told_so(client: Client, make_stream: Make) -> None:
    stream = make_stream("(n BIGINT, kind BIGINT)")
    wanted = pushed(client, stream, [], 0, 0)
    queries = registered(client, stream, 4)
    slow = client.follow(stream, group="mailer", lease=1)
    wanted |= pushed(client, stream, queries, 0, 8)
    late = next(slow)
    with client.follow(stream, group="mailer") as other:
        again = next(other)
        assert again.matches.equals(late.matches), "the batch of the slow worker comes again"
        with pytest.raises(FailedPrecondition, match="the lease of this worker of group 'mailer' is over") as lost:
            late.confirm()
        assert lost.value.reason == "LEASE_LOST"
        again.confirm()
    pushed(client, stream, queries, 8, 1)
    assert [match.tuple["n"] for match in next(slow)] == [8], "the error is raised once"
    slow.close()


def test_bad_requests_are_named(client: Client, make_stream: Make) -> None:
    stream = make_stream("(n BIGINT, kind BIGINT)")
    client.follow(stream, group="mailer").close()
    with pytest.raises(AlreadyExists, match=r"formed with {}, and this worker asks for .*user") as other:
        client.follow(stream, group="mailer", labels={"user": "u1"})
    assert other.value.reason == "OTHER_GROUP" and not isinstance(other.value, Conflict)
    for name in ("", "a b", "x" * 65):
        with pytest.raises(InvalidRequest, match="not a valid name of a group"):
            client.follow(stream, group=name)
    with pytest.raises(InvalidRequest, match="a group begins now"):
        client.follow(stream, "p1-x", group="pager")
    with pytest.raises(ValueError, match="give from 1 to 3,600 seconds"):
        client.follow(stream, group="mailer", lease=0)
    with pytest.raises(NotFound, match="there is no group 'pager'"):
        client.remove_group(stream, "pager")
    count = client.register(f"SELECT count(*) FROM {stream}", key=f"count-{stream}")
    with pytest.raises(InvalidRequest, match=r"not a selection.*watch it"):
        client.follow(stream, group="pager", queries=[count])
    with client.follow(stream, group="mailer") as worker:
        client.remove_group(stream, "mailer")
        assert client.groups(stream) == []
        with pytest.raises(NotFound, match="no group"):
            GroupMember(client, stream, Account(), lease=worker._request.lease, batch=1).confirm()


def test_tuples_that_are_no_longer_kept_are_reported_once(client: Client, make_stream: Make) -> None:
    stream = make_stream("(n BIGINT, kind BIGINT) RETENTION 10 ROWS")
    queries = registered(client, stream, 4)
    client.follow(stream, group="mailer").close()
    pushed(client, stream, queries, 0, 40)
    with client.follow(stream, group="mailer") as worker:
        with pytest.raises(
            PositionLost, match="30 tuples of the stream were no longer kept when group 'mailer'"
        ) as lost:
            next(worker)
        assert (lost.value.missed, lost.value.first_id) == (30, 30)
        assert [match.tuple["n"] for match in next(worker)] == list(range(30, 40))


@pytest.mark.parametrize("after", [False, True], ids=["before the reply", "after it"])
def test_missed_tuples_are_reported_though_their_confirmation_is_interrupted(
    client: Client, make_stream: Make, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    stream = make_stream("(n BIGINT, kind BIGINT) RETENTION 10 ROWS")
    queries = registered(client, stream, 4)
    client.follow(stream, group="mailer").close()
    pushed(client, stream, queries, 0, 40)
    with client.follow(stream, group="mailer") as worker:
        confirm = worker._confirm

        def interrupted(number: int) -> None:
            if after:
                confirm(number)
            raise KeyboardInterrupt

        monkeypatch.setattr(worker, "_confirm", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(worker)
        monkeypatch.undo()
        with pytest.raises(PositionLost, match="30 tuples"):
            next(worker)
        assert [match.tuple["n"] for match in next(worker)] == list(range(30, 40))


@pytest.mark.parametrize(("seed", "steps"), swept([(0, 20), (0, 60), (1, 60), (2, 60)], fast=1))
def test_each_pair_is_told_and_none_after_its_confirmation(
    client: Client, make_stream: Make, seed: int, steps: int
) -> None:
    chance, stream, account = random.Random(seed), make_stream("(n BIGINT, kind BIGINT)"), Account()
    queries, wanted, rows = registered(client, stream), set[Pair](), 0
    members = [GroupMember(client, stream, account) for _ in range(4)]
    members[0].take(confirm=False)
    for _ in range(steps):
        member = chance.choice(members)
        match chance.randrange(6):
            case 0:
                wanted |= pushed(client, stream, queries, rows, count := chance.randrange(1, 6))
                rows += count
            case 1:
                member.confirm()
            case 2 if member.lease:
                member.leave()
            case 3:  # it dies without a word
                members[members.index(member)] = GroupMember(client, stream, account)
            case _:
                member.take(confirm=member.batch != 0 and chance.random() < 0.7)
    drain(members, wanted)
    assert account.given == wanted


def unsure(member: GroupMember) -> None:
    """Confirm a batch of a service that is being killed: it may be confirmed without an acknowledgement."""
    pairs = set(member.pairs)
    try:
        member.confirm()
    except Unavailable:
        member.account.unsure |= pairs


def killed(tmp_path: Path, seed: int, kills: int) -> None:
    """Workers at random, with a service that is killed while some confirmations are under way."""
    chance, account, wanted, rows = random.Random(seed), Account(), set[Pair](), 0
    options = ClientOptions(retry=RetryOptions(attempts=1))
    with Zygote() as zygote:
        zygote.start(str(tmp_path / "data"))
        client = Client(zygote.ready(), options=options)
        client.create_stream("CREATE STREAM s (n BIGINT, kind BIGINT)")
        queries = registered(client, "s")
        members = [GroupMember(client, "s", account) for _ in range(3)]
        members[0].take(confirm=False)
        for _ in range(kills):
            for _ in range(12):
                member = chance.choice(members)
                if chance.random() < 0.3:
                    wanted |= pushed(client, "s", queries, rows, 4)
                    rows += 4
                member.take(confirm=member.batch != 0 and chance.random() < 0.7)
            busy = threading.Thread(target=unsure, args=(members[0],))
            busy.start()
            zygote.kill()
            busy.join()
            client.close()
            zygote.start(str(tmp_path / "data"))
            client = Client(zygote.ready(), options=options)
            for member in members:
                member.client = client
        drain(members, wanted)
        assert account.given == wanted
        client.close()
        assert zygote.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_no_acknowledged_confirmation_is_lost_when_the_service_is_killed(tmp_path: Path, seed: int) -> None:
    killed(tmp_path, seed, 6)
