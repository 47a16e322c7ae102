"""Tests that a cancelled task, or a closed client, loses nothing in silence and leaves nothing half changed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from psoup_client import Cancelled, Client, ClientOptions, RetryOptions, Unavailable
from psoup_client.aio import AsyncClient
from psoup_client.aio.connection import CALLS_AT_ONCE
from psoup_client.copies import watch as watch_module
from psoup_client.ingest import producer as producer_module
from psoup_testing.services import fixtures
from psoup_testing.services.threaded_service import Serving


@pytest.fixture
def stream(running: Serving) -> str:
    """A stream without rows."""
    name = f"cancelled{next(fixtures.numbers)}"
    with Client(running.address, timeout=60) as client:
        client.create_stream(f"CREATE STREAM {name} (a BIGINT)")
    return name


class Stopped:
    """A function that waits in its first call, until the test lets it go on."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go.wait(30)
        return self._function(*arguments)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_answer_whose_reader_was_cancelled_does_not_look_whole(running: Serving, stream: str) -> None:
    async def read() -> None:
        async with AsyncClient(running.address) as client:
            await client.push(stream, {"a": list(range(200_000))})
            async with client.ask_stream(f"SELECT a FROM {stream}") as answer:
                await anext(aiter(answer))
                with running.held():
                    reading = asyncio.create_task(answer.read_all())
                    await asyncio.sleep(0)
                    await cancelled(reading)
                with pytest.raises(Cancelled, match="before its end"):
                    await answer.read_all()

    asyncio.run(read())


@pytest.mark.long
def test_a_cancelled_push_of_a_stage_ends_its_producer(
    running: Serving, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage may be committed under the number, so no other batch may have it."""
    begun = asyncio.Event()

    def committed(*arguments: Any) -> Any:
        committed_stage(*arguments)
        begun.set()
        arguments[0].connection.pause(30)

    async def pushed() -> None:
        async with AsyncClient(running.address) as client:
            producer = await client.producer(stream, name="p", epoch=1)
            large = asyncio.create_task(producer.push({"a": list(range(2_200_000))}, position=b"1"))
            await begun.wait()
            await cancelled(large)
            with pytest.raises(Cancelled, match="may be taken or not"):
                await producer.push([{"a": 1}])
            await producer.close()
            assert (await client.position(stream, "p")).source == b"1"

    committed_stage = producer_module.committed_stage
    monkeypatch.setattr(producer_module, "committed_stage", committed)
    asyncio.run(pushed())


@pytest.mark.parametrize("place", ["body_of", "applied"])
def test_a_watch_misses_nothing_if_it_is_cancelled_while_a_change_is_read(
    running: Serving, stream: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def watched() -> None:
        async with AsyncClient(running.address) as client:
            copies = [client.copy(await client.register(f"SELECT a FROM {stream} WHERE a >= {n}")) for n in range(2)]
            async with client.watch(copies) as watch:
                for _ in copies:
                    await anext(watch)
                monkeypatch.setattr(watch_module, "LONG_BODY", 0)
                stopped = Stopped(getattr(watch_module, place))
                monkeypatch.setattr(watch_module, place, stopped)
                await client.push(stream, {"a": list(range(1, 1_001))})
                waiting = asyncio.create_task(anext(watch))
                assert await asyncio.to_thread(stopped.begun.wait, 30)
                waiting.cancel()
                await asyncio.sleep(0)
                stopped.go.set()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                came = dict.fromkeys(copies, 0)
                while set(came.values()) != {1_000}:
                    copy, change = await asyncio.wait_for(anext(watch), 60)
                    came[copy] += change.came
                assert [len(copy) for copy in copies] == [1_000, 1_000]

    asyncio.run(watched())


def test_calls_that_wait_for_a_turn_end_with_the_client(running: Serving, stream: str) -> None:
    async def closed() -> None:
        client = AsyncClient(running.address)
        await client.info()
        with running.held():
            tasks = [asyncio.create_task(client.info()) for _ in range(2 * CALLS_AT_ONCE)]
            await asyncio.sleep(0)
            await client.close()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} == {Cancelled}

    asyncio.run(closed())


class Ending(grpc.GenericRpcHandler):
    """The calls of a service that ends: they are cancelled."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_stream_rpc_method_handler(self.end)

    async def end(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.abort(grpc.StatusCode.CANCELLED, "CANCELLED")
        yield b""


def test_a_call_that_the_service_cancels_may_be_repeated() -> None:
    """Only a call that this client cancelled ends with Cancelled, which ends a follower."""

    async def asked() -> None:
        server = grpc.aio.server(handlers=[Ending()])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        options = ClientOptions(retry=RetryOptions(attempts=1))
        async with AsyncClient(f"127.0.0.1:{port}", options=options) as client:
            with pytest.raises(Unavailable, match="cancelled the call"):
                await client.ask_stream("SELECT 1")
        await server.stop(None)

    asyncio.run(asked())


PROGRAM = """
import asyncio, sys
from psoup_client.aio import AsyncClient

async def push(address, stream):
    global producer
    client = AsyncClient(address)
    producer = await client.producer(stream)
    await producer.push([{"a": 1}])
    await producer.flush()
    await producer.push([{"a": 2}])

loop = asyncio.new_event_loop()
loop.run_until_complete(push(*sys.argv[1:]))
loop.close()
"""


@pytest.mark.long
def test_a_producer_whose_loop_is_closed_says_what_is_lost(running: Serving, stream: str) -> None:
    command = [sys.executable, "-c", PROGRAM, running.address, stream]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "1 row in 1 batch is acknowledged" in done.stderr
    assert "Event loop is closed" not in done.stderr


def test_a_cancelled_dump_leaves_no_error_behind(running: Serving, stream: str, tmp_path: Path) -> None:
    async def dumped() -> list[Any]:
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["message"]))
        begun, go = threading.Event(), threading.Event()

        def progress(*_: Any) -> None:
            begun.set()
            assert go.wait(30)

        async with AsyncClient(running.address) as client:
            await client.push(stream, {"a": list(range(200_000))})
            dumping = asyncio.create_task(client.dump(stream, tmp_path / "dump", progress=progress))
            assert await asyncio.to_thread(begun.wait, 30)
            dumping.cancel()
            await asyncio.sleep(0)
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await dumping
        with pytest.raises(Cancelled, match="closed"):
            await client.dump(stream, tmp_path / "again")
        return errors

    assert asyncio.run(dumped()) == []
