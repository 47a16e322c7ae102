"""Further writes to the log take the turn of a large push: small pushes go before them, and they never wait long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest

from psoup.errors import Internal, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import CreateStream, Push
from psoup.events.events import Event, Pushed
from psoup.events.tenants import CreateTenant
from psoup_service.host.line import LARGE_BYTES
from psoup_testing.services.host_rig import PATIENCE, RecordingStore, Rig, come_to_pass, happened, held

LARGE = pa.table({"x": range(LARGE_BYTES // 8)})
SMALL = pa.table({"x": [1]})


class Durable(RecordingStore):
    """A store that is written by the committer; `done` is what was written, in order."""

    durable = True
    due = False  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def append(self, events: Sequence[Event]) -> None:
        """Note whether there was a large push."""
        super().append(events)
        large = any(isinstance(event, Pushed) and len(event.batch) > 1 for event in events)
        self.done.append("large" if large else "small")

    def settle(self) -> None:
        """Note it."""
        self.done.append("settle")
        self.due = False  # type: ignore[misc]


def asks(rig: Rig, store: Durable, ended: threading.Event) -> threading.Thread:
    """Another thread that asks for an errand."""

    def work() -> None:
        rig.host._sequencer.errands.in_turn(lambda: store.done.append("errand"))
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


Call = asyncio.Future[Acknowledgement]
Scenario = Callable[[Rig, Durable], Awaitable[None]]


def play(scenario: Scenario, store: Durable | None = None) -> None:
    """Play a scenario on a host of its own, which it starts, and close that."""
    store = store or Durable()

    async def whole() -> None:
        rig = Rig(store)
        await scenario(rig, store)
        await asyncio.to_thread(rig.host.close)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE))


async def start(rig: Rig, *streams: str) -> None:
    """Start the host and create streams of one number."""
    rig.host.start()
    for stream in streams:
        await rig.host.submit(CreateStream(f"CREATE STREAM {stream} (x BIGINT)"))


@asynccontextmanager
async def writing(rig: Rig, batch: pa.Table) -> AsyncIterator[Call]:
    """A push to the stream s, which is being written for as long as the block takes."""
    with held(rig.store.gate):
        rig.store.inside.clear()
        call = asyncio.ensure_future(rig.host.submit(Push("s", batch)))
        await happened(rig.store.inside)
        yield call


def test_between_a_large_push_and_an_errand_small_pushes_have_their_turn() -> None:
    async def scenario(rig: Rig, store: Durable) -> None:
        await start(rig, "s", "t")
        store.done.clear()
        ended = threading.Event()
        async with writing(rig, LARGE) as call:
            calls = [call, asyncio.ensure_future(rig.host.submit(Push("s", LARGE)))]
            await asyncio.to_thread(int)
            thread = asks(rig, store, ended)
            await come_to_pass(lambda: rig.host._sequencer.errands)
            store.due = True  # type: ignore[misc]
            calls += [asyncio.ensure_future(rig.host.submit(Push("t", SMALL)))]
            await asyncio.to_thread(int)
        await asyncio.gather(*calls)
        thread.join(PATIENCE)
        assert store.done == ["large", "small", "settle", "errand", "large"]

    play(scenario)


@pytest.mark.parametrize(("tenant", "done"), [("acme", ["small", "small", "large"]), ("default", ["small", "large"])])
def test_nobody_waits_for_a_large_push_of_another_tenant_that_came_later(tenant: str, done: list[str]) -> None:
    async def scenario(rig: Rig, store: Durable) -> None:
        await start(rig, "s")
        await rig.host.submit(CreateTenant("acme"))
        await rig.host.submit(CreateStream("CREATE STREAM t (x BIGINT)", tenant))
        store.done.clear()
        async with writing(rig, SMALL) as call:
            calls = [call, asyncio.ensure_future(rig.host.submit(CreateStream("CREATE STREAM u (x BIGINT)")))]
            calls += [asyncio.ensure_future(rig.host.submit(Push("t", LARGE, tenant=tenant)))]
            await come_to_pass(lambda: len(rig.host._sequencer._committer._groups) == 2)
        await asyncio.gather(*calls)
        assert store.done == done

    play(scenario)


def test_an_errand_is_done_at_once_where_nothing_is_written() -> None:
    async def scenario(rig: Rig, store: Durable) -> None:
        rig.host._sequencer.errands.in_turn(lambda: store.done.append("before the start"))
        rig.host.start()
        ended = threading.Event()
        asks(rig, store, ended)
        await happened(ended)
        await asyncio.to_thread(rig.host.close)
        rig.host._sequencer.errands.in_turn(lambda: store.done.append("after the end"))
        assert store.done == ["before the start", "errand", "after the end"]

    play(scenario)


def test_an_errand_does_not_wait_for_room_in_the_store() -> None:
    """What is done in it may be what makes the room."""

    async def scenario(rig: Rig, store: Durable) -> None:
        await start(rig, "s")
        full, later = threading.Event(), threading.Event()
        rig.store.problem = ResourceExhausted("no room", reason="DISK_FULL")
        async with writing(rig, LARGE) as call:
            asks(rig, store, full)
        await happened(full)
        asks(rig, store, later)
        await happened(later)
        assert not call.done()
        rig.store.problem = None
        await call

    play(scenario)


def test_a_host_that_ends_lets_whoever_asked_work() -> None:
    async def scenario(rig: Rig, store: Durable) -> None:
        rig.host.start()
        with rig.host._sequencer.condition:
            ended = [threading.Event() for _ in range(3)]
            for one in ended:
                asks(rig, store, one)
        await asyncio.to_thread(rig.host.close)
        for one in ended:
            await happened(one)

    play(scenario)


def test_what_is_due_waits_for_room_in_the_store() -> None:
    """To ask for it again and again would keep the sequencer busy, and pile up what it asked for."""

    async def scenario(rig: Rig, store: Durable) -> None:
        await start(rig, "s")
        committer = rig.host._sequencer._committer
        async with writing(rig, SMALL) as call:
            rig.store.problem = ResourceExhausted("no room", reason="DISK_FULL")
        await come_to_pass(lambda: committer._full is not None)
        store.due = True  # type: ignore[misc]
        for _ in range(20):  # each is refused, after the sequencer has looked at what there is to do
            with pytest.raises(ResourceExhausted):
                await rig.host.submit(Push("s", SMALL))
        assert not committer._groups
        rig.store.problem = None
        await call
        await come_to_pass(lambda: not store.due)
        await asyncio.to_thread(rig.host.close)
        assert store.done[-1] == "settle"

    play(scenario)


def test_a_store_that_fails_to_settle_keeps_nobody_waiting() -> None:
    class Failing(Durable):
        def settle(self) -> None:
            """The disk fails."""
            raise Internal("the disk")

    async def scenario(rig: Rig, store: Durable) -> None:
        await start(rig, "s")
        ended = threading.Event()
        async with writing(rig, LARGE) as call:
            asks(rig, store, ended)
            await come_to_pass(lambda: rig.host._sequencer.errands)
            store.due = True  # type: ignore[misc]
        await call
        await happened(ended)

    play(scenario, Failing())
