"""Small pushes that wait at the same time: one event, and each caller hears of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pyarrow as pa
import pytest

from psoup.errors import InvalidBatch, InvalidInput, PSoupError, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement, PushAcknowledgement
from psoup.events.commands import Command, Push
from psoup.events.events import Pushed
from psoup_service.host.host import Host
from psoup_testing.services.host_rig import PATIENCE, RecordingStore, Rig, happened, held, serving


@pytest.fixture(autouse=True, params=[False, True], ids=["one thread", "two threads"])
def durable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a thread of its own writes the log."""
    monkeypatch.setattr(RecordingStore, "durable", request.param)
    return bool(request.param)


def row(*values: object, producer: str = "", number: int = 0) -> Push:
    return Push("s", pa.record_batch({"x": list(values)}), producer, 0, number)


def big(value: int) -> Push:
    return Push("s", pa.record_batch({"x": pa.array([value], pa.uint64())}))


async def while_the_log_is_held(rig: Rig, commands: list[Command]) -> list[Acknowledgement | BaseException]:
    """What becomes of `commands` that come while another is being logged."""
    host: Host[tuple[int, ...]] = rig.host
    rig.store.inside.clear()
    with held(rig.store.gate):
        first = asyncio.ensure_future(host.submit(row(0)))
        await happened(rig.store.inside)
        rest = [asyncio.ensure_future(host.submit(command)) for command in commands]
        await asyncio.to_thread(int)  # the calls begin before this one comes back
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


def test_a_push_with_a_source_position_is_not_joined_and_told_what_it_lacks() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            lost = replace(row(2), source=b"40")
            answers = await while_the_log_is_held(rig, [row(1), lost, replace(row(3), after=b""), row(4)])
            assert [type(answer) for answer in answers[1:3]] == [InvalidInput, InvalidInput]
            assert "names no producer" in str(answers[1])
            assert [value for values in taken(rig) for value in values] == [0, 1, 4]

    asyncio.run(scenario())


def taken(rig: Rig) -> list[list[int]]:
    """The values of each push on the log."""
    return [event.batch.columns[0].to_list() for event in rig.store.read() if isinstance(event, Pushed)]


def test_they_are_one_event_in_the_order_of_the_calls() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            answers = await while_the_log_is_held(rig, [row(1), row(2, 3), row(4)])
            assert all(isinstance(answer, PushAcknowledgement) for answer in answers)
            assert [(a.sequence, a.accepted) for a in answers] == [(3, 1), (3, 2), (3, 1)]  # type: ignore[union-attr]
            assert taken(rig) == [[0], [1, 2, 3, 4]]
            await rig.host.wait_for(3, PATIENCE)
            assert rig.host.counters()["queued_bytes"] == rig.host.counters()["pending_commands"] == 0

    asyncio.run(scenario())


def test_few_rows_that_hold_much_are_events_of_their_own() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            much = Push("s", pa.record_batch({"x": range(1 << 19)}).slice(1, 1))
            answers = await while_the_log_is_held(rig, [row(2), row(3), much, much, row(4)])
            assert [a.sequence for a in answers] == [3, 3, 4, 5, 6]  # type: ignore[union-attr]
            assert taken(rig) == [[0], [2, 3], [1], [1], [4]]

    asyncio.run(scenario())


def test_a_bad_one_is_refused_alone() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            answers = await while_the_log_is_held(rig, [big(1), big(2**63), big(2), row(None), row("x"), row(3)])
            assert [type(answer) for answer in answers].count(InvalidBatch) == 2
            assert [value for push in taken(rig) for value in push] == [0, 1, 2, None, 3]

    asyncio.run(scenario())


def test_what_has_a_number_is_an_event_of_its_own() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            numbered = [row(10, producer="p"), row(11, producer="p", number=1)]
            answers = await while_the_log_is_held(rig, [row(1), row(2), *numbered, numbered[1], row(3)])
            found = [(a.sequence, a.accepted, a.duplicate) for a in answers]  # type: ignore[union-attr]
            assert found == [(3, 1, False), (3, 1, False), (4, 1, False), (5, 1, False), (5, 1, True), (6, 1, False)]
            assert taken(rig) == [[0], [1, 2], [10], [11], [3]]

    asyncio.run(scenario())


def test_without_memory_for_all_as_many_are_taken_as_fit() -> None:
    async def scenario() -> None:
        async with serving(memory_bytes=17 * 4) as rig:
            answers = await while_the_log_is_held(rig, [row(value) for value in range(1, 6)])
            refused = [answer for answer in answers if isinstance(answer, PSoupError)]
            assert [type(answer) for answer in refused] == [ResourceExhausted] * 2
            assert taken(rig) == [[0], [1], [2], [3]]

    asyncio.run(scenario())


def test_what_waits_is_answered_before_a_drain_ends() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.store.inside.clear()
            with held(rig.store.gate):
                first = asyncio.ensure_future(rig.host.submit(row(0)))
                await happened(rig.store.inside)
                rest = [asyncio.ensure_future(rig.host.submit(row(value))) for value in (1, 2)]
                await asyncio.to_thread(int)
                drained = asyncio.ensure_future(rig.host.drain(PATIENCE))
                await asyncio.to_thread(int)
            assert await drained
            assert [answer.accepted for answer in await asyncio.gather(first, *rest)] == [1, 1, 1]  # type: ignore[attr-defined]
            assert [value for push in taken(rig) for value in push] == [0, 1, 2]

    asyncio.run(scenario())


@pytest.mark.parametrize("durable", [True], ids=["two threads"], indirect=True)  # a store in memory has no disk
def test_without_room_on_the_disk_what_is_new_is_refused() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            rig.store.inside.clear()
            rig.store.problem = ResourceExhausted("full", reason="DISK_FULL")
            first = asyncio.ensure_future(rig.host.submit(row(0)))
            await happened(rig.store.inside)
            for value in (1, 2):
                with pytest.raises(ResourceExhausted, match="full"):
                    await rig.host.submit(row(value))
            rig.store.problem = None
            await first
            assert taken(rig) == [[0]]
            await rig.host.submit(row(3))
            assert taken(rig) == [[0], [3]]

    asyncio.run(scenario())
