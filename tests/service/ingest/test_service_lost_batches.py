"""A producer learns of batches that a takeover has lost: they were acknowledged, and the next writer lacks them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from psoup_client import BatchesLost, Client, FailedPrecondition, Producer
from psoup_client.aio import AsyncClient
from psoup_testing.services.takeover import PATIENT, Takeover


@pytest.fixture
def takeover(tmp_path: Path) -> Iterator[Takeover]:
    with ExitStack() as opened:
        yield Takeover(tmp_path, opened)


@contextmanager
def client_of(takeover: Takeover) -> Iterator[Client]:
    with Client(takeover.addresses, timeout=300, options=PATIENT) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        yield client


def pushed(producer: Producer, *rows: int) -> None:
    for row in rows:
        producer.push({"x": [row]})
    producer.flush()


def rows(client: Client) -> list[int]:
    return [x for (x,) in client.ask("SELECT x FROM s").rows()]


@pytest.mark.seeded("lost batches that a producer does not tell")
def test_a_producer_goes_on_in_a_new_epoch_and_says_once_what_is_lost(takeover: Takeover) -> None:
    with client_of(takeover) as client, client.producer("s", name="p") as producer:
        pushed(producer, 0, 1, 2)
        takeover.copied()
        pushed(producer, 3, 4)
        epoch = producer.epoch
        takeover.happen()
        producer.push({"x": [5]})
        with pytest.raises(
            BatchesLost, match="has lost 2 batches of producer 'p' for stream 's', from number 3"
        ) as lost:
            producer.flush()
        assert (lost.value.reason, lost.value.first, lost.value.end) == ("BATCHES_LOST", 3, 5)
        pushed(producer, 6)
        assert (producer.epoch > epoch, producer.acknowledged) == (True, 2)
        assert rows(client) == [0, 1, 2, 5, 6]


def test_a_push_that_says_it_takes_nothing(takeover: Takeover) -> None:
    with client_of(takeover) as client, client.producer("s") as producer:
        pushed(producer, 0)
        takeover.copied()
        pushed(producer, 1)
        takeover.happen()
        producer.push({"x": [2]})
        with producer._changed:
            producer._changed.wait_for(lambda: producer._lost is not None)
        with pytest.raises(BatchesLost):
            producer.push({"x": [9]})
        pushed(producer, 3)
        assert rows(client) == [0, 2, 3]


@pytest.mark.parametrize("is_later", [False, True])
def test_a_producer_of_which_nothing_is_left_begins_anew(takeover: Takeover, is_later: bool) -> None:
    """`is_later`: it also began after the last event that the next service has."""
    with client_of(takeover) as client:
        takeover.copied()
        if is_later:
            client.push("s", {"x": [9]})
        with client.producer("s", name="p") as producer:
            pushed(producer, 0, 1)
            takeover.happen()
            producer.push({"x": [2]})
            with pytest.raises(BatchesLost) as lost:
                producer.flush()
            assert (lost.value.first, lost.value.end) == (0, 2)
        assert rows(client) == [2]


@pytest.mark.parametrize("goes_back", [False, True])
def test_a_producer_that_has_lost_nothing_goes_on(takeover: Takeover, goes_back: bool) -> None:
    """The producer began after the last event that the next service has, and nothing was acknowledged."""

    def rewind(lost: BatchesLost) -> None:
        raise AssertionError(lost)

    with client_of(takeover) as client:
        takeover.copied()
        client.push("s", {"x": [9]})
        with client.producer("s", name="p", rewind=rewind if goes_back else None) as producer:
            epoch = producer.epoch
            takeover.happen()
            pushed(producer, 0, 1)
            assert (producer.epoch, producer.acknowledged) == (epoch, 2)
        assert rows(client) == [0, 1]


def test_a_source_goes_back(takeover: Takeover) -> None:
    source, at, went_back = list(range(9)), [0], list[int]()

    def rewind(lost: BatchesLost) -> None:
        went_back.append(lost.first)
        at[0] = lost.first

    def pump(producer: Producer, end: int) -> None:
        """Push the rows up to `end`, each as a batch, until all are acknowledged."""
        while True:
            while at[0] < end:
                row, at[0] = source[at[0]], at[0] + 1
                producer.push({"x": [row]})
            try:
                producer.flush()
            except BatchesLost:
                continue
            return

    with client_of(takeover) as client, client.producer("s", name="p", rewind=rewind) as producer:
        pump(producer, 3)
        takeover.copied()
        pump(producer, 6)
        epoch = producer.epoch
        takeover.happen()
        pump(producer, 9)
        assert went_back == [3]
        assert (producer.epoch, producer.acknowledged) == (epoch, 9)
        assert rows(client) == source


def test_a_producer_with_source_positions_ends_and_the_next_goes_back(takeover: Takeover) -> None:
    with client_of(takeover) as client:
        producer = client.producer("s", name="p")
        for row in range(2):
            producer.push({"x": [row]}, position=b"%d" % row)
        producer.flush()
        takeover.copied()
        producer.push({"x": [2]}, position=b"2")
        producer.flush()
        takeover.happen()
        producer.push({"x": [3]}, position=b"3")
        for _ in range(2):  # it has ended
            with pytest.raises(BatchesLost, match="ask `position`"):
                producer.flush()
        assert client.position("s", "p").source == b"1"
        assert "ends before 1 row in 1 batch is acknowledged" in producer.abandon()


def test_a_gap_that_the_caller_made_is_told_as_one(takeover: Takeover) -> None:
    with client_of(takeover) as client:
        producer = client.producer("s", name="p", epoch=1, number=5)
        producer.push({"x": [1]})
        with pytest.raises(FailedPrecondition, match="number 5 leaves a gap, number 0 is expected") as gap:
            producer.flush()
        assert gap.value.reason == "NUMBER_GAP"
        producer.abandon()


def test_the_asynchronous_producer_does_the_same(takeover: Takeover) -> None:
    async def run() -> tuple[int, int]:
        async with AsyncClient(takeover.addresses, timeout=300, options=PATIENT) as client:
            await client.create_stream("CREATE STREAM s (x BIGINT)")
            async with client.producer("s", name="p") as producer:
                await producer.push({"x": [0]})
                await producer.flush()
                await asyncio.to_thread(takeover.copied)
                await producer.push({"x": [1]})
                await producer.flush()
                await asyncio.to_thread(takeover.happen)
                await producer.push({"x": [2]})
                with pytest.raises(BatchesLost) as lost:
                    await producer.flush()
                return lost.value.first, lost.value.end

    assert asyncio.run(run()) == (1, 2)


@pytest.mark.parametrize("is_known", [False, True])
def test_single_pushes_go_on(takeover: Takeover, is_known: bool) -> None:
    """`is_known`: the next service has a push of this client."""
    with client_of(takeover) as client:
        if is_known:
            client.push("s", {"x": [0]})
        takeover.copied()
        client.push("s", {"x": [1]})
        client.push("s", {"x": [2]})
        takeover.happen()
        assert client.push("s", {"x": [3]}).accepted == 1
        assert rows(client) == [0, 3][not is_known :]
