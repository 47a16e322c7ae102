"""Connections that break at any byte: nothing is lost, nothing is there twice, nothing is cut short in silence."""

import random
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup_client import Client, ClientOptions, RetryOptions, Unavailable
from psoup_client.channel.connection import channel_options
from psoup_proto.v1 import queries_pb2
from psoup_service.wire.limits import Limits
from psoup_testing.oracles.questions import again
from psoup_testing.services.proxy import Cut, cutting
from psoup_testing.services.threaded_service import Serving
from psoup_testing.suite.budget import SCALE, SEED
from psoup_testing.suite.sweeps import swept

MakeStream = Callable[[str], str]
BATCHES = round(400 * SCALE)


@pytest.mark.long
@pytest.mark.parametrize("number", swept(range(4), fast=1))
def test_a_producer_over_a_breaking_connection(
    running: Serving, client: Client, make_stream: MakeStream, number: int
) -> None:
    rng = random.Random(f"{SEED} {number}")
    name = make_stream("(a BIGINT)")
    query = client.register(f"SELECT a FROM {name}")
    cuts = [Cut(rng.choice([rng.randrange(2_000), rng.randrange(60_000)]), rng.random() < 0.5) for _ in range(12)]
    cuts[0] = Cut(rng.randrange(2_000), up=True)
    with cutting(running.address, cuts) as proxy, Client(proxy.address, timeout=60) as lossy:
        lossy.wait_ready()
        with lossy.producer(name) as producer:
            for value in range(BATCHES):
                producer.push([{"a": value}])
        assert proxy.connections > 1
    answer = again(query.invoke, wait_for=producer.result.sequence)
    assert [row[0] for row in answer.rows()] == list(range(BATCHES)), f"seed {SEED} {number}, cuts {cuts}"
    assert producer.result.accepted == BATCHES


@pytest.mark.parametrize("number", swept(range(3), fast=1))
def test_single_pushes_over_a_breaking_connection(
    running: Serving, client: Client, make_stream: MakeStream, number: int
) -> None:
    rng = random.Random(f"{SEED} single {number}")
    name = make_stream("(a BIGINT)")
    query = client.register(f"SELECT a FROM {name}")
    cuts = [Cut(rng.randrange(500, 6_000), rng.random() < 0.5) for _ in range(6)]
    with cutting(running.address, cuts) as proxy, Client(proxy.address, timeout=60) as lossy:
        lossy.wait_ready()
        lossy.describe(name)
        for value in range(60):
            lossy.push(name, [{"a": value}])
        last = lossy.last_sequence
    assert [row[0] for row in again(query.invoke, wait_for=last).rows()] == list(range(60)), f"cuts {cuts}"


@pytest.mark.long
def test_registration_over_a_breaking_connection_makes_one_query(
    running: Serving, client: Client, make_stream: MakeStream
) -> None:
    name = make_stream("(a BIGINT)")
    for limit in range(60, 600, 60):
        with cutting(running.address, [Cut(limit, up=False)]) as proxy, Client(proxy.address, timeout=60) as lossy:
            before = len(client.queries(name))
            query = lossy.register(f"SELECT a FROM {name} WHERE a > {limit}")
            assert len(client.queries(name)) == before + 1
            assert client.query(query.id).sql == query.sql


def test_an_answer_that_is_cut_is_an_error_and_not_a_short_answer(
    running: Serving, client: Client, make_stream: MakeStream
) -> None:
    name = make_stream("(a BIGINT, b TEXT)")
    query = client.register(f"SELECT a, b FROM {name}")
    result = client.push(name, {"a": list(range(100_000)), "b": ["x" * 40] * 100_000})
    client.wait_for(result.sequence)
    for limit in (10_000, 1_500_000, 3_000_000):
        cuts = [Cut(limit, up=False)] * 50
        with cutting(running.address, cuts) as proxy, Client(proxy.address) as lossy, pytest.raises(Unavailable):
            lossy.query(query.id).invoke()
    assert len(query.invoke()) == 100_000


@pytest.mark.long
def test_a_call_ends_soon_when_the_service_is_not_there_any_more(
    running: Serving, client: Client, make_stream: MakeStream
) -> None:
    """Nobody closes the connection: a machine that is gone, or a cable. The deadline of the call is a minute."""
    name = make_stream("(a BIGINT)")
    query = client.register(f"SELECT a FROM {name} BEGIN (START)")
    client.wait_for(client.push(name, pa.table({"a": range(400_000)})).sequence)
    quick = (("grpc.keepalive_time_ms", 1_000), ("grpc.http2.ping_timeout_ms", 500))
    options = ClientOptions(channel_options=quick, retry=RetryOptions(attempts=1))
    with cutting(running.address, []) as proxy, Client(proxy.address, timeout=60, options=options) as lossy:
        connection = lossy.connection
        asked = queries_pb2.InvokeStreamRequest(query_id=query.id)
        pieces = connection.replies(connection.open(connection.queries.InvokeStream, asked, 60))
        next(pieces)
        proxy.silent, since = True, time.monotonic()
        with pytest.raises(Unavailable):
            list(pieces)
        assert time.monotonic() - since < 30


def test_a_service_allows_what_clients_ask_to_notice_that_it_is_gone() -> None:
    asked = dict(channel_options(ClientOptions()))["grpc.keepalive_time_ms"]
    assert 60_000 >= asked >= 2 * dict(Limits().channel_options())["grpc.http2.min_ping_interval_without_data_ms"]
