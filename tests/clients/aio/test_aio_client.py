"""`AsyncClient` in an event loop: tasks, cancellation, waits that end, and what its objects do together."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import uvloop

from psoup_client import (
    AccessDenied,
    Altered,
    Cancelled,
    Client,
    ClientOptions,
    DeadlineExceeded,
    InvalidStatement,
    NotFound,
    PSoupError,
    RetryOptions,
    RowsNotTaken,
    Unavailable,
)
from psoup_client.aio import AsyncClient
from psoup_client.aio.connection import CALLS_AT_ONCE
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services import fixtures
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import Serving, serving

RUNNERS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Runner = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def stream(running: Serving) -> str:
    """A stream with a thousand rows."""
    name = f"aio{next(fixtures.numbers)}"
    with Client(running.address, timeout=60) as client:
        client.create_stream(f"CREATE STREAM {name} (a BIGINT)")
        client.push(name, {"a": list(range(1_000))})
    return name


def no_call_is_open(running: Serving) -> None:
    running.wait_until(lambda: running.service._answering.calls.under_way.open == 0)


def a_call_is_open(running: Serving, calls: int = 1) -> Coroutine[Any, Any, None]:
    """Wait until the service has so many calls, without holding up the event loop."""
    under_way = running.service._answering.calls.under_way
    return asyncio.to_thread(running.wait_until, lambda: under_way.open >= calls)


@pytest.mark.long
@RUNNERS
def test_a_thousand_tasks_are_answered(running: Serving, stream: str, run: Runner) -> None:
    async def asked() -> list[int]:
        async with AsyncClient(running.address) as client:
            query = await client.register(f"SELECT a FROM {stream} WHERE a < 10")
            return [len(answer) for answer in await asyncio.gather(*(query.invoke() for _ in range(1_000)))]

    assert run(asked()) == [10] * 1_000
    no_call_is_open(running)


@RUNNERS
def test_a_cancelled_call_is_cancelled_at_the_service(running: Serving, stream: str, run: Runner) -> None:
    async def abandoned() -> None:
        async with AsyncClient(running.address) as client:
            copy = client.copy(await client.register(f"SELECT a FROM {stream} WHERE a >= 5000"))
            async with client.follow(stream) as feed, client.watch([copy]) as watch:
                await anext(watch)
                tasks = [asyncio.create_task(anext(each)) for each in (feed, watch)]
                await a_call_is_open(running, 2)
                for task in tasks:
                    task.cancel()
                assert all(isinstance(end, asyncio.CancelledError) for end in await _ends(tasks))
                await asyncio.to_thread(no_call_is_open, running)
                assert (await client.push(stream, {"a": [5_000]})).accepted == 1  # the client goes on
                assert (await anext(watch))[1].came == 1
                assert len(await anext(feed)) == 1

    run(abandoned())
    no_call_is_open(running)


async def _ends(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_a_cancelled_unary_call_is_cancelled_at_the_service(running: Serving, stream: str) -> None:
    async def abandoned() -> None:
        async with AsyncClient(running.address) as client:
            await client.info()
            with running.held():
                tasks = [asyncio.create_task(client.ask(f"SELECT a FROM {stream}")) for _ in range(2 * CALLS_AT_ONCE)]
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                assert all(isinstance(end, asyncio.CancelledError) for end in await _ends(tasks))
            assert len(await client.ask(f"SELECT a FROM {stream} WHERE a = 1")) == 1

    asyncio.run(abandoned())
    no_call_is_open(running)


def test_a_timeout_counts_the_wait_for_a_turn(running: Serving, stream: str) -> None:
    async def asked() -> None:
        async with AsyncClient(running.address) as client:
            await client.info()
            with running.held():
                tasks = [asyncio.create_task(client.ask(f"SELECT a FROM {stream}")) for _ in range(CALLS_AT_ONCE)]
                await asyncio.sleep(0)
                with pytest.raises(DeadlineExceeded):
                    await client.ask(f"SELECT a FROM {stream}", timeout=0.05)
            assert [len(answer) for answer in await asyncio.gather(*tasks)] == [1_000] * CALLS_AT_ONCE

    asyncio.run(asked())


def test_a_stream_that_is_left_is_cancelled(running: Serving, stream: str) -> None:
    async def left() -> int:
        async with AsyncClient(running.address) as client:
            async with client.ask_stream(f"SELECT a FROM {stream}") as answer:
                async for batch in answer:
                    rows: int = len(batch)
                    break
            with pytest.raises(Cancelled):
                await answer.read_all()
            whole = [batch async for batch in client.ask_stream(f"SELECT a FROM {stream}")]
            assert pa.Table.from_batches(whole).num_rows == 1_000
            return rows

    assert asyncio.run(left()) > 0
    no_call_is_open(running)


@pytest.mark.long
def test_a_watch_goes_on_after_a_restart(tmp_path: Path, kept_port: KeptPort) -> None:
    settings = Settings(port=kept_port.number)

    async def watched(first: Serving) -> None:
        async with AsyncClient(first.address) as client:
            await client.create_stream("CREATE STREAM w (a BIGINT)")
            copy = client.copy(await client.register("SELECT a FROM w"))
            async with client.watch([copy]) as watch:
                await anext(watch)
                await asyncio.to_thread(first.stop)
                waiting = asyncio.create_task(anext(watch))
                again = await asyncio.to_thread(Serving, settings, None, DurableStore(tmp_path))
                assert (await client.push("w", {"a": [7]})).accepted == 1
                await waiting
                while not len(copy):
                    await anext(watch)
                assert copy.to_arrow().to_pydict() == {"a": [7]}
            await asyncio.to_thread(again.stop)

    asyncio.run(watched(Serving(settings, None, DurableStore(tmp_path))))


def test_errors_are_those_of_the_client(running: Serving, stream: str) -> None:
    def told(call: Callable[[], object]) -> tuple[type, str]:
        try:
            call()
        except (TypeError, PSoupError) as problem:
            return type(problem), str(problem)
        raise AssertionError("no error")

    wrong = f"SELECT nothing FROM {stream}"
    with Client(running.address) as client:
        expected = [
            told(lambda: client.ask(wrong)),
            told(lambda: client.stream("nowhere")),
            told(lambda: client.ask(5)),
        ]  # type: ignore[arg-type]

    async def asked() -> list[tuple[type, str]]:
        async with AsyncClient(running.address) as other:
            calls = (lambda: other.ask(wrong), lambda: other.stream("nowhere"), lambda: other.ask(5))  # type: ignore[arg-type]
            ends = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
            return [(type(end), str(end)) for end in ends]

    assert asyncio.run(asked()) == expected
    assert [kind for kind, _ in expected] == [InvalidStatement, NotFound, TypeError]


def test_a_wrong_token_is_refused() -> None:
    async def asked(address: str, token: str) -> None:
        async with AsyncClient(address, options=ClientOptions(token=token)) as client:
            await client.streams()

    with serving() as service:
        with Client(service.address) as client:
            secret = client.issue_token("first", ["operator", "reader"], first=True).secret
        asyncio.run(asked(service.address, secret))
        with pytest.raises(AccessDenied):
            asyncio.run(asked(service.address, "psoup_" + "x" * 40))


def test_a_deadline_ends_a_call(running: Serving) -> None:
    async def asked() -> None:
        async with AsyncClient(running.address) as client:
            await client.info()
            with running.held(), pytest.raises(DeadlineExceeded):
                await client.ask("SELECT 1", timeout=0.05)

    asyncio.run(asked())


def test_closing_ends_calls_and_waits(running: Serving, stream: str) -> None:
    async def closed() -> None:
        client = AsyncClient(running.address)
        feed = await client.follow(stream)
        await client.info()
        with running.held():
            tasks = [asyncio.create_task(client.ask(f"SELECT a FROM {stream}")), asyncio.create_task(anext(feed))]
            await asyncio.sleep(0)
            await client.close()
            assert [type(end) for end in await _ends(tasks)] == [Cancelled, Cancelled]
        await client.close()
        with pytest.raises(Cancelled, match="closed"):
            await client.info()

    asyncio.run(closed())
    no_call_is_open(running)


def test_close_of_a_follower_ends_the_wait_of_another_task(running: Serving, stream: str) -> None:
    async def closed() -> None:
        async with AsyncClient(running.address) as client, client.follow(stream) as feed:
            waiting = asyncio.create_task(anext(feed, None))
            await a_call_is_open(running)
            await feed.close()
            assert await waiting is None

    asyncio.run(closed())


def test_a_producer_waits_while_its_window_is_full(running: Serving, stream: str) -> None:
    async def pushed() -> None:
        async with AsyncClient(running.address) as client:
            async with client.producer(stream, name="p", epoch=1, window_batches=2) as producer:
                await producer.push([{"a": 1}])
                await producer.flush()
                with running.held():
                    for _ in range(2):
                        await producer.push([{"a": 1}])
                    with pytest.raises(DeadlineExceeded):
                        await producer.push([{"a": 1}], timeout=0.05)
                for _ in range(20):
                    await producer.push([{"a": 1}])
            assert (producer.result.accepted, producer.acknowledged) == (23, 23)
            assert (await client.position(stream, "p")).rows == 23

    asyncio.run(pushed())
    no_call_is_open(running)


async def _interrupted(opening: Any, send: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Send rows in a block that ends with an exception. Returns the sender."""
    with suppress(ZeroDivisionError):
        async with opening as sender:
            await send(sender)
            raise ZeroDivisionError
    return sender


def test_an_exception_abandons_a_producer_and_says_so(running: Serving, stream: str) -> None:
    async def failed() -> None:
        async with AsyncClient(running.address) as client:
            producer = await client.producer(stream)
            with running.held(), pytest.warns(RowsNotTaken, match="1 row in 1 batch"):
                await _interrupted(producer, lambda sender: sender.push([{"a": 1}]))

    asyncio.run(failed())


def test_a_stage_is_committed_at_the_end_of_its_block(running: Serving, stream: str) -> None:
    async def staged() -> None:
        async with AsyncClient(running.address) as client:
            async with client.stage(stream, producer="nightly") as stage:
                await stage.add({"a": [1, 2]})
            assert stage.result is not None
            assert stage.result.accepted == 2
            aborted = await _interrupted(client.stage(stream), lambda sender: sender.add({"a": [3]}))
            assert aborted.result is None

    asyncio.run(staged())


def test_many_queries_are_registered_invoked_and_loaded(running: Serving, stream: str) -> None:
    async def asked() -> None:
        async with AsyncClient(running.address) as client:
            queries = await client.register_many(f"SELECT a FROM {stream} WHERE a < ?", [(n,) for n in range(50)])
            assert [len(answer) async for answer in client.invoke_many(queries)] == list(range(50))
            assert len(await client.invoke_table(queries[:3])) == 3
            with pytest.raises(RuntimeError, match="awaited"):
                _ = queries[7].sql
            assert (await queries[7].load()).sql.endswith("a < 7")
            async for answer in client.invoke_many(queries):  # leaving ends the call that was made ahead
                assert len(answer) == 0
                break
            assert await client.alter_queries(queries, active=False) == Altered(50, 50)
            assert await queries[7].alter(amount="none", active=True)
            assert (await client.query(queries[7].id)).info.amount == "none"
            assert await client.unregister_many(queries) == 50

    asyncio.run(asked())
    no_call_is_open(running)


def test_a_client_belongs_to_one_event_loop(running: Serving) -> None:
    client = AsyncClient(running.address)
    asyncio.run(_info(client))
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(_info(client))


async def _info(client: AsyncClient) -> None:
    await client.info()


def test_a_service_that_is_not_there_is_unavailable() -> None:
    async def asked() -> None:
        options = ClientOptions(retry=RetryOptions(attempts=2, first_pause_seconds=0.01))
        async with AsyncClient("127.0.0.1:1", options=options) as client:
            with pytest.raises(Unavailable, match="no PSoup service answers"):
                await client.info()

    asyncio.run(asked())


def test_interceptors_of_threads_are_refused() -> None:
    with pytest.raises(TypeError, match=r"grpc\.aio"):
        AsyncClient(options=ClientOptions(interceptors=(object(),)))


def test_the_event_loop_goes_on_while_rows_are_converted(running: Serving, stream: str) -> None:
    """Conversion of many rows is in a thread: other tasks run between its begin and its end."""

    async def pushed() -> int:
        async with AsyncClient(running.address) as client:
            await client.describe(stream)
            turns = 0
            task = asyncio.create_task(client.convert(stream, [{"a": n} for n in range(100_000)]))
            while not task.done():
                turns += 1
                await asyncio.sleep(0)
            assert (await task).num_rows == 100_000
            return turns

    assert asyncio.run(pushed()) > 5


def test_files_are_written_and_read_in_a_thread(running: Serving, stream: str, tmp_path: Path) -> None:
    async def dumped() -> int:
        async with AsyncClient(running.address) as client:
            await client.dump(stream, tmp_path / "dump")
            return (await client.load(tmp_path / "dump", f"{stream}_again")).accepted

    assert asyncio.run(dumped()) == 1_000


def test_the_callers_context_reaches_interceptors_and_callbacks(running: Serving, stream: str) -> None:
    name: ContextVar[str] = ContextVar("name", default="")
    seen: list[str] = []

    async def pushed() -> None:
        async with AsyncClient(running.address) as client:
            name.set("mine")
            async with client.producer(stream, on_reply=lambda _: seen.append(name.get())) as producer:
                await producer.push([{"a": 1}])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(pushed())
    assert seen == ["mine"]
