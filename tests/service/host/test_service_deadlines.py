"""Deadlines: what `asyncio.timeout` does, with one timer for all."""

import asyncio

import pytest

from psoup_service.wire.request_bodies import Deadlines


async def lasting(deadlines: Deadlines, seconds: float, until: asyncio.Event) -> str:
    with deadlines.within(seconds):
        await until.wait()
        return "done"


def test_who_is_late_is_told_so_and_others_go_on() -> None:
    async def scenario() -> None:
        deadlines, until = Deadlines(), asyncio.Event()
        late = [asyncio.create_task(lasting(deadlines, seconds, until)) for seconds in (-1.0, 0.0, 0.01, 0.1)]
        fine = asyncio.create_task(lasting(deadlines, 20.0, until))
        assert [type(end) for end in await asyncio.gather(*late, return_exceptions=True)] == [TimeoutError] * 4
        until.set()
        assert await fine == "done"

    asyncio.run(scenario())


def test_after_a_pause_it_ticks_again() -> None:
    async def scenario() -> None:
        deadlines, until = Deadlines(), asyncio.Event()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await lasting(deadlines, 0.0, until)
            deadlines._tick(asyncio.get_running_loop())
            assert not deadlines._ticking

    asyncio.run(scenario())


def test_a_cancelled_call_is_cancelled_and_an_error_is_the_error() -> None:
    async def scenario() -> None:
        deadlines, until = Deadlines(), asyncio.Event()
        task = asyncio.create_task(lasting(deadlines, 20.0, until))
        await asyncio.to_thread(int)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(KeyError), deadlines.within(20.0):
            raise KeyError
        with pytest.raises(TimeoutError):  # the task is no longer cancelled afterwards
            await lasting(deadlines, 0.0, until)
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0

    asyncio.run(scenario())


def test_who_is_cancelled_and_late_is_cancelled() -> None:
    async def scenario() -> None:
        deadlines = Deadlines()

        async def both() -> None:
            task = asyncio.current_task()
            assert task is not None
            with deadlines.within(0.0) as _:
                task.cancel()
                for one in list(deadlines._open):
                    one.expire()
                await asyncio.Event().wait()

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(both())

    asyncio.run(scenario())
