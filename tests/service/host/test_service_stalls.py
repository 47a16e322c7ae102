"""Nothing that a client sends holds the event loop: stalls are counted while a service is attacked, bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pyarrow as pa
import pytest

from psoup.work.gc_pause import without_collector
from psoup_client import Client
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2 as server
from psoup_proto.v1 import staging_pb2 as staging
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.figures.watchdog import TICK_S
from psoup_service.process.settings import Settings
from psoup_testing.services.loop_turns import no_stalls
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.services.wire import ipc

ROWS = 1_048_576
INVALID = {grpc.StatusCode.INVALID_ARGUMENT}
WIDE = 1_000


@pytest.fixture(scope="module")
def there() -> Iterator[Serving]:
    with serving(Settings(port=0, memory_mib=512)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT, t TEXT)")
        client.create_stream("CREATE STREAM wide (" + ", ".join(f"c{i} BIGINT" for i in range(WIDE)) + ")")
        client.register_many("SELECT a, t, a + 1 AS b, a + 2 AS c FROM s WHERE a = ?", [(i,) for i in range(1_000)])
        for number in range(12):
            client.register(f"SELECT * FROM wide WHERE c0 = {number}")
        yield service


@pytest.fixture(scope="module")
def client(there: Serving) -> Iterator[Client]:
    with Client(there.address, timeout=60) as client:
        yield client


def outcome(call: Callable[[], object]) -> grpc.StatusCode:
    try:
        call()
    except grpc.RpcError as problem:
        return problem.code()
    return grpc.StatusCode.OK


def bomb(names: list[str]) -> bytes:
    """Zeros: 8 MiB a column, in some hundred bytes of a column."""
    return ipc(pa.table([pa.array(np.zeros(ROWS, np.int64))] * len(names), names), compression="zstd")


@pytest.mark.long
@pytest.mark.seeded("F4: zeros are decoded on the event loop, before they are refused")
def test_zeros_of_columns_that_the_stream_has_not(there: Serving, client: Client) -> None:
    payload = bomb([f"c{i}" for i in range(31)])
    assert len(payload) < 32_000
    push = ingest.PushRequest(stream="s", arrow_ipc=payload)
    unknown = ingest.PushRequest(stream="nope", arrow_ipc=payload)
    before = pa.default_memory_pool().max_memory()
    with no_stalls(there.service):
        for _ in range(20):
            assert outcome(lambda: client.connection.ingest.Push(push)) in INVALID
            assert outcome(lambda: client.connection.ingest.Push(unknown)) is grpc.StatusCode.NOT_FOUND
    assert pa.default_memory_pool().max_memory() - before < 1_000_000  # nothing was decoded


def test_zeros_of_columns_that_the_stream_has(there: Serving, client: Client) -> None:
    payload = bomb(["a"])
    push = ingest.PushRequest(stream="s", arrow_ipc=payload)
    with no_stalls(there.service):
        assert client.connection.ingest.Push(push).accepted == ROWS


def test_parameters_of_registrations(there: Serving, client: Client) -> None:
    payload = bomb([f"c{i}" for i in range(31)])
    many = queries.RegisterManyRequest(statements=["SELECT a FROM s WHERE a = ?"], parameters=payload, request_id="x")
    one = queries.RegisterRequest(statement="SELECT a FROM s WHERE a = ?", parameters=payload, request_id="y")
    with no_stalls(there.service):
        assert outcome(lambda: client.connection.queries.RegisterMany(many)) is not grpc.StatusCode.OK
        assert outcome(lambda: client.connection.queries.Register(one)) in INVALID


def test_parts_of_a_batch(there: Serving, client: Client) -> None:
    begin = staging.BeginStageRequest(stream="s", producer="p", epoch=1, number=0)
    stage = client.connection.staging.BeginStage(begin).stage
    wrong = staging.AddPartRequest(stage=stage, part="a", arrow_ipc=bomb([f"c{i}" for i in range(31)]))
    with no_stalls(there.service):
        for _ in range(5):
            assert outcome(lambda: client.connection.staging.AddPart(wrong)) in INVALID


def test_a_push_of_very_many_empty_batches(there: Serving, client: Client) -> None:
    batch = pa.record_batch({"a": pa.array([], pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(50_000):
            writer.write_batch(batch)
    push = ingest.PushRequest(stream="s", arrow_ipc=sink.getvalue().to_pybytes())
    with no_stalls(there.service):
        assert outcome(lambda: client.connection.ingest.Push(push)) in INVALID


@pytest.mark.long
@pytest.mark.seeded("F23: lists are made on the event loop")
def test_replies_of_many_parts(there: Serving, client: Client) -> None:
    stubs = client.connection
    with no_stalls(there.service):
        for _ in range(3):
            stubs.queries.ListQueries(queries.ListQueriesRequest(page_size=1_000))
            stubs.streams.ListStreams(streams.ListStreamsRequest())
            stubs.streams.GetStream(streams.GetStreamRequest(name="wide"))
            stubs.server.GetServerInfo(server.GetServerInfoRequest(with_bill=True))
    many = pa.table({"a": pa.array(np.arange(10_000) % 7)})
    register = queries.RegisterManyRequest(
        statements=["SELECT a FROM s WHERE a = ?"], parameters=ipc(many), request_id="many"
    )
    with no_stalls(there.service):
        assert len(stubs.queries.RegisterMany(register).query_ids) == len(many)


def test_names_that_are_not_there(there: Serving, client: Client) -> None:
    with no_stalls(there.service):
        for size, code in ((1_000, "NOT_FOUND"), (100_000, "NOT_FOUND"), (1_000_000, "RESOURCE_EXHAUSTED")):
            get = streams.GetStreamRequest(name="s" * size)
            assert outcome(lambda get=get: client.connection.streams.GetStream(get)) is grpc.StatusCode[code]


def test_a_stall_is_counted_and_says_where(there: Serving) -> None:
    """The watchdog itself: work of the loop's thread counts, waiting does not."""
    watchdog, loop = there.service.watchdog, there._loop
    before = watchdog.stalls

    def spend(seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    async def stall(seconds: float) -> None:
        watchdog.rouse()  # as a call does
        spend(seconds)

    async def ticked() -> None:
        come = loop.create_future()
        loop.call_later(3 * TICK_S, come.set_result, None)  # behind the watchdog's own timer
        await come

    with without_collector():  # its work would count, too
        asyncio.run_coroutine_threadsafe(stall(0.2), loop).result()
        asyncio.run_coroutine_threadsafe(ticked(), loop).result()
    assert watchdog.stalls == before + 1
    assert watchdog.longest >= 0.2
    assert "spend" in watchdog.last
    text = there.service._metrics.registry.get_sample_value("psoup_loop_stalls_total")
    assert text == watchdog.stalls
