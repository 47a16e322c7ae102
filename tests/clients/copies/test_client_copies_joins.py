"""Copies of joins: pages of them, what leaves, NOW of several streams, the order of rows."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_client import AnswerCopy, Client
from psoup_client.copies.held_rows import in_order
from psoup_client.copies.json_columns import from_json
from psoup_proto.v1 import sync_pb2
from psoup_testing.copies.copied_rows import same, some, token_of
from psoup_testing.services.threaded_service import serving

MakeStream = Callable[[str], str]


@pytest.fixture
def stream(make_stream: MakeStream) -> str:
    return make_stream("(sym TEXT, price DOUBLE, n BIGINT)")


@pytest.mark.long
def test_a_join_comes_in_pages_and_then_only_what_is_new(client: Client, stream: str) -> None:
    """A page ends within a step; windows move in between; one row in a reply is still one."""
    sources = f"{stream} AS a [BEGIN (NOW - 90 ROWS)], {stream} AS b [BEGIN (START)]"
    query = client.register(f"SELECT a.sym, b.price, b.n FROM {sources} WHERE a.n = b.n ORDER BY b.price, a.sym")
    draw = random.Random(11)
    client.push(stream, some(300, draw))
    copy, pages = client.copy(query), 0
    while not copy.complete:
        synced = copy.sync(max_bytes=700)
        pages += 1
        assert synced.complete == (synced.left == 0) and len(token_of(copy)) <= 80 + 2 * 32
        if pages == 3:
            client.push(stream, some(10, draw))
        copy = client.copy_from(copy.to_bytes())
    assert pages > 4
    same(copy, query)
    assert len(token_of(copy)) < 80
    assert (copy.sync().came, copy.sync().reset) == (0, "")
    before = set(_ids(copy))
    client.push(stream, some(9, draw))
    synced = copy.sync()
    same(copy, query)
    assert synced.came == len(set(_ids(copy)) - before) and synced.gone == len(before - set(_ids(copy))) > 0
    want = sync_pb2.Want(query_id=query.id, max_rows=1, window="BEGIN (NOW - 9 ROWS)")
    reply = client.connection.call(client.connection.sync.Sync, sync_pb2.SyncRequest(wants=[want]), 30.0)
    (outcome,) = sync_pb2.SyncBody.FromString(reply.body).outcomes
    assert (outcome.change.rows, outcome.change.complete, outcome.change.form.id_columns) == (1, False, 2)


def test_joined_rows_are_the_same_as_arrow(client: Client, stream: str) -> None:
    sources = f"{stream} AS a [BEGIN (NOW - 1 HOUR)], {stream} AS b [BEGIN (START)]"
    query = client.register(f"SELECT a.sym, b.price FROM {sources} WHERE a.n = b.n ORDER BY b.n")
    pushed = client.push(stream, some(100, random.Random(12))).sequence
    tables = list[pa.Table]()
    for encoding in (sync_pb2.ENCODING_UNSPECIFIED, sync_pb2.ENCODING_ARROW):
        request = sync_pb2.SyncRequest(wants=[sync_pb2.Want(query_id=query.id)], encoding=encoding, min_sequence=pushed)
        reply = client.connection.call(client.connection.sync.Sync, request, 30.0)
        change = sync_pb2.SyncBody.FromString(reply.body).outcomes[0].change
        schema = pa.ipc.read_schema(pa.py_buffer(change.form.schema_ipc))
        assert schema.names == ["_id1", "_id2", "_time", "sym", "price", "_key0"]
        batches = [pa.ipc.read_record_batch(pa.py_buffer(batch), schema) for batch in change.batches]
        whole = pa.Table.from_batches(batches, schema) if batches else from_json(change.columns_json, schema, 3)
        tables.append(whole)
    assert repr(tables[0].to_pydict()) == repr(tables[1].to_pydict()) and len(tables[0]) > 100


def _ids(copy: AnswerCopy) -> list[tuple[int, int]]:
    table = copy._state.table
    assert table is not None
    return list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))


def test_a_join_whose_rows_all_leave_is_empty(client: Client, make_stream: MakeStream) -> None:
    names = [make_stream("(k BIGINT)") for _ in range(2)]
    query = client.register(f"SELECT x.k FROM {names[0]} AS x [BEGIN (NOW - 3 ROWS)], {names[1]} AS y WHERE x.k = y.k")
    copy = client.copy(query)
    client.push(names[1], {"k": [1, 2]})
    client.push(names[0], {"k": [1, 2, 2]})
    assert (copy.sync().came, copy.rows()) == (3, [(1,), (2,), (2,)])
    client.push(names[0], {"k": [7, 7, 7, 7]})
    synced = copy.sync()
    assert (synced.came, synced.gone, synced.reset, copy.rows()) == (0, 3, "", [])
    client.push(names[0], {"k": [2]})
    assert (copy.sync().came, copy.rows()) == (1, [(2,)])


def test_now_of_a_join_leaves_out_idle_streams() -> None:
    clock = VirtualClock(10**9 * SECOND)
    with serving(clock=clock) as service, Client(service.address) as client:
        for name in "rs":
            client.create_stream(
                f"CREATE STREAM {name} (at TIMESTAMP NOT NULL, k BIGINT) TIMESTAMP BY at IDLE AFTER 5 SECONDS"
            )
        query = client.register("SELECT r.k FROM r, s WHERE r.k = s.k BEGIN (NOW - 1 MINUTE)")
        copy = client.copy(query)
        for name, waited in (("r", 0), ("s", 3), ("s", 9)):
            clock.advance(seconds=waited)
            client.push(name, {"at": pa.array([clock.now()], pa.timestamp("us", "UTC")), "k": [1]})
            copy.sync()
            answer = query.invoke()
            assert (copy.now, copy.rows()) == (answer.completeness.now, answer.rows()), (name, waited)
        assert copy.now is not None and len(copy) == 2


def test_rows_are_ordered_by_all_tuple_ids_however_far_apart() -> None:
    draw = np.random.default_rng(3)
    near, far = 5, 2**62
    for ends in ([near, near], [far, near], [near, far], [far, far], [near, far, near]):
        ids = [pa.array(draw.integers(-end, end, 500)) for end in ends]
        table = pa.table([*ids, pa.array(range(500))], names=[*"abcd"[: len(ends)], "n"])
        table = table.group_by(table.schema.names[: len(ends)], use_threads=False).aggregate([("n", "min")])
        ordered = in_order(table, len(ends))
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert list(zip(*(column.to_pylist() for column in ordered.columns), strict=True)) == sorted(rows)
    assert in_order(table.slice(0, 0), 3).num_rows == 0
