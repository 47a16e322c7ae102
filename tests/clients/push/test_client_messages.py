"""Small batches of a producer share messages: how they are divided, and each batch is taken once whatever happens."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from psoup import errors as engine
from psoup_client import Client, InvalidRequest, Producer, RowsNotTaken, ServerFault
from psoup_client.ingest import messages as module
from psoup_client.ingest import producer as sender
from psoup_client.ingest.messages import SHARED_BATCHES, SHARED_BYTES, SHARED_ROWS, SMALL_BYTES, Messages, request_of
from psoup_client.ingest.pipeline import NumberedBatch
from psoup_client.payload import Payload, read
from psoup_proto.v1 import ingest_pb2, ingest_pb2_grpc, streams_pb2, streams_pb2_grpc, types_pb2
from psoup_service.servicers.push_stream import MOST_MORE
from psoup_service.wire.status import status_of


def window(*sizes: tuple[int, int], position: int | None = None) -> deque[NumberedBatch]:
    """Batches from number 7 on, by rows and bytes; `position`: the number of one with a source position."""
    return deque(
        NumberedBatch(number, Payload(bytes(size), rows), b"p" if number == position else None)
        for number, (rows, size) in enumerate(sizes, 7)
    )


def groups(waiting: deque[NumberedBatch]) -> list[list[int]]:
    messages = Messages(waiting)
    messages.shares = True
    taken = []
    while messages.waiting:
        taken.append([batch.number for batch in messages.take()])
    return taken


def test_small_batches_share_a_message() -> None:
    assert groups(window((1, 10), (2, 10), (3, 10))) == [[7, 8, 9]]


def test_a_message_has_a_most_of_batches_rows_and_bytes() -> None:
    assert list(map(len, groups(window(*[(1, 10)] * (SHARED_BATCHES + 2))))) == [SHARED_BATCHES, 2]
    assert groups(window((SHARED_ROWS - 1, 10), (1, 10), (1, 10))) == [[7, 8], [9]]
    count = SHARED_BYTES // SMALL_BYTES
    assert list(map(len, groups(window(*[(1, SMALL_BYTES)] * (count + 1))))) == [count, 1]


def test_long_batches_and_source_positions_travel_alone() -> None:
    assert groups(window((1, 10), (1, SMALL_BYTES + 1), (1, 10), (1, 10))) == [[7], [8], [9, 10]]
    assert groups(window((1, 10), (1, 10), (1, 10), (1, 10), position=8)) == [[7], [8], [9, 10]]


def test_nothing_is_shared_before_the_service_says_that_it_takes_it() -> None:
    messages = Messages(window((1, 10), (1, 10)))
    assert messages.may_go() and [batch.number for batch in messages.take()] == [7]
    assert messages.may_go() and [batch.number for batch in messages.take()] == [8]
    assert not messages.may_go()


def test_a_small_batch_waits_while_two_messages_are_under_way() -> None:
    batches = window((1, 10), (1, 10))
    messages = Messages(batches)
    messages.take(), messages.take()
    messages.shares = True
    batches += [NumberedBatch(number, Payload(bytes(10), 1)) for number in (9, 10)]
    assert not messages.may_go()
    messages.replied(batches.popleft())
    assert messages.may_go() and [batch.number for batch in messages.take()] == [9, 10]
    batches.append(NumberedBatch(11, Payload(bytes(SMALL_BYTES + 1), 1)))
    assert messages.may_go()  # nothing can join it
    messages.begin()
    assert messages.waiting == 4 and messages.may_go()


def test_a_reply_to_other_batches_is_a_fault() -> None:
    messages = Messages(window((1, 10), (1, 10)))
    messages.take()
    for reply in (
        ingest_pb2.PushStreamResponse(number=8),
        ingest_pb2.PushStreamResponse(number=7, more=[ingest_pb2.PushResponse()]),
    ):
        with pytest.raises(ServerFault, match="the service replied to"):
            messages.check(reply)


def test_a_request_has_the_payloads_in_order() -> None:
    request = request_of([*window((1, 1), (1, 2), (1, 3))])
    assert (request.number, len(request.arrow_ipc), [*map(len, request.more)]) == (7, 1, [2, 3])


# Against a service that breaks connections -----------------------------------------------------------------


class Script(ingest_pb2_grpc.IngestServiceServicer, streams_pb2_grpc.StreamServiceServicer):
    """A service that takes several batches in a message, each number once.

    `cuts`: the numbers after which it breaks the connection once, without a reply. `refuse`: the numbers that it does
    not take. `hold`: it reads nothing while this is not set.
    """

    def __init__(self) -> None:
        self.cuts: set[int] = set()
        self.refuse: set[int] = set()
        self.hold = threading.Event()
        self.hold.set()
        self.taken: list[int] = []
        self.messages: list[int] = []
        """The number of batches of each message."""

    def GetStream(self, request: Any, context: Any) -> Any:
        column = types_pb2.Column(name="a", type=types_pb2.DataType(kind=types_pb2.KIND_BIGINT), nullable=True)
        return streams_pb2.GetStreamResponse(stream=streams_pb2.Stream(name="s", stream_id="s1", columns=[column]))

    def PushStream(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        for request in requests:
            self.hold.wait(30)
            outcomes = list[Any]()
            self.messages.append(1 + len(request.more))
            for number, payload in enumerate([request.arrow_ipc, *request.more], request.number):
                if number in self.refuse:
                    if outcomes:
                        yield self._reply(request.number, outcomes)
                    self._refuse(context)
                duplicate = number < len(self.taken)
                if not duplicate:
                    assert number == len(self.taken)
                    self.taken += read(payload)["a"].to_pylist()
                outcomes.append((number + 1, duplicate))
                if number in self.cuts:
                    self.cuts.remove(number)
                    context.abort(grpc.StatusCode.UNAVAILABLE, "the stream is old")
            yield self._reply(request.number, outcomes)

    def _reply(self, number: int, outcomes: list[tuple[int, bool]]) -> Any:
        (sequence, duplicate), *more = outcomes
        further = [ingest_pb2.PushResponse(sequence=s, accepted=1, duplicate=d) for s, d in more]
        return ingest_pb2.PushStreamResponse(
            number=number, sequence=sequence, accepted=1, duplicate=duplicate, more=further, takes_more=True
        )

    def _refuse(self, context: Any) -> None:
        status = status_of(engine.InvalidInput("a row that does not fit", field="rows"))
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, status.message)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def scripted(script: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(sender, "HOLD_S", 30.0)  # batches wait for replies, not for the clock
    server = grpc.server(ThreadPoolExecutor(4))
    ingest_pb2_grpc.add_IngestServiceServicer_to_server(script, server)
    streams_pb2_grpc.add_StreamServiceServicer_to_server(script, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Client(f"127.0.0.1:{port}", timeout=30) as client:
        yield client
    script.hold.set()
    server.stop(0).wait()


def begin(producer: Producer, script: Script) -> None:
    """Let the producer learn that messages are shared, and keep the service from reading what comes then."""
    producer.push([{"a": 0}])
    producer.flush()
    script.hold.clear()


def push_all(producer: Producer, script: Script, count: int) -> None:
    for value in range(1, count):
        producer.push([{"a": value}])
    script.hold.set()


def test_batches_that_wait_share_a_message_and_have_a_reply_each(script: Script, scripted: Client) -> None:
    seen = list[int]()
    with scripted.producer("s", on_reply=lambda result: seen.append(result.accepted)) as producer:
        begin(producer, script)
        push_all(producer, script, 40)
        result = producer.flush()
    assert script.taken == list(range(40))
    assert sum(script.messages) == 40 and len(script.messages) <= 4
    assert (result.batches, result.accepted, result.sequence, producer.acknowledged) == (40, 40, 40, 40)
    assert seen == list(range(1, 41))


@pytest.mark.parametrize("cut", [1, 5, 20, 39])
def test_a_connection_that_is_lost_within_a_message_doubles_and_loses_nothing(
    script: Script, scripted: Client, cut: int
) -> None:
    script.cuts = {cut}
    with scripted.producer("s", epoch=7) as producer:
        begin(producer, script)
        push_all(producer, script, 40)
        result = producer.flush()
    assert script.taken == list(range(40))
    assert (result.batches, result.accepted) == (40, 40)
    assert result.duplicates >= 1  # the batches that were taken before the cut


@pytest.mark.seeded("a merged batch whose second number is refused while its first is taken")
def test_batches_before_a_refused_one_of_their_message_are_acknowledged(script: Script, scripted: Client) -> None:
    script.refuse = {20}
    producer = scripted.producer("s")
    begin(producer, script)
    push_all(producer, script, 40)
    with pytest.raises(InvalidRequest):
        producer.flush()
    assert script.taken == list(range(20)) and producer.acknowledged == 20
    assert producer.result.accepted == 20
    with pytest.warns(RowsNotTaken, match="20 rows in 20 batches"):
        producer.close()


def test_the_service_has_the_same_limits() -> None:
    assert module.SHARED_BATCHES - 1 <= MOST_MORE
