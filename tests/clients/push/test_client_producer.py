"""The producer: against a real service, and against one that drops, refuses and forgets as it is told.

`Script` is an ingest service in the test: it takes batches as the real one would, exactly once, and breaks the
connection at the batches that `breaks` names, before or after taking them.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup import errors as engine
from psoup_client import (
    Cancelled,
    Client,
    Conflict,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidData,
    NotFound,
    Producer,
    RowsNotTaken,
    Unavailable,
)
from psoup_client.payload import read
from psoup_proto.v1 import ingest_pb2, ingest_pb2_grpc, streams_pb2, streams_pb2_grpc, types_pb2
from psoup_service.wire.status import status_of
from psoup_testing.suite.sweeps import swept

MakeStream = Callable[[str], str]


class Script(ingest_pb2_grpc.IngestServiceServicer, streams_pb2_grpc.StreamServiceServicer):
    """What the server does. `before`, `after`: numbers at which a call is cut once, before or after taking them."""

    def __init__(self) -> None:
        self.before: set[int] = set()
        self.after: set[int] = set()
        self.code = grpc.StatusCode.UNAVAILABLE
        self.refuse: dict[int, engine.PSoupError] = {}
        self.hold = threading.Event()
        self.hold.set()
        self.taken: list[tuple[int, list[int]]] = []
        self.calls = 0
        self.epochs: set[int] = set()

    def GetStream(self, request: Any, context: Any) -> Any:
        column = types_pb2.Column(name="a", type=types_pb2.DataType(kind=types_pb2.KIND_BIGINT), nullable=True)
        return streams_pb2.GetStreamResponse(stream=streams_pb2.Stream(name="s", stream_id="s1", columns=[column]))

    def PushStream(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        self.calls += 1
        for request in requests:
            self.hold.wait()
            self._cut(self.before, request.number, context)
            if request.number in self.refuse:
                status = status_of(self.refuse[request.number])
                context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
                code = next(c for c in grpc.StatusCode if c.value[0] == status.code)
                context.abort(code, status.message)
            duplicate = request.number < len(self.taken)
            if not duplicate:
                assert request.number == len(self.taken)
                self.taken.append((request.number, read(request.arrow_ipc)["a"].to_pylist()))
            self.epochs.add(request.epoch)
            self._cut(self.after, request.number, context)
            yield ingest_pb2.PushStreamResponse(
                number=request.number, sequence=request.number + 1, accepted=1, duplicate=duplicate
            )

    def _cut(self, numbers: set[int], number: int, context: Any) -> None:
        if number in numbers:
            numbers.remove(number)
            context.abort(self.code, "the stream is old")


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def scripted(script: Script) -> Iterator[Client]:
    server = grpc.server(ThreadPoolExecutor(4))
    ingest_pb2_grpc.add_IngestServiceServicer_to_server(script, server)
    streams_pb2_grpc.add_StreamServiceServicer_to_server(script, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Client(f"127.0.0.1:{port}", timeout=60) as client:
        yield client
    script.hold.set()
    server.stop(0).wait()


def push_all(producer: Producer, numbers: Iterable[int]) -> None:
    for value in numbers:
        producer.push([{"a": value}])


def push_and_flush(producer: Producer) -> None:
    producer.push([{"a": 1}])
    producer.flush()


def values(script: Script) -> list[int]:
    return [value for _, batch in script.taken for value in batch]


# Against the script --------------------------------------------------------------------------------------


def test_batches_arrive_in_order(script: Script, scripted: Client) -> None:
    with scripted.producer("s", batch_rows=3) as producer:
        assert producer.push({"a": list(range(10))}) == 4
        producer.push([{"a": 10}])
        result = producer.flush()
    assert values(script) == list(range(11))
    assert (result.batches, result.duplicates, result.sequence) == (5, 0, 5)
    assert script.calls == 1
    assert scripted.last_sequence == 5


@pytest.mark.parametrize("code", swept([grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED], fast=1))
def test_a_lost_connection_doubles_and_loses_nothing(script: Script, scripted: Client, code: grpc.StatusCode) -> None:
    """CANCELLED is what a call may see of a service that ends."""
    script.code = code
    script.before, script.after = {3, 11}, {0, 7, 11, 19}
    with scripted.producer("s", epoch=7) as producer:
        for value in range(20):
            producer.push([{"a": value}])
        result = producer.flush()
    assert values(script) == list(range(20))
    assert result.duplicates == 4  # taken before the cut, sent again after it
    assert script.epochs == {7}
    assert script.calls == 7


def test_a_refused_batch_ends_the_producer(script: Script, scripted: Client) -> None:
    script.refuse = {2: engine.Conflict("other rows under number 2")}
    script.hold.clear()  # a refusal that came at once would end `push_all`
    producer = scripted.producer("s")
    push_all(producer, range(10))
    script.hold.set()
    for ask in (producer.flush, lambda: producer.push([{"a": 1}])):
        with pytest.raises(Conflict, match="number 2"):
            ask()
    assert producer.acknowledged == 2
    assert values(script) == [0, 1]
    with pytest.warns(RowsNotTaken, match="8 rows in 8 batches"):
        producer.close()  # its error was raised before
    producer.close()


def test_rows_that_do_not_fit_are_not_sent(script: Script, scripted: Client) -> None:
    with scripted.producer("s") as producer:
        producer.push([{"a": 1}])
        with pytest.raises(InvalidData):
            producer.push([{"a": "x"}])
        producer.push([{"a": 2}])
    assert values(script) == [1, 2]


def test_the_window_is_bounded(script: Script, scripted: Client) -> None:
    script.hold.clear()
    producer = scripted.producer("s", window_batches=2)
    producer.push([{"a": 0}])
    producer.push([{"a": 1}])
    with pytest.raises(DeadlineExceeded, match="2 batches"):
        producer.push([{"a": 2}], timeout=0.05)
    with pytest.raises(DeadlineExceeded):
        producer.flush(timeout=0.05)
    script.hold.set()
    producer.push([{"a": 2}])
    producer.flush()
    producer.close()
    assert values(script) == [0, 1, 2]


def test_the_window_is_bounded_in_bytes_but_takes_one_batch(script: Script, scripted: Client) -> None:
    script.hold.clear()
    producer = scripted.producer("s", window_bytes=10)
    producer.push([{"a": 0}])
    with pytest.raises(DeadlineExceeded):
        producer.push([{"a": 1}], timeout=0.05)
    producer.close(flush=False)


def test_close_waits_for_all_batches(script: Script, scripted: Client) -> None:
    producer = scripted.producer("s")
    push_all(producer, range(30))
    assert producer.close().batches == producer.close().batches == 30
    assert values(script) == list(range(30))


def test_a_closed_client_waits_for_its_producers(script: Script, scripted: Client) -> None:
    producer = scripted.producer("s")
    push_all(producer, range(30))
    scripted.close()
    assert values(script) == list(range(30))


def test_close_waits_as_long_as_it_is_told(script: Script, scripted: Client) -> None:
    script.hold.clear()
    producer = scripted.producer("s")
    push_all(producer, range(2))
    with pytest.warns(RowsNotTaken, match="2 rows in 2 batches"), pytest.raises(DeadlineExceeded, match="2 batches"):
        producer.close(timeout=0.01)


def test_close_without_flush_does_not_wait(script: Script, scripted: Client) -> None:
    script.hold.clear()
    producer = scripted.producer("s")
    producer.push([{"a": 0}])
    producer.close(flush=False)
    producer.close()
    for ask in (lambda: producer.push([{"a": 1}]), producer.flush):
        with pytest.raises(Cancelled, match="closed"):
            ask()


def test_an_exception_in_the_block_is_not_replaced(script: Script, scripted: Client) -> None:
    script.hold.clear()

    def fail() -> None:
        with scripted.producer("s") as producer:
            producer.push([{"a": 0}])
            raise KeyError("mine")

    with pytest.warns(RowsNotTaken, match="1 row in 1 batch is acknowledged: they are lost"), pytest.raises(KeyError):
        fail()


@pytest.mark.long
def test_the_end_of_the_interpreter_names_what_is_lost(running: Any, make_stream: MakeStream) -> None:
    """Without `close`: batches that the end overtakes, and a stage that is not committed."""
    program = f"""
import psoup_client
client = psoup_client.Client({running.address!r})
client.stage({make_stream("(a BIGINT)")!r}).add([{{"a": 1}}, {{"a": 2}}])
producer = client.producer({make_stream("(a BIGINT)")!r})
producer._next_request = lambda requests: None      # no batch is sent
producer.push([{{"a": 1}}])
producer.push([{{"a": 2}}, {{"a": 3}}])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "RowsNotTaken" in done.stderr
    assert "ends before 3 rows in 2 batches are acknowledged" in " ".join(done.stderr.split())
    assert "ends without a commit: its 2 rows are lost" in done.stderr


def test_going_on_where_another_stopped(script: Script, scripted: Client) -> None:
    script.after = {1}
    first = scripted.producer("s", name="loader", epoch=1, retry_seconds=0)
    push_all(first, range(2))
    with pytest.raises(Unavailable):
        first.flush()
    first.close(flush=False)
    assert first.acknowledged <= 1
    with scripted.producer("s", name="loader", epoch=1, number=first.acknowledged) as second:
        for value in range(first.acknowledged, 3):
            second.push([{"a": value}])
    assert values(script) == [0, 1, 2]


def test_on_reply_is_told_the_sum(script: Script, scripted: Client) -> None:
    seen: list[int] = []
    with scripted.producer("s", on_reply=lambda result: seen.append(result.accepted)) as producer:
        for value in range(3):
            producer.push([{"a": value}])
    assert seen == [1, 2, 3]


# Against the service -------------------------------------------------------------------------------------


def test_rows_reach_the_service(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT, b TEXT)")
    query = client.register(f"SELECT a FROM {name}")
    with client.producer(name, batch_rows=1_000) as producer:
        for start in range(0, 50_000, 5_000):
            producer.push(pa.table({"a": range(start, start + 5_000), "b": ["x"] * 5_000}))
    assert producer.result.accepted == 50_000
    assert producer.acknowledged == 50
    assert query.invoke().to_arrow()["a"].to_pylist() == list(range(50_000))


def test_the_service_takes_each_number_once(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    for _ in range(2):
        with client.producer(name, name="p", epoch=1) as producer:
            producer.push([{"a": 1}])
            producer.push([{"a": 2}])
    assert producer.result.duplicates == 2
    assert client.describe(name).tuples == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"epoch": 1}, Conflict),  # the same number, other rows
        ({"epoch": 0}, FailedPrecondition),  # fenced by epoch 1
        ({"epoch": 1, "number": 5}, FailedPrecondition),  # a gap
    ],
)
def test_the_service_refuses(
    client: Client, make_stream: MakeStream, options: dict[str, int], expected: type[Exception]
) -> None:
    name = make_stream("(a BIGINT)")
    with client.producer(name, name="p", epoch=1) as first:
        first.push([{"a": 1}])
    second = Producer(client, name, name="p", **options)
    second.push([{"a": 7}])
    with pytest.warns(RowsNotTaken, match="1 row in 1 batch"), pytest.raises(expected):
        second.close()
    assert client.describe(name).tuples == 1


def test_no_such_stream(client: Client) -> None:
    with pytest.raises(NotFound):
        client.producer("nowhere")


def test_a_closed_client_ends_its_producers(running: Any, make_stream: MakeStream) -> None:
    name = make_stream("(a BIGINT)")
    leaving = Client(running.address)
    producer = leaving.producer(name)
    producer.push([{"a": 1}])
    producer.flush()
    leaving.close()
    with pytest.raises(Cancelled):
        push_and_flush(producer)
    producer.close()
