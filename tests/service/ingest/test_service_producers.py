"""More producers than a stream remembers, over the wire: clients go on by themselves, and nothing is taken twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import pyarrow as pa
import pytest

from psoup_client import Client, FailedPrecondition
from psoup_proto.v1 import staging_pb2 as staging
from psoup_proto.v1 import streams_pb2 as streams
from psoup_testing.services.threaded_service import FEW_PRODUCERS, serving
from psoup_testing.services.wire import Wire, ipc, refused, run

ROW = pa.table({"x": [1]})


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    with serving(FEW_PRODUCERS) as service, ExitStack() as stack:
        made = [stack.enter_context(Client(service.address, timeout=60)) for _ in range(4)]
        made[0].create_stream("CREATE STREAM s (x BIGINT)")
        yield made


def count(client: Client) -> int:
    return client.describe("s").tuples


def test_clients_push_on_in_turn_however_many_there_are(clients: list[Client]) -> None:
    for turn in range(1, 4):
        for client in clients:
            assert client.push("s", ROW).accepted == 1
        clients[0].describe("s", wait_for=clients[-1].last_sequence)
        assert count(clients[-1]) == turn * len(clients)


def test_producers_and_stages_with_names_of_their_own_are_new(clients: list[Client]) -> None:
    for client in clients:
        with client.producer("s") as producer:
            producer.push(ROW)
            producer.push(ROW)
        with client.producer("s", name="again and again") as producer:
            producer.push(ROW)
        with client.stage("s") as stage:
            stage.add(ROW)
    assert count(clients[-1]) == 4 * len(clients)


def test_a_job_that_may_have_run_before_is_refused_once_it_may_have_been_forgotten(clients: list[Client]) -> None:
    clients[0].stage("s", producer="nightly").commit()
    for client in clients:
        client.push("s", ROW)
    for number in (0, 1):
        with pytest.raises(FailedPrecondition, match="may be one that was forgotten") as caught:
            clients[0].stage("s", producer="nightly", number=number)
        assert caught.value.reason == "PRODUCER_FORGOTTEN"
    with pytest.raises(FailedPrecondition) as caught, clients[0].producer("s", name="nightly", epoch=0) as producer:
        producer.push(ROW)
    assert caught.value.reason == "PRODUCER_FORGOTTEN"
    before = count(clients[0])
    with clients[0].stage("s", producer="nightly", epoch=1, since=clients[0].known_sequence) as stage:
        stage.add(ROW)
    assert count(clients[0]) == before + 1


def test_what_is_sent_again_after_its_producer_was_forgotten_is_refused() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        since = (await wire.streams.GetStream(streams.GetStreamRequest(name="s"))).sequence
        assert since == 1
        await wire.push("s", ROW, producer="a", since=since)
        begun = await wire.staging.BeginStage(staging.BeginStageRequest(stream="s", producer="b", since=since))
        add = staging.AddPartRequest(stage=begun.stage, part="p", arrow_ipc=ipc(ROW))
        await wire.staging.AddPart(add)
        commit = staging.CommitStageRequest(stage=begun.stage)
        assert not (await wire.staging.CommitStage(commit)).outcome.duplicate
        assert (await wire.staging.CommitStage(commit)).outcome.duplicate
        for name in ("c", "d"):
            await wire.push("s", ROW, producer=name, since=since + 2)
        for call in (wire.push("s", ROW, producer="a", since=since), wire.staging.CommitStage(commit)):
            refusal = await refused(call, grpc.StatusCode.FAILED_PRECONDITION)
            assert (refusal.reason, refusal.facts["sequence"]) == ("PRODUCER_FORGOTTEN", "5")
        assert (await wire.push("s", ROW, producer="d", since=since + 2)).duplicate

    run(script, FEW_PRODUCERS)


def test_what_producers_sent_last_is_counted() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        await wire.push("s", ROW, producer="a")
        assert wire.service.host.counters()["producer_bytes"] == 1_300

    run(script)
