"""Copies of answers: after each sync they are what an invocation says, and only what has changed has come."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_client import Client, InvalidData, InvalidRequest, NotFound, ResourceExhausted
from psoup_client.copies.places import placed
from psoup_proto.v1 import sync_pb2
from psoup_service.process.settings import Settings
from psoup_service.servicers import sync as servicer
from psoup_storage import DurableStore
from psoup_testing.copies.copied_rows import same, some, token_of
from psoup_testing.oracles.questions import again
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import serving

MakeStream = Callable[[str], str]
STATEMENTS = [
    "SELECT sym, price FROM {s} WHERE n > 50 BEGIN (NOW - 1 HOUR)",
    "SELECT * FROM {s} WHERE sym <> 'b' BEGIN (NOW - 50 ROWS) END (NOW - 10 ROWS)",
    "SELECT n FROM {s} WHERE price IS NULL ORDER BY sym DESC, price, n DESC BEGIN (START)",
    "SELECT n FROM {s} ORDER BY price DESC NULLS FIRST, sym NULLS FIRST BEGIN (START)",
    "SELECT n FROM {s} ORDER BY price BEGIN (START)",
    "SELECT n, upper(sym) FROM {s} WHERE n > 20 LIMIT 17 BEGIN (NOW - 100 ROWS)",
    "SELECT n FROM {s} ORDER BY n LIMIT 5 BEGIN (START)",
    "SELECT DISTINCT sym FROM {s} BEGIN (START)",
    "SELECT DISTINCT sym, price FROM {s} ORDER BY price DESC, sym LIMIT 8 OFFSET 1 BEGIN (NOW - 90 ROWS)",
    "SELECT sym, count(*), sum(n) FROM {s} GROUP BY sym BEGIN (START)",
    "SELECT a.n FROM {s} AS a, {s} AS b WHERE a.n = b.n AND a.price > b.price",
    "SELECT n FROM {s} LIMIT 3 OFFSET 2 BEGIN (START)",
    "SELECT n, now() AS t FROM {s} WHERE n > 98 BEGIN (START)",
]


@pytest.fixture
def stream(make_stream: MakeStream) -> str:
    return make_stream("(sym TEXT, price DOUBLE, n BIGINT)")


def test_copies_are_the_answers(client: Client, stream: str) -> None:
    draw = random.Random(5)
    queries = [client.register(statement.format(s=stream)) for statement in STATEMENTS[:-1]]
    copies = [client.copy(query) for query in queries]
    client.push(stream, some(300, draw))
    for rows in (0, 1, 0, 7, 40, 200):
        if rows:
            client.push(stream, some(rows, draw))
        told = client.sync(copies)
        assert all(synced.complete and synced.error is None for synced in told)
        for copy, query in zip(copies, queries, strict=True):
            same(copy, query)
        alone = [synced for synced, statement in zip(told, STATEMENTS[:-1], strict=True) if " AS b" not in statement]
        assert all(synced.came <= rows or synced.reset for synced in alone), "rows came that had come before"


def test_an_answer_that_shows_now_comes_whole_each_time(client: Client, stream: str) -> None:
    query = client.register(STATEMENTS[-1].format(s=stream))
    client.push(stream, some(300, random.Random(6)))
    copy = client.copy(query)
    assert copy.sync().reset == "first"
    again = copy.sync()
    assert (again.reset, again.came) == ("whole", len(copy)) and len(copy)


def test_nothing_new_costs_a_few_bytes(client: Client, stream: str) -> None:
    queries = [client.register(f"SELECT * FROM {stream} WHERE n > {n} BEGIN (START)") for n in range(50)]
    client.push(stream, some(500, random.Random(7)))
    copies = [client.copy(query) for query in queries]
    client.sync(copies)
    request = sync_pb2.SyncRequest(
        wants=[sync_pb2.Want(token=token_of(copy)) for copy in copies], compression=sync_pb2.COMPRESSION_ZSTD
    )
    reply = client.connection.call(client.connection.sync.Sync, request, 30.0)
    assert request.ByteSize() < 5_000 and reply.ByteSize() < 1_500
    assert all(not synced.came and not synced.reset and synced.complete for synced in client.sync(copies))


def test_the_body_of_a_reply_is_the_same_however_it_is_compressed(client: Client, stream: str) -> None:
    query = client.register(f"SELECT * FROM {stream} BEGIN (START)")
    pushed = client.push(stream, some(500, random.Random(8)))
    for compression, opened in ((0, bytes), (1, pa.Codec("zstd").decompress), (2, gzip.decompress)):
        wants = [sync_pb2.Want(query_id=query.id)]
        request = sync_pb2.SyncRequest(wants=wants, compression=compression, min_sequence=pushed.sequence)
        reply = client.connection.call(client.connection.sync.Sync, request, 30.0)
        raw = opened(reply.body, reply.size) if compression == 1 else opened(reply.body)
        assert (reply.compression, reply.size) == (compression, len(raw))
        assert bool(compression) == (len(reply.body) < len(raw))
        (outcome,) = sync_pb2.SyncBody.FromString(bytes(raw)).outcomes
        assert outcome.change.rows == 500


def test_a_small_budget_brings_the_newest_first(client: Client, stream: str) -> None:
    query = client.register(f"SELECT _id, n FROM {stream} BEGIN (START)")
    client.push(stream, {"n": range(4_000)})
    copy, calls = client.copy(query), 0
    whole = query.invoke().rows()
    while not copy.complete:
        synced = copy.sync(max_bytes=8_000)
        calls += 1
        assert copy.rows() == whole[len(whole) - len(copy) :]
        assert synced.complete == (synced.left == 0)
    assert calls > 1
    assert copy.rows() == whole


def test_replies_have_room_for_some_copies(client: Client, stream: str) -> None:
    client.push(stream, {"n": range(3_000)})
    queries = [client.register(f"SELECT n, n + {k} AS m FROM {stream} BEGIN (START)") for k in range(8)]
    copies = [client.copy(query) for query in queries]
    told = client.sync(copies, max_bytes=40_000)
    assert [synced.complete for synced in told] == sorted([synced.complete for synced in told], reverse=True)
    assert 0 < sum(synced.complete for synced in told) < 8
    assert all(synced.complete for synced in client.sync(copies))
    for copy, query in zip(copies, queries, strict=True):
        same(copy, query)


def test_a_want_may_have_less_room_than_the_reply(client: Client, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "MANY_S", 600.0)
    client.push(stream, {"n": range(3_000)})
    first, second, groups = (
        client.register(f"SELECT {what} FROM {stream} {rest} BEGIN (START)").id
        for what, rest in (("n", ""), ("n + 1", ""), ("n, count(*)", "GROUP BY n"))
    )
    wants = [
        sync_pb2.Want(query_id=first, max_bytes=2_000),
        sync_pb2.Want(query_id=groups, max_bytes=2_000),
        sync_pb2.Want(query_id=second),
    ]
    reply = client.connection.call(client.connection.sync.Sync, sync_pb2.SyncRequest(wants=wants), 30.0)
    part, first_rows, rest = (outcome.change for outcome in sync_pb2.SyncBody.FromString(reply.body).outcomes)
    for change in (part, first_rows):
        assert not change.complete and len(change.columns_json) <= 2_000 < 4 * len(change.columns_json)
    assert (rest.complete, rest.rows) == (True, 3_000), "nothing waits for them"


def test_a_want_with_less_room_than_a_row_gets_one(
    client: Client, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servicer, "MANY_S", 600.0)
    client.push(stream, {"n": range(3_000)})
    queries = [
        client.register(f"SELECT {what} FROM {rest} BEGIN (START)").id
        for what, rest in (
            ("n", stream),
            ("n, count(*)", f"{stream} GROUP BY n"),
            ("a.n", f"{stream} AS a, {stream} AS b WHERE a.n = b.n"),
        )
    ]
    wants = [sync_pb2.Want(query_id=query, max_bytes=1) for query in queries]
    reply = client.connection.call(client.connection.sync.Sync, sync_pb2.SyncRequest(wants=wants), 30.0)
    changes = [outcome.change for outcome in sync_pb2.SyncBody.FromString(reply.body).outcomes]
    assert [(change.rows, change.complete) for change in changes] == [(1, False)] * 3


def test_a_copy_is_stored_and_goes_on(client: Client, stream: str) -> None:
    query = client.register(
        f"SELECT n, price FROM {stream} WHERE n > 10 ORDER BY n DESC BEGIN (START)", key=f"{stream}/k"
    )
    client.push(stream, some(100, random.Random(8)))
    copy = client.copy(key=f"{stream}/k", window="BEGIN (NOW - 60 ROWS)")
    assert copy.query_id == "" and "holds nothing yet" in _refused(copy.to_arrow)
    assert len(client.copy_from(copy.to_bytes())) == 0
    copy.sync()
    assert copy.query_id == query.id
    stored = client.copy_from(copy.to_bytes())
    assert repr(stored.rows()) == repr(copy.rows())
    assert (stored.query_id, stored.key, stored.now, stored.complete) == (query.id, copy.key, copy.now, True)
    client.push(stream, some(5, random.Random(9)))
    synced = stored.sync()
    assert synced.came <= 5 and not synced.reset
    assert repr(stored.rows()) == repr(again(query.invoke, window="BEGIN (NOW - 60 ROWS)").rows())
    data = copy.to_bytes()
    for wrong in (b"", b"x", data[:100], data.replace(b"psoup copy 1", b"psoup copy 9")):
        assert "not a valid copy of an answer" in _refused(partial(client.copy_from, wrong))


def _refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InvalidData) as refused:
        call()
    return refused.value.message


def test_what_is_wrong_with_a_query_leaves_its_copy(client: Client, stream: str) -> None:
    twice = client.copy(client.register(f"SELECT n FROM {stream} WHERE n > 4 BEGIN (START)"))
    client.push(stream, {"n": range(10)})
    assert [synced.came for synced in client.sync([twice, twice])] == [5, 0], "a copy that is given twice"
    assert len(twice) == 5
    gone, stays = (client.register(f"SELECT n FROM {stream} BEGIN (START)") for _ in range(2))
    copies = [client.copy(gone), client.copy(stays), client.copy("q-00000000-1")]
    client.sync(copies)
    client.unregister(gone)
    client.push(stream, {"n": [1]})
    first, second, third = client.sync(copies)
    assert isinstance(first.error, NotFound) and isinstance(third.error, NotFound)
    assert (len(copies[0]), len(copies[1]), second.came) == (10, 11, 1)
    with pytest.raises(NotFound, match=f"there is no query '{gone.id}'"):
        copies[0].sync()


def test_tokens_of_others_are_refused(client: Client, stream: str) -> None:
    one, other = (client.register(f"SELECT n FROM {stream} WHERE n > {k} BEGIN (START)") for k in range(2))
    client.push(stream, {"n": range(10)})
    copy = client.copy(one)
    copy.sync()
    token = token_of(copy)
    for reason, want in (
        ("TOKEN_QUERY", sync_pb2.Want(query_id=other.id, token=token)),
        ("TOKEN_INVALID", sync_pb2.Want(query_id=one.id, token=token[:-1] + bytes([token[-1] ^ 1]))),
        ("INVALID_INPUT", sync_pb2.Want()),
        ("INVALID_INPUT", sync_pb2.Want(query_id=one.id, max_rows=-1)),
        ("INVALID_INPUT", sync_pb2.Want(query_id=one.id, max_bytes=-1)),
        ("INVALID_INPUT", sync_pb2.Want(query_id=one.id, key="k")),
    ):
        reply = client.connection.call(client.connection.sync.Sync, sync_pb2.SyncRequest(wants=[want]), 30.0)
        (outcome,) = sync_pb2.SyncBody.FromString(reply.body).outcomes
        assert (outcome.failure.code, outcome.failure.reason) == (3, reason)
    want = sync_pb2.Want(token=token, window="BEGIN (NOW - 3 ROWS)")
    reply = client.connection.call(client.connection.sync.Sync, sync_pb2.SyncRequest(wants=[want]), 30.0)
    (outcome,) = sync_pb2.SyncBody.FromString(reply.body).outcomes
    assert (outcome.change.reset, outcome.change.rows) == (sync_pb2.RESET_WINDOW, 3)
    assert (outcome.change.form.id_columns, outcome.change.form.whole) == (1, False)
    for wrong, what in (
        (sync_pb2.SyncRequest(), "wants has 0"),
        (sync_pb2.SyncRequest(wants=[sync_pb2.Want()] * 1_001), "wants has 1,001"),
        (sync_pb2.SyncRequest(wants=[sync_pb2.Want(token=bytes(10_000))]), "token is longer"),
        (sync_pb2.SyncRequest(wants=[sync_pb2.Want(query_id=one.id)], max_bytes=-1), "max_bytes"),
    ):
        with pytest.raises(InvalidRequest, match=what):
            client.connection.call(client.connection.sync.Sync, wrong, 30.0)


def test_an_answer_without_tuple_ids_comes_in_pages(client: Client, stream: str) -> None:
    query = client.register(f"SELECT DISTINCT n FROM {stream} ORDER BY n BEGIN (START)")
    client.push(stream, {"n": range(4_000)})
    copy, calls = client.copy(query), 0
    while not copy.complete:
        synced = copy.sync(max_bytes=2_000)
        calls += 1
        assert copy.rows() == [(n,) for n in range(len(copy))], "rows that are not the first"
        assert synced.complete == (synced.left == 0)
        if calls == 2:
            client.push(stream, {"n": [5, -1, -2]})
            assert copy.sync(max_bytes=2_000).complete is False
            copy.sync()
            break
    assert calls == 2 and copy.rows() == [(n,) for n in range(-2, 4_000)]
    nothing = copy.sync()
    assert (nothing.came, nothing.gone, nothing.reset) == (0, 0, "")


def test_positions_come_with_arrow_too(client: Client, stream: str) -> None:
    query = client.register(f"SELECT sym, count(*), max(price) FROM {stream} GROUP BY sym BEGIN (NOW - 40 ROWS)")
    held, token, draw = None, b"", random.Random(3)
    for rows in (60, 3, 0, 7):
        pushed = client.push(stream, some(rows, draw)).sequence
        want = sync_pb2.Want(query_id="" if token else query.id, token=token)
        request = sync_pb2.SyncRequest(wants=[want], encoding=sync_pb2.ENCODING_ARROW, min_sequence=pushed)
        reply = client.connection.call(client.connection.sync.Sync, request, 30.0)
        change = sync_pb2.SyncBody.FromString(reply.body).outcomes[0].change
        if change.reset:
            schema = pa.ipc.read_schema(pa.py_buffer(change.form.schema_ipc))
        if change.token:
            batches = [pa.ipc.read_record_batch(pa.py_buffer(batch), schema) for batch in change.batches]
            new, token = pa.Table.from_batches(batches, schema), change.token
            held = new if held is None else placed(held, new, change)
        assert change.complete and (rows or not change.token)
        assert repr(held.to_pylist()) == repr(again(query.invoke).to_arrow().to_pylist())


def test_an_answer_that_shows_now_must_fit(client: Client, stream: str) -> None:
    query = client.register(f"SELECT n, now() AS t FROM {stream} BEGIN (START)")
    client.push(stream, {"n": range(4_000)})
    with pytest.raises(ResourceExhausted, match=f"query '{query.id}': this answer is sent whole"):
        client.copy(query).sync(max_bytes=10_000)


@contextmanager
def on(path: Path, clock: VirtualClock) -> Iterator[Client]:
    """A client of a service on a directory, which ends with the context."""
    with serving(Settings(port=0), clock=clock, store=DurableStore(path)) as service, Client(service.address) as client:
        yield client


def test_copies_outlive_the_service_and_notice_data_of_before(tmp_path: Path) -> None:
    clock, here, before = VirtualClock(10**9 * SECOND), tmp_path / "here", tmp_path / "before"
    with on(here, clock) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        query = client.register("SELECT n FROM s BEGIN (START)").id
        client.push("s", {"n": range(100)})
        copy = client.copy(query)
        copy.sync()
        data = copy.to_bytes()
    shutil.copytree(here, before)
    with on(here, clock) as client:
        copy = client.copy_from(data)
        client.push("s", {"n": range(100, 130)})
        assert copy.sync() == copy.sync().__class__(came=30, complete=True)
        assert [row["n"] for row in copy] == list(range(130))
        data = copy.to_bytes()
    shutil.rmtree(here)
    shutil.copytree(before, here)
    with on(here, clock) as client:
        copy = client.copy_from(data)
        client.push("s", {"n": range(500, 560)})
        synced = copy.sync()
        assert (synced.reset, synced.came) == ("data put back", 160)
        same(copy, client.query(query))


def test_a_copy_with_a_key_finds_its_query_after_a_restore(kept_port: KeptPort) -> None:
    """The service holds other data under the same keys: by `sync`, by `sync` of many and by `watch`."""
    clock, stored = VirtualClock(10**9 * SECOND), list[bytes]()
    for anew in range(2):
        with serving(Settings(port=kept_port.number), clock=clock) as service, Client(service.address) as client:
            client.create_stream("CREATE STREAM s (n BIGINT)")
            keys = [f"k{n}" for n in range(5)]
            if anew:  # other IDs, and one query less; the last key is another query's, but of the same data as before
                client.register("SELECT n FROM s WHERE n = 77")
            for n, key in enumerate(keys[: len(keys) - anew]):
                client.register(f"SELECT n FROM s WHERE n > {n} BEGIN (START)", key=key)
            client.push("s", {"n": range(10 + anew)})
            if not anew:
                for key in keys:
                    copy = client.copy(key=key)
                    copy.sync()
                    stored.append(copy.to_bytes())
                continue
            one, *many, lacking = [client.copy_from(data) for data in stored]
            before = one.query_id
            synced = one.sync()
            assert (synced.reset, synced.came, len(one)) == ("other data", 10, 10) and one.query_id != before
            assert not one.sync().reset
            twice = [*many[:2], many[0], lacking]
            told = client.sync(twice)
            assert [told[at].error for at in range(3)] == [None] * 3
            assert (told[1].reset, [len(copy) for copy in twice]) == ("other data", [9, 8, 9, 5])
            assert isinstance(told[3].error, NotFound) and "'k4'" in told[3].error.message
            with client.watch([many[2], lacking]) as changes:
                seen = {id(copy): synced for copy, synced in (next(changes), next(changes))}
                assert seen[id(many[2])].reset == "other data" and len(many[2]) == 7
                assert isinstance(seen[id(lacking)].error, NotFound) and len(lacking) == 5
                client.push("s", {"n": [50]})
                assert next(changes)[0] is many[2] and len(many[2]) == 8


def test_a_key_that_is_another_querys_by_now_gives_that_ones_answer(client: Client, stream: str) -> None:
    key = f"{stream}/moved"
    client.register(f"SELECT n FROM {stream} WHERE n > 5 BEGIN (START)", key=key)
    client.push(stream, {"n": range(10)})
    copy, watched = client.copy(key=key), client.copy(key=key)
    assert [synced.came for synced in client.sync([copy, watched])] == [4, 4]
    query = client.register(f"SELECT n FROM {stream} WHERE n < 3 BEGIN (START)", key=key, replace=True)
    synced = copy.sync()
    assert (synced.reset, synced.gone, copy.query_id) == ("other query", 4, query.id)
    same(copy, query)
    with client.watch([watched]) as changes:
        assert next(changes)[1].reset == "other query"
        same(watched, query)


def test_a_window_up_to_start_holds_nothing(client: Client, stream: str) -> None:
    client.push(stream, {"n": range(10)})
    empty = "BEGIN (START) END (START)"
    for what, rows in (("n", []), ("count(*)", [(0,)]), ("DISTINCT n", [])):
        query = client.register(f"SELECT {what} FROM {stream} BEGIN (START)")
        copy = client.copy(query, window=empty)
        copy.sync()
        assert query.invoke(window=empty).rows() == copy.rows() == rows
