"""A client with the addresses of a service and of its standby: writes find the writer, reads go to the first address
that is alive and not behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import grpc
import pytest
from pydantic import ValidationError

from psoup.errors import Internal
from psoup_client import Client, ClientOptions, FailedPrecondition, NotFound, RetryOptions, Unavailable
from psoup_client.aio import AsyncClient
from psoup_client.channel import routes
from psoup_client.errors import from_rpc
from psoup_service.host import standby_host
from psoup_service.process.clock import wall_time
from psoup_service.process.settings import Settings
from psoup_service.wire.writing_calls import WRITING
from psoup_storage import ReplicatedStore, Replication
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget
from psoup_testing.services.gated_service import methods
from psoup_testing.services.reply_wait import asked_until
from psoup_testing.services.standby_pair import Pair, last_reach, standby_pair
from psoup_testing.services.takeover import PATIENT, UNHURRIED
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote

ONCE = ClientOptions(channel_options=UNHURRIED, retry=RetryOptions(attempts=1, restart_seconds=0))
FOR_EVER = patch.object(routes, "REST_S", 1e9)
"""An address that was away comes last, however long that part of a test takes."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with standby_pair(tmp_path) as made:
        yield made


def patient(addresses: str) -> Client:
    return Client(addresses, timeout=300, options=PATIENT)


def both(pair: Pair) -> str:
    """The addresses, the standby's first."""
    return f"{pair.standby.address},{pair.writer.address}"


def test_reads_go_to_the_first_address_and_writes_to_the_writer(pair: Pair) -> None:
    pair.reach()
    with patient(both(pair)) as client:
        assert client.address == both(pair)
        assert client.query(key="many").invoke().rows() == [(2,), (3,)]
        assert client.connection.routes.last.address == pair.standby.address
        assert client.push("s", {"x": [4]}).accepted == 1
        assert client.connection.routes.last.address == pair.writer.address
        assert client.query(key="many").invoke().rows() == [(2,), (3,), (4,)]  # its own write
        push = client.connection.ingest.Push
        assert push.writes  # the standby was asked once, and the next push does not go there
        best = client.connection.routes.best(push)
        assert best is not None and best.address == pair.writer.address
        client.create_stream("CREATE STREAM t (y BIGINT)")
        client.push("t", {"y": [1]})
        assert client.execute("DROP STREAM t") is None
        copy = client.copy(client.query(key="many"))
        copy.sync()
        client.push("s", {"x": [5]})
        assert copy.sync().came == 1


def test_a_producer_and_a_group_find_the_writer(pair: Pair) -> None:
    pair.reach()
    with patient(both(pair)) as client:
        with client.producer("s", name="p") as producer:
            producer.push({"x": [7, 8]})
        assert producer.result.accepted == 2
        assert client.position("s", "p").number == 1
        with client.follow("s", group="workers") as following:
            client.push("s", {"x": [9]})
            batch = next(iter(following))
            assert [match.tuple["x"] for match in batch] == [9]


def test_the_asynchronous_client_does_the_same(pair: Pair) -> None:
    pair.reach()

    async def run() -> list[tuple[int]]:
        async with AsyncClient(both(pair), timeout=300, options=PATIENT) as client:
            await client.push("s", {"x": [4]})
            async with client.producer("s", name="p") as producer:
                await producer.push({"x": [5]})
            query = await client.query(key="many")
            answer = await query.invoke()
            return answer.rows()

    assert asyncio.run(run()) == [(2,), (3,), (4,), (5,)]


@pytest.mark.seeded("an answer that is older than what the client has seen")
def test_a_client_never_sees_less_than_it_has_seen(pair: Pair) -> None:
    pair.reach()
    soon = patch.object(routes, "REST_S", 0.0), patch.object(standby_host, "WAIT_S", 0.2)
    with (
        soon[0],
        soon[1],
        Client(pair.writer.address) as writer,
        patient(both(pair)) as client,
    ):
        query = client.query(key="many")  # from the standby
        pair.leave()
        seen = writer.push("s", {"x": [4]}).sequence
        writer.register("SELECT x FROM s WHERE x > 2", key="later")
        writer.wait_for(writer.last_sequence)
        assert query.invoke().rows() == [(2,), (3,)]
        assert query.invoke(wait_for=seen).rows() == [(2,), (3,), (4,)]  # the standby lacks it, so from the writer
        assert client.connection.routes.last.address == pair.writer.address
        assert query.invoke().rows() == [(2,), (3,), (4,)]
        assert client.ask("SELECT count(*) FROM s").rows() == [(4,)]
        assert client.query(key="later").invoke().rows() == [(3,), (4,)]
    with Client(pair.standby.address) as client, pytest.raises(NotFound):
        client.query(key="later")


def test_a_write_does_not_fail_for_what_a_standby_lacks(pair: Pair) -> None:
    pair.reach()
    pair.leave()
    with Client(pair.writer.address) as writer:
        writer.create_stream("CREATE STREAM t (y BIGINT)")
    with patient(both(pair)) as client:
        assert client.push("s", {"x": [1]}).accepted == 1  # with the schema that the standby has
        with patient(both(pair)) as new, pytest.raises(NotFound):
            new.describe("t")
        assert client.execute("DROP STREAM t") is None


@pytest.mark.seeded("a write that a standby takes for a read")
def test_a_standby_refuses_all_calls_that_write(pair: Pair) -> None:
    pair.reach()
    refused = set()
    with grpc.insecure_channel(pair.standby.address) as channel:
        for name, path in methods().items():
            if not name.startswith(
                ("Health", "ServerReflection", "AdminService/Promote")
            ):  # it is a standby to the end
                many = channel.stream_stream(path)(iter([b""]), timeout=60)  # a call with one request is sent so, too
                try:
                    next(many)
                except (StopIteration, grpc.RpcError) as problem:
                    if isinstance(problem, grpc.RpcError) and from_rpc(problem).reason == "STANDBY":
                        refused.add(name)
                many.cancel()
    assert refused == WRITING


def test_a_refusal_names_the_writer(pair: Pair) -> None:
    pair.reach()
    with Client(pair.standby.address) as client, pytest.raises(FailedPrecondition) as refused:
        client.push("s", {"x": [1]})
    assert refused.value.reason == "STANDBY"
    assert refused.value.facts["writer"] == pair.writer.address
    assert refused.value.message.endswith(f"Send this call to the service that writes there, at {pair.writer.address}")


def test_the_writer_tells_its_advertised_address() -> None:
    assert Settings(advertise="https://db1.example.org:7433").advertise == "https://db1.example.org:7433"
    with pytest.raises(ValidationError, match="write HOST:PORT, https://HOST:PORT or unix:PATH"):
        Settings(advertise="db1.example.org")


def test_standbys_alone_refuse_a_write_with_their_addresses(pair: Pair) -> None:
    pair.reach()
    again = pair.standby.address.replace("127.0.0.1", "localhost")
    with (
        FOR_EVER,
        Client(f"{pair.standby.address},{again}", options=ONCE) as client,
        pytest.raises(FailedPrecondition) as refused,
    ):
        client.push("s", {"x": [1]})
    assert refused.value.reason == "STANDBY"
    assert refused.value.message.startswith("none of the 2 addresses takes the call:\n")
    assert all(
        f"\n    {each}: this service is a standby" in refused.value.message for each in client.connection.addresses
    )


def taken_over(client: Client, copy: Path, folder: Path, end: Callable[[], object]) -> None:
    """End the writer, let another directory take over, and let the same client go on.

    `client`: has the addresses of the writer, of a standby, and of the socket of the next writer.
    """
    query = client.query(key="many")
    with client.producer("s", name="p") as producer:
        producer.push({"x": [10]})
        sequence = producer.flush().sequence
        while last_reach(copy) < sequence:  # the limit of the suite ends it
            pass
        end()
        assert query.invoke().rows() == [(2,), (3,), (10,)]  # from the standby
        with (
            FOR_EVER,
            Client(client.address, options=ONCE) as impatient,
            pytest.raises(Unavailable) as problem,
        ):
            impatient.register("SELECT x FROM s")
        writer, standby, following = client.connection.addresses
        lines = problem.value.message.splitlines()
        assert lines[0] == "none of the 3 addresses takes the call:"
        assert lines[1].startswith(f"    {writer}: no PSoup service answers at {writer} (")
        assert lines[2].startswith(f"    {standby}: this service is a standby, which only reads")
        assert lines[3].startswith(f"    {following}: no PSoup service answers at {following} (")
        producer.push({"x": [11]})  # waits for the next writer
        restore_copy(DirectoryTarget(copy), folder / "heir", takes_over=True)
        store = ReplicatedStore(folder / "heir", Replication(str(copy), 2**20, 3_600, wall_time))
        with serving(Settings(socket=following.removeprefix("unix:")), store=store):
            assert client.push("s", {"x": [12]}).accepted == 1
            assert producer.flush().accepted == 2
            rows = client.ask("SELECT x FROM s WHERE x > 1").rows()
            assert sorted(rows) == [(2,), (3,), (10,), (11,), (12,)]
            assert client.register("SELECT x FROM s WHERE x > 11").invoke().rows() == [(12,)]
            producer.close()


def test_a_client_goes_on_after_a_takeover(pair: Pair, tmp_path: Path) -> None:
    pair.reach()
    with Client(
        f"{pair.writer.address},{pair.standby.address},unix:{tmp_path}/socket", timeout=300, options=PATIENT
    ) as client:
        taken_over(client, tmp_path / "copy", tmp_path, pair.writer.stop)
    pair.standby.wait_until(lambda: pair.standby.service.host.state == "failed")  # it has read the fence
    with pytest.raises(Internal):
        pair.standby.stop()
    pair.standby._problem = None


@pytest.mark.long
def test_a_client_goes_on_after_its_service_was_killed(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with Zygote(PSOUP_REPLICATE=str(copy)) as zygote, Zygote(PSOUP_STANDBY=str(copy)) as standby:
        zygote.start(str(tmp_path / "data"))
        writer = zygote.ready()
        with Client(writer) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s WHERE x > 1", key="many")
            sequence = client.push("s", {"x": [1, 2, 3]}).sequence
        asked_until(lambda: last_reach(copy), lambda reach: reach >= sequence)
        standby.start(str(tmp_path / "standby"))
        with patient(f"{writer},{standby.ready()},unix:{tmp_path}/socket") as client:
            taken_over(client, copy, tmp_path, zygote.kill)
