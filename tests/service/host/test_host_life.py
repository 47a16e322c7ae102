"""Draining, closing, and stopping at a failure: what was acknowledged, what is refused, which threads are left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from psoup.errors import Internal, Unavailable
from psoup.events.commands import Push
from psoup.events.events import Event
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.services.host_rig import PATIENCE, RecordingTask, Rig, happened, held, serving

ROW = Push("s", pa.table({"x": [1]}))


_EARLIER = set[threading.Thread]()
"""The threads that earlier tests of the process have left."""


@pytest.fixture(autouse=True)
def _earlier_threads() -> None:
    _EARLIER.clear()
    _EARLIER.update(threading.enumerate())


def threads() -> set[str]:
    """The names of the threads of the host of this test."""
    return {thread.name for thread in set(threading.enumerate()) - _EARLIER if thread.name.startswith("psoup-")}


async def refused(rig: Rig, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind) as caught:
        await rig.host.submit(ROW)
    assert getattr(caught.value, "reason", "") == reason


# Draining and closing


def test_a_drain_finishes_what_was_accepted_and_refuses_the_rest() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.store.inside.clear()
            rig.store.gate.clear()
            accepted = [asyncio.ensure_future(rig.host.submit(ROW)) for _ in range(3)]
            await happened(rig.store.inside)
            drained = asyncio.ensure_future(rig.host.drain(PATIENCE))
            await asyncio.to_thread(int)
            assert rig.host.state == "draining"
            await refused(rig, Unavailable, "DRAINING")
            rig.store.gate.set()
            assert await drained
            assert [answer.sequence for answer in await asyncio.gather(*accepted)] == [2, 3, 4]
            assert rig.host.snapshot() == (1, 2, 3, 4)
            assert (rig.host.state, threads()) == ("stopped", set())
            await refused(rig, Unavailable, "DRAINING")
            await rig.host.ended()
            assert await rig.host.read(len) == 4  # an answer under way may be finished
            await asyncio.to_thread(rig.host.close)
            assert (rig.store.closed, threads()) == (True, set())

    asyncio.run(scenario())


def test_a_drain_gives_up_in_time() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.engine.inside.clear()
            with held(rig.engine.gate):
                await rig.host.submit(ROW)
                await happened(rig.engine.inside)
                assert not await rig.host.drain(0.01)
                assert rig.host.state == "draining"
            await asyncio.to_thread(rig.host.close)
            assert (rig.host.state, threads()) == ("stopped", set())

    asyncio.run(scenario())


def test_a_close_answers_everybody() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.store.inside.clear()
            with held(rig.store.gate):
                first = asyncio.ensure_future(rig.host.submit(ROW))
                await happened(rig.store.inside)
                second = asyncio.ensure_future(rig.host.submit(ROW))
                await asyncio.to_thread(int)
                closing = asyncio.ensure_future(asyncio.to_thread(rig.host.close))
                await happened(_stopping(rig))
            await closing
            assert (await first).sequence == 2
            with pytest.raises(Unavailable):
                await second
            with pytest.raises(Unavailable):
                await rig.host.read(lambda _: None)
            rig.host.close()

    asyncio.run(scenario())


def test_a_close_refuses_reads_that_wait_for_a_thread() -> None:
    async def scenario() -> None:
        async with serving(readers=1) as rig:
            entered, go = threading.Event(), threading.Event()

            def slow(_: object) -> bool:
                entered.set()
                return go.wait(PATIENCE)

            running = asyncio.ensure_future(rig.host.read(slow))
            await happened(entered)
            waiting = asyncio.ensure_future(rig.host.read(slow))
            await asyncio.to_thread(int)
            closing = asyncio.ensure_future(asyncio.to_thread(rig.host.close))
            with pytest.raises(Unavailable):
                await waiting
            go.set()
            assert await running
            await closing

    asyncio.run(scenario())


def _stopping(rig: Rig) -> threading.Event:
    """Set once the sequencer has been asked to stop."""
    event, sequencer = threading.Event(), rig.host._sequencer

    def watch() -> None:
        with sequencer.condition:
            while not sequencer._stopping:
                sequencer.condition.wait(PATIENCE)
        event.set()

    threading.Thread(target=watch, name="watch").start()
    return event


def test_a_host_that_never_started_refuses_and_closes() -> None:
    async def scenario() -> None:
        rig = Rig()
        assert rig.host.state == "starting"
        await refused(rig, Unavailable, "STARTING")
        rig.host.close()
        assert (rig.host.state, threads()) == ("stopped", set())

    asyncio.run(scenario())


def test_a_start_can_be_given_up() -> None:
    """SIGTERM during a replay: it ends at the next event, and the next start finds everything."""
    gate, rig = Gate(), Rig()
    gate.create("CREATE STREAM s (x BIGINT)")
    for number in range(5):
        gate.push("s", x=[number])
    rig.store.append(gate.events)
    read, seen = rig.store.read, []

    def interrupted(after: int = 0) -> Iterator[Event]:
        for event in read(after):
            seen.append(event.sequence)
            if len(seen) == 3:
                rig.host.give_up()
            yield event

    rig.store.read = interrupted  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="given up"):
        rig.host.start()
    rig.host.close()
    assert (seen, rig.engine.runs, rig.host.state, threads()) == ([1, 2, 3], [], "stopped", set())


def test_a_drain_does_not_wait_for_maintenance_to_be_installed() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            task = RecordingTask("slow")
            rig.engine.tasks.append(task)
            await rig.host.submit(ROW)
            await happened(task.inside)
            assert await rig.host.drain(PATIENCE)
            assert rig.host.snapshot() == (1, 2)

    asyncio.run(scenario())


# Failing


def test_a_failing_log_acknowledges_nothing_and_stops_the_host() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            ended = asyncio.ensure_future(rig.host.ended())
            rig.store.inside.clear()
            rig.store.problem = OSError(5, "Input/output error")
            with held(rig.store.gate):
                calls = [asyncio.ensure_future(rig.host.submit(ROW)) for _ in range(3)]
                await happened(rig.store.inside)
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [Internal] * 3
            assert "Input/output" not in str(outcomes[0])
            await ended
            assert rig.host.state == "failed"
            assert "psoup-sequencer: OSError" in rig.host.failure
            await refused(rig, Internal, "FAILED")
            assert rig.host.snapshot() == (1,)
            assert await rig.host.read(len) == 1
            assert rig.store.groups == [[1]]

    asyncio.run(scenario())


def test_a_failing_apply_stops_the_host_and_whoever_waits_for_it() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.engine.inside.clear()
            rig.engine.problem = AssertionError("broken")
            with held(rig.engine.gate):
                await rig.host.submit(ROW)
                await happened(rig.engine.inside)
                waiting = asyncio.ensure_future(rig.host.wait_for(2, PATIENCE))
                await asyncio.to_thread(int)
            with pytest.raises(Internal):
                await waiting
            await rig.host.ended()
            assert rig.host.failure == "psoup-writer: AssertionError: broken"
            await refused(rig, Internal, "FAILED")
            with pytest.raises(Internal):
                await rig.host.wait_for(2, PATIENCE)
            assert not await rig.host.drain(PATIENCE)

    asyncio.run(scenario())
    assert threads() == set()


def test_failing_maintenance_stops_the_host() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            task = RecordingTask("bad")
            task.problem = ValueError("bad")
            with held(task.gate):  # it may be asked for right after the first event, before the row is answered
                rig.engine.tasks.append(task)
                await rig.host.submit(ROW)
            await rig.host.ended()
            assert rig.host.failure == "psoup-maintainer: ValueError: bad"

    asyncio.run(scenario())


def test_a_failed_host_stays_failed_when_closed() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.engine.problem = AssertionError("broken")
            await rig.host.submit(ROW)
            await rig.host.ended()
            await asyncio.to_thread(rig.host.close)
            assert (rig.host.state, rig.store.closed, threads()) == ("failed", True, set())

    asyncio.run(scenario())


def test_a_caller_whose_loop_is_gone_does_no_harm() -> None:
    rig = Rig()
    rig.host.start()
    rig.store.gate.clear()

    async def abandoned() -> None:
        call = asyncio.ensure_future(rig.host.submit(ROW))
        await happened(rig.store.inside)
        call.cancel()

    async def fine() -> int:
        return (await rig.host.submit(ROW)).sequence

    async def first() -> None:
        from psoup.events.commands import CreateStream

        create = asyncio.ensure_future(rig.host.submit(CreateStream("CREATE STREAM s (x BIGINT)")))
        rig.store.gate.set()
        await create
        rig.store.inside.clear()
        rig.store.gate.clear()

    asyncio.run(first())
    asyncio.run(abandoned())
    rig.store.gate.set()
    assert asyncio.run(fine()) == 3
    rig.host.close()
