"""A streaming call waits for a service that restarts, as a unary call does, until its first reply has come."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory

import psoup_proto.v1
from psoup_client import Client, ClientOptions, FailedPrecondition, Query, RetryOptions, Unavailable
from psoup_client.channel.patience import Patience
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import Serving
from psoup_testing.suite.sweeps import swept

QUICK = RetryOptions(first_pause_seconds=0.01, longest_pause_seconds=0.05)
ROWS = [(1,), (2,)]


def streaming() -> dict[str, Any]:
    """The methods of the contract with many replies, by their names: "QueryService.InvokeStream"."""
    names = [module.name for module in pkgutil.iter_modules(psoup_proto.v1.__path__)]
    files = [importlib.import_module(f"psoup_proto.v1.{name}") for name in names if name.endswith("_pb2")]
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    return {f"{of.name}.{method.name}": method for of in services for method in of.methods if method.server_streaming}


class Restarted:
    """A durable service that `stop` ends, and that begins again as soon as a client waits for it."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path, self._settings = path, Settings(socket=str(path / "socket"))
        self._serving: Serving | None = None
        self.restarts = -1
        self.start()
        patience = Patience.next

        def sleep(seconds: float) -> None:
            self.start()
            threading.Event().wait(seconds)  # the channel connects again by the clock of the machine

        def following(own: Patience, problem: Any) -> float:
            self.start()
            return patience(own, problem)

        monkeypatch.setattr("psoup_client.channel.threads.time", SimpleNamespace(sleep=sleep))
        monkeypatch.setattr(Patience, "next", following)

    @property
    def address(self) -> str:
        return f"unix:{self._path / 'socket'}"

    def start(self) -> None:
        if self._serving is None:
            self._serving = Serving(self._settings, store=DurableStore(self._path / "data", reserve_bytes=0))
            self.restarts += 1

    def stop(self) -> None:
        if self._serving is not None:
            self._serving.stop()
            self._serving = None


def pushed(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    with client.producer("pushed") as producer:
        stop()
        producer.push({"a": [3]})
        return producer.flush().accepted


def watched(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    copy = client.copy(query)
    stop()
    with client.watch([copy]) as changes:
        next(iter(changes))
        return copy.rows()


def invoked(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    with query.stream() as pieces:
        return pieces.read_all().rows()


def tabled(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    return client.invoke_table([query]).to_arrow()["a"].to_pylist()


def asked(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    with client.ask_stream("SELECT a FROM s BEGIN (START)") as pieces:
        return pieces.read_all().rows()


def followed(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    with client.follow("s", "start", old=True, queries=[query]) as following:
        return [match.tuple["a"] for match in next(following)]


def backed_up(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    client.backup(path / "copy")
    return (path / "copy" / "psoup.db").is_file()


def promoted(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    with pytest.raises(FailedPrecondition) as refused:
        client.promote()
    return refused.value.reason


def invoked_together(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    return [answer.rows() for answer in client.invoke_many([query])]


def dumped(client: Client, query: Query, path: Path, stop: Callable[[], None]) -> object:
    stop()
    return client.dump("s", path / "dumped").rows


CALLS: dict[str, tuple[Callable[..., object], object]] = {
    "AdminService.Promote": (promoted, "NOT_STANDBY"),
    "BackupService.Backup": (backed_up, True),
    "FollowService.Follow": (followed, [1, 2]),
    "IngestService.PushStream": (pushed, 1),
    "QueryService.InvokeStream": (invoked, ROWS),
    "QueryService.InvokeTable": (tabled, [1, 2]),
    "StatementService.AskStream": (asked, ROWS),
    "SyncService.Watch": (watched, ROWS),
}
OTHERS: dict[str, tuple[Callable[..., object], object]] = {
    "invoke_many": (invoked_together, [ROWS]),
    "dump": (dumped, 2),
}
HELD = {"FollowService.Follow", "IngestService.PushStream", "SyncService.Watch"}
"""Calls that their holders repeat, also after the first reply: each attempt goes on where the last one ended."""


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    with pytest.MonkeyPatch.context() as patched:
        service = Restarted(tmp_path_factory.mktemp("restarted"), patched)
        with Client(service.address) as client:
            client.create_stream("CREATE STREAM s (a BIGINT)")
            client.create_stream("CREATE STREAM pushed (a BIGINT)")
            client.push("s", {"a": [1, 2]})
            client.register("SELECT a FROM s BEGIN (START)", key="few")
        yield service
        service.stop()


def test_every_streaming_call_of_the_contract_is_called_after_a_restart() -> None:
    assert set(CALLS) == set(streaming())


@pytest.mark.parametrize("name", swept([*CALLS, *OTHERS], fast=3))
def test_the_first_call_waits_for_the_restart(name: str, restarted: Restarted, tmp_path: Path) -> None:
    call, wanted = {**CALLS, **OTHERS}[name]
    with Client(restarted.address, timeout=60, options=ClientOptions(retry=QUICK)) as client:
        query = client.query(key="few")
        client.wait_for(0)
        before = restarted.restarts
        given = call(client, query, tmp_path, restarted.stop)
        assert (given, restarted.restarts) == (wanted, before + 1)


class Failing(grpc.GenericRpcHandler):
    """A service whose streaming calls give `messages` empty replies and are unavailable then; `calls` counts them."""

    def __init__(self, messages: int) -> None:
        self.messages, self.calls = messages, 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_stream_rpc_method_handler(self._fail)

    def _fail(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        self.calls += 1
        for _ in range(self.messages):
            yield b""
        context.abort(grpc.StatusCode.UNAVAILABLE, "not there")


@contextmanager
def failing(messages: int) -> Iterator[tuple[Failing, str]]:
    handler, running = Failing(messages), grpc.server(ThreadPoolExecutor(2))
    running.add_generic_rpc_handlers((handler,))
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    try:
        yield handler, f"127.0.0.1:{port}"
    finally:
        running.stop(None).wait()


def stub_of(client: Client, method: Any) -> Any:
    stubs = [stub for stub in vars(client.connection).values() if hasattr(stub, method.name)]
    assert len(stubs) == 1
    return getattr(stubs[0], method.name)


@pytest.mark.parametrize("name", sorted(set(CALLS) - HELD))
@pytest.mark.parametrize(("messages", "calls"), [(0, 3), (1, 1)])
def test_a_call_is_repeated_until_its_first_reply(name: str, messages: int, calls: int) -> None:
    method = streaming()[name]
    request = message_factory.GetMessageClass(method.input_type)()
    retry = RetryOptions(attempts=3, first_pause_seconds=0.01, longest_pause_seconds=0.01, restart_seconds=0)
    with failing(messages) as (service, address), Client(address, options=ClientOptions(retry=retry)) as client:
        with closing(client.connection.stream(stub_of(client, method), request, 60)) as replies:
            for _ in range(messages):
                next(replies)
            with pytest.raises(Unavailable):
                next(replies)
        assert service.calls == calls


def test_the_deadline_is_for_all_attempts() -> None:
    retry = RetryOptions(attempts=10_000, first_pause_seconds=0.01, longest_pause_seconds=100)
    with failing(0) as (service, address), Client(address, options=ClientOptions(retry=retry)) as client:
        with pytest.raises(Unavailable):
            client.ask_stream("SELECT 1", timeout=60)
        assert 1 < service.calls < 7  # pauses of 0.01, 0.02, 0.04, 0.08 s, and the next would be too long
