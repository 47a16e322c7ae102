"""Copies that are watched: they are what an invocation says, also after a drain and a kill, as `Client.watch` gives."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import AnswerCopy, Client, ClientOptions, NotFound, Query, RetryOptions, Synced, Unavailable
from psoup_client.copies.watch import WatchMessages
from psoup_client.errors import DeadlineExceeded, InvalidRequest
from psoup_proto.v1 import sync_pb2
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.copies.copied_rows import older
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.services.zygote import Zygote

MakeStream = Callable[[str], str]
STATEMENTS = [
    "SELECT sym, n FROM {s} WHERE n > 50 BEGIN (NOW - 1 HOUR)",
    "SELECT * FROM {s} WHERE sym <> 'b' BEGIN (NOW - 50 ROWS) END (NOW - 10 ROWS)",
    "SELECT n FROM {s} ORDER BY n DESC, sym BEGIN (START)",
    "SELECT n, upper(sym) FROM {s} WHERE n > 20 LIMIT 17 BEGIN (NOW - 100 ROWS)",
    "SELECT n FROM {s} WHERE n = 7 BEGIN (START)",
    "SELECT sym, count(*), sum(n) FROM {s} GROUP BY sym BEGIN (START)",
]
QUICK = ClientOptions(retry=RetryOptions(first_pause_seconds=0.01, longest_pause_seconds=0.05))


def some(rows: int, draw: random.Random) -> pa.Table:
    return pa.table(
        {
            "sym": [draw.choice(["a", "b", "ç", None]) for _ in range(rows)],
            "n": [draw.randrange(100) for _ in range(rows)],
        }
    )


def same(copy: AnswerCopy, query: Query) -> bool:
    return repr(copy.rows()) == repr(query.invoke().rows())


def follow(changes: Iterator[tuple[AnswerCopy, Synced]], pairs: Sequence[tuple[AnswerCopy, Query]]) -> None:
    """Read changes until all copies are the answers, which do not change meanwhile."""
    while not all(copy.complete and same(copy, query) for copy, query in pairs):
        copy, synced = next(changes)
        assert synced.error is None and any(copy is own for own, _ in pairs)


@pytest.mark.long
def test_watched_copies_are_the_answers(client: Client, make_stream: MakeStream) -> None:
    draw, stream = random.Random(3), make_stream("(sym TEXT, n BIGINT)")
    queries = [client.register(statement.format(s=stream)) for statement in STATEMENTS]
    pairs = [(client.copy(query), query) for query in queries]
    client.push(stream, some(200, draw))
    with client.watch([copy for copy, _ in pairs], progress=1) as changes:
        for rows in (1, 30, 200):
            follow(changes, pairs)
            client.push(stream, some(rows, draw))
        follow(changes, pairs)
        pairs[0][0].sync()  # by itself: the watch goes on with what it holds then
        client.push(stream, some(20, draw))
        pairs[0][0].sync()
        follow(changes, pairs)
    assert list(changes) == []


def test_a_query_that_is_gone_comes_once_as_an_error(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(n BIGINT)")
    one, other = client.register(f"SELECT n FROM {stream}"), client.register(f"SELECT n + 1 AS m FROM {stream}")
    copies = [client.copy(one), client.copy(other)]
    with client.watch(copies) as changes:
        assert {id(copy) for copy, _ in (next(changes), next(changes))} == {id(copy) for copy in copies}
        one.unregister()
        copy, synced = next(changes)
        assert copy is copies[0] and isinstance(synced.error, NotFound)
        client.push(stream, {"n": [1]})
        copy, synced = next(changes)
        assert (copy, synced.came) == (copies[1], 1)
        other.unregister()
        assert [type(synced.error) for _, synced in changes] == [NotFound], "then there is nothing left to watch"


def test_mistakes_are_named(client: Client, make_stream: MakeStream) -> None:
    copy = client.copy(client.register(f"SELECT n FROM {make_stream('(n BIGINT)')}"))
    for copies, progress in (([], 15), ([copy, copy], 15), ([copy], 0), ([copy], 301)):
        with pytest.raises(ValueError, match=r"give|copies"):
            client.watch(copies, progress=progress)


@pytest.mark.long
def test_a_watch_goes_on_after_a_drain(tmp_path: Path, kept_port: KeptPort) -> None:
    service = Serving(Settings(port=kept_port.number), store=DurableStore(tmp_path))
    with Client(service.address, options=QUICK) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        query = client.register("SELECT n FROM s BEGIN (START)")
        client.push("s", {"n": range(10)})
        copy = client.copy(query)
        changes = client.watch([copy])
        assert next(changes)[1].came == 10
        service.stop()
        with serving(Settings(port=kept_port.number), store=DurableStore(tmp_path)), Client(service.address) as other:
            other.push("s", {"n": [10, 11]})
            while len(copy) < 12:
                _, synced = next(changes)
                assert not synced.reset, "it has gone on with its token"
            assert same(copy, other.query(query.id))
            changes.close()


@pytest.mark.long
def test_a_watch_goes_on_after_kill(tmp_path: Path) -> None:
    with Zygote() as zygote:
        zygote.start(str(tmp_path))
        address = zygote.ready()
        with Client(address, options=QUICK) as client, client.watch([_filled(client)]) as changes:
            copy, synced = next(changes)
            assert synced.came == 10
            zygote.kill()
            zygote.start(str(tmp_path), int(address.rpartition(":")[2]))
            zygote.ready()
            with Client(address, options=QUICK) as other:
                other.push("s", {"n": [10]})
            while len(copy) < 11:
                assert not next(changes)[1].reset


def _filled(client: Client) -> AnswerCopy:
    client.create_stream("CREATE STREAM s (n BIGINT)")
    client.push("s", {"n": range(10)})
    return client.copy(client.register("SELECT n FROM s BEGIN (START)"))


def test_a_service_that_stays_away_is_told() -> None:
    with serving() as service, Client(service.address, options=QUICK) as client:
        changes = client.watch([_filled(client)], patience=0.0)
        next(changes)
        service.stop()
        with pytest.raises(Unavailable):
            next(changes)


def test_close_ends_a_wait_of_another_thread(client: Client, make_stream: MakeStream) -> None:
    query = client.register(f"SELECT n FROM {make_stream('(n BIGINT)')}")
    changes = client.watch([client.copy(query)])
    next(changes)
    ended = list[list[tuple[AnswerCopy, Synced]]]()
    waiting = threading.Thread(target=lambda: ended.append(list(changes)))
    waiting.start()
    changes.close()
    waiting.join(60)
    assert ended == [[]]


def test_messages_give_the_wants_anew_when_a_call_begins(client: Client, make_stream: MakeStream) -> None:
    query = client.register(f"SELECT n FROM {make_stream('(n BIGINT)')}")
    begun = list[int]()

    def wants() -> list[sync_pb2.Want]:
        begun.append(1)
        return [sync_pb2.Want(query_id=query.id)]

    messages = WatchMessages(client, wants)
    assert [*next(messages).places] == [0] and len(begun) == 1
    messages.anew()
    assert [*next(messages).places] == [0] and len(begun) == 2
    messages.close()
    assert list(messages) == []


def test_a_call_that_is_over_is_made_anew_without_patience(client: Client, make_stream: MakeStream) -> None:
    query = client.register(f"SELECT n FROM {make_stream('(n BIGINT)')}")
    messages = WatchMessages(client, lambda: [sync_pb2.Want(query_id=query.id)], patience=0.0)

    def over() -> Iterator[sync_pb2.WatchResponse]:
        raise DeadlineExceeded("the call is over")
        yield

    assert [*next(messages).places] == [0]
    messages._replies = over()
    assert [*next(messages).places] == [0]
    messages.close()


@pytest.mark.long
def test_a_service_that_does_not_know_watch_is_asked_again_and_again(
    client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    older(client, monkeypatch)
    draw, stream = random.Random(4), make_stream("(sym TEXT, n BIGINT)")
    client.push(stream, some(3_000, draw))
    queries = [client.register(statement.format(s=stream)) for statement in STATEMENTS]
    pairs = [(client.copy(query), query) for query in queries]
    with client.watch([copy for copy, _ in pairs]) as changes:
        with pytest.warns(UserWarning, match="does not know this call .* older version"):
            follow(changes, pairs)
        for rows in (1, 200):  # a warning would be an error: it is told once
            client.push(stream, some(rows, draw))
            follow(changes, pairs)
        pairs[0][0].sync()
        client.push(stream, some(20, draw))
        follow(changes, pairs)
        queries[0].unregister()
        while (found := next(changes))[1].error is None:
            pass
        assert found[0] is pairs[0][0] and isinstance(found[1].error, NotFound)


def test_too_many_copies_for_one_watch_are_refused_with_the_way_out(client: Client) -> None:
    copies = [client.copy(f"q-{number}") for number in range(1_001)]
    said = "^1,001 copies are too many for one watch, which takes at most 1,000; open a watch for each thousand"
    with pytest.raises(InvalidRequest, match=said) as refused:
        client.watch(copies)
    assert (refused.value.reason, refused.value.facts) == ("TOO_MANY_COPIES", {"limit": "1000", "used": "1001"})
    client.watch(copies[:1_000]).close()
    with pytest.raises(ValueError, match="there is no copy to watch"):
        client.watch([])
