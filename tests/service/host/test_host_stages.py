"""The two stages: order, groups, runs, maintenance, waiting, reading; with an engine that only records."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from psoup.errors import Internal, NotFound, OutOfRange, ResourceExhausted
from psoup.events.commands import CreateStream, Heartbeat, Push
from psoup.events.tenants import CreateTenant
from psoup_service.host import sequencer
from psoup_service.host.host import Host
from psoup_service.host.writer import LONG_ROWS
from psoup_testing.services.host_rig import PATIENCE, RecordingTask, Rig, happened, held, serving

ROW = Push("s", pa.table({"x": [1]}))
BAD = Push("nope", pa.table({"x": [1]}))


async def queued(rig: Rig) -> None:
    """All events answered so far are with the writer: a group begins when the one before it has been handed over."""
    with pytest.raises(NotFound):
        await rig.host.submit(BAD)


@pytest.fixture
def all_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no other thread interrupt the event loop while its tasks put commands in line. No group ends for its time."""
    monkeypatch.setattr(sequencer, "GROUP_SECONDS", PATIENCE)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1)
    yield
    sys.setswitchinterval(before)


def test_a_command_is_logged_answered_and_applied() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            answer = await rig.host.submit(ROW)
            assert answer.sequence == 2
            assert [event.sequence for event in rig.store.read()] == [1, 2]
            await rig.host.wait_for(2, PATIENCE)
            assert rig.host.snapshot() == (1, 2)
            assert rig.host.applied == 2

    asyncio.run(scenario())


def test_answered_only_after_the_log_and_before_the_writer() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.store.inside.clear()
            with held(rig.store.gate):
                pending = asyncio.ensure_future(rig.host.submit(ROW))
                await happened(rig.store.inside)
                assert not pending.done()
            assert (await pending).sequence == 2
            with held(rig.engine.gate):
                assert (await rig.host.submit(ROW)).sequence == 3
                assert rig.host.applied <= 2

    asyncio.run(scenario())


def test_what_waits_while_a_group_is_logged_becomes_one_group(all_at_once: None) -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.store.inside.clear()
            with held(rig.store.gate):
                first = asyncio.ensure_future(rig.host.submit(ROW))
                await happened(rig.store.inside)
                rest = [asyncio.ensure_future(rig.host.submit(c)) for c in (ROW, BAD, ROW, ROW)]
                await asyncio.to_thread(int)  # the calls begin before this one comes back
            answers = await asyncio.gather(first, *rest, return_exceptions=True)
            assert [getattr(a, "sequence", type(a)) for a in answers] == [2, 3, NotFound, 4, 5]
            assert rig.store.groups == [[1], [2], [3, 4, 5]]

    asyncio.run(scenario())


def test_consecutive_events_are_applied_as_one_run() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.engine.inside.clear()
            with held(rig.engine.gate):
                await rig.host.submit(ROW)
                await happened(rig.engine.inside)
                for _ in range(3):
                    last = await rig.host.submit(ROW)
                await queued(rig)
            await rig.host.wait_for(last.sequence, PATIENCE)
            assert rig.engine.runs == [[1], [2], [3, 4, 5]]

    asyncio.run(scenario())


def test_a_run_ends_after_so_many_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup_service.host.writer.RUN_ROWS", 2)

    async def scenario() -> None:
        async with serving() as rig:
            rig.engine.inside.clear()
            with held(rig.engine.gate):
                await rig.host.submit(ROW)
                await happened(rig.engine.inside)
                for _ in range(3):
                    last = await rig.host.submit(ROW)
                await queued(rig)
            await rig.host.wait_for(last.sequence, PATIENCE)
            assert rig.engine.runs == [[1], [2], [3, 4], [5]]

    asyncio.run(scenario())


def test_what_comes_before_a_long_event_of_another_tenant_is_visible_before_it() -> None:
    rows = pa.table({"x": range(LONG_ROWS)})

    async def scenario() -> None:
        async with serving() as rig:
            await rig.host.submit(CreateTenant("acme"))
            last = await rig.host.submit(CreateStream("CREATE STREAM s (x BIGINT)", "acme"))
            await rig.host.wait_for(last.sequence, PATIENCE)
            rig.engine.runs.clear()
            rig.engine.inside.clear()
            with held(rig.engine.gate):
                await rig.host.submit(ROW)
                await happened(rig.engine.inside)
                await rig.host.submit(ROW)
                for tenant in ("acme", "acme", "default"):
                    last = await rig.host.submit(Push("s", rows, tenant=tenant))
                await queued(rig)
            await rig.host.wait_for(last.sequence, PATIENCE)
            assert rig.engine.runs == [[4], [5], [6, 7], [8]]

    asyncio.run(scenario())


def test_one_thread_alone_touches_the_engine() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            for _ in range(20):
                rig.engine.tasks.append(RecordingTask("t"))
                last = await rig.host.submit(ROW)
            await rig.host.wait_for(last.sequence, PATIENCE)
            assert rig.engine.threads == {"psoup-writer"}

    asyncio.run(scenario())


def test_an_answer_without_an_event_is_not_logged() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            await rig.host.submit(CreateStream("CREATE STREAM e (t TIMESTAMP) TIMESTAMP BY t"))
            assert not (await rig.host.submit(Heartbeat("e", 5))).duplicate
            assert (await rig.host.submit(Heartbeat("e", 5))).duplicate
            assert rig.store.groups == [[1], [2], [3]]
            assert rig.host.counters()["pending_commands"] == 0

    asyncio.run(scenario())


def test_a_cancelled_call_still_takes_effect() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.store.inside.clear()
            with held(rig.store.gate):
                call = asyncio.ensure_future(rig.host.submit(ROW))
                await happened(rig.store.inside)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
            assert (await rig.host.submit(ROW)).sequence == 3
            await rig.host.wait_for(2, PATIENCE)
            assert rig.host.snapshot()[:2] == (1, 2)

    asyncio.run(scenario())


def test_freed_bytes_go_back_to_the_budget() -> None:
    async def scenario() -> None:
        async with serving(memory_bytes=20) as rig:
            rig.engine.freed = 17
            await rig.host.submit(ROW)  # 17 bytes
            await rig.host.wait_for(2, PATIENCE)
            await rig.host.submit(ROW)
            with pytest.raises(ResourceExhausted) as caught:
                await rig.host.submit(ROW)
            assert caught.value.reason == "MEMORY_BUDGET"

    asyncio.run(scenario())


# Waiting


def test_waiting_ends_when_the_sequence_is_applied_and_not_before() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.engine.inside.clear()
            with held(rig.engine.gate):
                await rig.host.submit(ROW)
                await happened(rig.engine.inside)
                answer = await rig.host.submit(ROW)
                waits = [asyncio.ensure_future(rig.host.wait_for(s, PATIENCE)) for s in (3, 2, 3, 1)]
                await waits[3]
                with pytest.raises(TimeoutError):
                    await rig.host.wait_for(answer.sequence, 0.001)
                assert not any(wait.done() for wait in waits[:3])
            await asyncio.gather(*waits)
            assert not rig.host._writer._waiters

    asyncio.run(scenario())


def test_a_sequence_that_was_never_given_out_is_refused() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            with pytest.raises(OutOfRange, match="no event 2 yet, the last is 1"):
                await rig.host.wait_for(2, PATIENCE)
            await rig.host.wait_for(0, PATIENCE)

    asyncio.run(scenario())


# Reading


def test_readers_do_not_wait_for_the_writer() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.engine.inside.clear()
            with held(rig.engine.gate):
                await rig.host.submit(ROW)
                await happened(rig.engine.inside)
                name, seen = await rig.host.read(lambda s: (threading.current_thread().name, s))
                assert name.startswith("psoup-reader")
                assert seen == (1,) == rig.host.snapshot()

    asyncio.run(scenario())


def test_what_a_reader_raises_comes_out() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            for problem in (NotFound("no"), RuntimeError("x")):

                def fail(_: object, problem: Exception = problem) -> None:
                    raise problem

                with pytest.raises(type(problem)):
                    await rig.host.read(fail)
            assert rig.host.counters()["pending_reads"] == 0

    asyncio.run(scenario())


def test_too_many_reads_are_refused() -> None:
    async def scenario() -> None:
        async with serving(pending=2, readers=1) as rig:
            entered, go = threading.Event(), threading.Event()

            def slow(_: object) -> bool:
                entered.set()
                return go.wait(PATIENCE)

            reads = [asyncio.ensure_future(rig.host.read(slow)) for _ in range(2)]
            await happened(entered)
            with pytest.raises(ResourceExhausted) as caught:
                await rig.host.read(slow)
            assert caught.value.facts["retry_after_ms"]
            go.set()
            assert await asyncio.gather(*reads) == [True, True]

    asyncio.run(scenario())


# Maintenance


def test_maintenance_is_computed_beside_the_writer_and_installed_between_runs() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            slow, next_ = RecordingTask("slow"), RecordingTask("next")
            rig.engine.tasks += [slow, next_]
            with held(slow.gate):
                await rig.host.submit(ROW)
                await happened(slow.inside)
                last = await rig.host.submit(ROW)
                await rig.host.wait_for(last.sequence, PATIENCE)  # arrivals go on meanwhile
                assert rig.engine.installed == []
                assert not next_.inside.is_set()
            await happened(next_.inside)
            last = await rig.host.submit(ROW)
            await rig.host.wait_for(last.sequence, PATIENCE)
            assert rig.engine.installed[0] == "slow"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "behind", "waits"),
    [("seal", 1.1, True), ("store", 1.1, True), ("seal", 1.0, False), ("cover", 2.0, False), ("cover", 2.1, True)],
)
def test_tuples_wait_for_memory_that_comes_back_while_the_engine_is_behind(
    kind: str, behind: float, waits: bool
) -> None:
    async def scenario() -> None:
        async with serving() as rig:
            task, rig.engine.is_behind = RecordingTask(kind), behind
            rig.engine.tasks.append(task)
            with held(task.gate):
                await rig.host.submit(ROW)
                await happened(task.inside)
                last = await rig.host.submit(ROW)
                await queued(rig)
                if not waits:
                    await rig.host.wait_for(last.sequence, PATIENCE)
            await rig.host.wait_for(last.sequence, PATIENCE)
            applied = [isinstance(part, list) and last.sequence in part for part in rig.engine.story]
            assert (kind in rig.engine.story[: applied.index(True)]) is waits

    asyncio.run(scenario())


def test_a_service_that_ends_applies_what_waits_for_memory() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            task, rig.engine.is_behind = RecordingTask("seal"), 2.0
            rig.engine.tasks.append(task)
            with held(task.gate):
                await rig.host.submit(ROW)
                await happened(task.inside)
                last = await rig.host.submit(ROW)
                drained = asyncio.ensure_future(rig.host.drain(PATIENCE))
                while last.sequence not in rig.engine.runs[-1]:
                    await asyncio.sleep(0)
            assert await drained
            assert rig.host.snapshot() == (1, 2, 3)

    asyncio.run(scenario())


def test_maintenance_that_is_due_at_the_start_is_done_without_an_event() -> None:
    async def scenario() -> None:
        rig = Rig()
        task = RecordingTask("early")
        rig.engine.tasks.append(task)
        rig.host.start()
        await happened(task.inside)
        await asyncio.to_thread(rig.host.close)

    asyncio.run(scenario())


# Start


def test_a_start_applies_what_the_store_holds() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            for _ in range(3):
                last = await rig.host.submit(ROW)
            await rig.host.wait_for(last.sequence, PATIENCE)
        again = Rig()
        again.store = rig.store
        again.host = Host(again.engine, again.admission, rig.store, again.clock)
        again.host.start()
        assert again.host.applied == 4
        assert again.host.snapshot() == (1, 2, 3, 4)
        assert again.admission.state() == rig.admission.state()
        await asyncio.to_thread(again.host.close)

    asyncio.run(scenario())


def test_a_host_starts_once() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            with pytest.raises(Internal, match="starts once"):
                rig.host.start()

    asyncio.run(scenario())
