"""The tuple IDs of what was pushed, through the service: in pages, after a restart, of pushes that share an event."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import Client, InvalidRequest, NotFound, OutOfRange, PushResult
from psoup_proto.v1 import ingest_pb2
from psoup_storage import DurableStore
from psoup_testing.oracles.questions import again
from psoup_testing.services.threaded_service import Serving, serving

EVENT_TIME = "CREATE STREAM {} (a BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 1 HOUR"
BASE = 1_700_000_000


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with serving() as running:
        yield running


@pytest.fixture
def client(service: Serving) -> Iterator[Client]:
    with Client(service.address) as client:
        yield client


def timed(client: Client, stream: str, seconds: list[int]) -> PushResult:
    times = [BASE + second for second in seconds]
    return client.push(stream, {"a": seconds, "at": times}, time_unit="s", refused="count")


def test_in_system_time_they_are_one_range(client: Client) -> None:
    client.create_stream("CREATE STREAM s (a BIGINT)")
    first = client.push("s", {"a": range(70_000)})  # two batches
    second = client.push("s", {"a": [1, 2]})
    assert (client.tuple_ids(first), client.tuple_ids(second)) == (range(70_000), range(70_000, 70_002))
    assert client.tuple_ids(client.push("s", {"a": []})) == range(0)
    with pytest.raises(TypeError, match="result is 's': give what push returned"):
        client.tuple_ids("s")  # type: ignore[arg-type]
    with client.stage("s") as stage:
        stage.add({"a": [5, 6, 7]})
    assert stage.result is not None
    assert client.tuple_ids(stage.result) == range(70_002, 70_005)


def test_rows_that_wait_and_rows_that_came_out_of_order(service: Serving, client: Client) -> None:
    client.create_stream(EVENT_TIME.format("e"))
    query = client.register("SELECT a, _id FROM e")
    seconds = random.Random(1).sample(range(3_000), 2_000)
    pushed = timed(client, "e", seconds)
    assert set(client.tuple_ids(pushed)) == {None}
    late = timed(client, "e", [10_000, 4_000])
    assert (late.accepted, client.tuple_ids(late)) == (2, [None, 2_000])
    backend, limits = service.service._backend, service.service._backend.limits
    object.__setattr__(backend, "limits", replace(limits, answer_bytes=1_024 + 9 * 300))  # pages of 300 rows
    found = client.tuple_ids(pushed)
    object.__setattr__(backend, "limits", limits)
    assert found == client.tuple_ids(pushed)
    rows = again(query.invoke).rows()
    assert dict(zip(seconds, found, strict=True)) | {4_000: 2_000} == dict(rows)
    refused = timed(client, "e", [1, 9_999])
    assert (refused.late, client.tuple_ids(refused)) == (1, [None])


def test_rows_of_pushes_that_share_an_event(client: Client) -> None:
    """Pushes without a producer, all under way at once."""
    client.create_stream("CREATE STREAM t (a BIGINT)")
    ask = client.connection.ingest
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"a": [1, 2]}))
    payload = sink.getvalue().to_pybytes()
    calls = [ask.Push.future(ingest_pb2.PushRequest(stream="t", arrow_ipc=payload)) for _ in range(40)]
    ids = list[int]()
    for reply in (call.result() for call in calls):
        request = ingest_pb2.TupleIdsRequest(
            stream="t", sequence=reply.sequence, first_row=reply.first_row, rows=reply.accepted
        )
        told = ask.TupleIds(request)
        ids += range(told.first_id, told.first_id + told.rows)
    assert sorted(ids) == list(range(80))


def test_what_is_wrong(client: Client) -> None:
    client.create_stream("CREATE STREAM w (a BIGINT)")
    pushed = client.push("w", {"a": [1, 2]})
    ask = client.connection.ingest.TupleIds
    for wrong in ({"first_row": -1}, {"rows": 3}, {"first_row": 1, "rows": 2**62}, {"rows": -5}):
        request = ingest_pb2.TupleIdsRequest(stream="w", sequence=pushed.sequence, **{"rows": 2, **wrong})
        with pytest.raises(InvalidRequest):
            client.connection.call(ask, request)
    for stream, sequence in (("w", 1), ("w", 10**9), ("w", -1)):
        with pytest.raises((OutOfRange, InvalidRequest)):
            client.connection.call(ask, ingest_pb2.TupleIdsRequest(stream=stream, sequence=sequence, rows=1))
    with pytest.raises(NotFound):
        client.connection.call(ask, ingest_pb2.TupleIdsRequest(stream="none", sequence=1, rows=1))
    with client.producer("w") as producer:
        producer.push({"a": [3]})
        result = producer.flush()
    with pytest.raises(ValueError, match="take the result of push"):
        client.tuple_ids(result)


def test_they_are_known_after_a_restart(tmp_path: Path) -> None:
    with serving(store=DurableStore(tmp_path)) as running, Client(running.address) as client:
        client.create_stream(EVENT_TIME.format("e"))
        pushed, later = timed(client, "e", [30, 10, 20]), timed(client, "e", [4_000])
        before = client.tuple_ids(pushed)
        assert before == [2, 0, 1]
    with serving(store=DurableStore(tmp_path)) as running, Client(running.address) as client:
        assert (client.tuple_ids(pushed), client.tuple_ids(later)) == (before, [None])
        assert client.tuple_ids(timed(client, "e", [9_000, 3_000])) == [None, 3]
