"""Background tasks that end by an error: logged, counted, started again, and named by the probes while they fail."""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from psoup_service.chores.supervisor import MOST_S, Supervisor
from psoup_service.figures.metrics import Metrics
from psoup_service.figures.probes import Probes
from psoup_testing.suite.log_records import own_records


class Time:
    """The time of a test, which goes on when a task sleeps. `pauses`: how long tasks slept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses = list[float]()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Task:
    """A task that raises some errors, one a run, and then waits for its end. `lasts`: seconds of each run."""

    def __init__(self, time: Time, errors: list[BaseException], lasts: float = 0.0) -> None:
        self.time, self.errors, self.lasts = time, errors, lasts
        self.runs = 0
        self.waits = asyncio.Event()

    async def run(self) -> None:
        self.runs += 1
        if self.errors:
            self.time.now += self.lasts
            raise self.errors.pop(0)
        self.waits.set()
        await asyncio.Event().wait()


def supervised(check: Callable[[Supervisor, Time], object]) -> None:
    async def main() -> None:
        time = Time()
        supervisor = Supervisor(time.sleep, lambda: time.now)
        try:
            await check(supervisor, time)  # type: ignore[misc]
        finally:
            supervisor.stop()

    asyncio.run(main())


def test_a_task_that_ends_by_an_error_is_logged_counted_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    async def check(supervisor: Supervisor, time: Time) -> None:
        task = Task(time, [MemoryError(), ValueError("no")])
        supervisor.start("folding", task.run, 2.0)
        await task.waits.wait()
        assert (task.runs, supervisor.failures, time.pauses) == (3, 2, [1.0, 2.0])
        assert not supervisor.failing
        facts = [(record.__dict__["task"], record.__dict__["errors"]) for record in own_records(caplog)]
        assert facts == [("folding", 1), ("folding", 2)] and own_records(caplog)[0].exc_info

    with caplog.at_level(logging.ERROR):
        supervised(check)


def test_pauses_double_up_to_a_minute_and_the_task_is_named_until_a_step_is_done() -> None:
    async def check(supervisor: Supervisor, time: Time) -> None:
        task = Task(time, [MemoryError() for _ in range(9)])
        supervisor.start("folding", task.run, 2.0)
        await task.waits.wait()
        assert time.pauses == [1, 2, 4, 8, 16, 32, MOST_S, MOST_S, MOST_S]
        assert supervisor.failing == "folding keeps failing (MemoryError)"
        time.now += 3.1
        assert not supervisor.failing, "it has done a step"

    supervised(check)


def test_errors_with_steps_between_them_are_not_in_a_row() -> None:
    async def check(supervisor: Supervisor, time: Time) -> None:
        task = Task(time, [ValueError("no") for _ in range(9)], lasts=4.0)
        supervisor.start("folding", task.run, 2.0)
        await task.waits.wait()
        assert time.pauses == [1.0] * 9 and not supervisor.failing

    supervised(check)


def test_a_task_that_returns_or_is_cancelled_ends() -> None:
    async def check(supervisor: Supervisor, time: Time) -> None:
        done, waiting = asyncio.Event(), Task(time, [])

        async def once() -> None:
            done.set()

        supervisor.start("arrival watch", once, 30.0)
        supervisor.start("expiry", waiting.run, 3_600.0)
        await asyncio.gather(done.wait(), waiting.waits.wait())
        tasks = list(supervisor._tasks)
        supervisor.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.done() for task in tasks) and supervisor.failures == 0 and waiting.runs == 1

    supervised(check)


def test_readiness_names_a_task_that_keeps_failing() -> None:
    state = ["serving", "folding keeps failing (MemoryError)"]
    probes = Probes(Metrics(), lambda: (state[0], state[1]), "127.0.0.1", 0)
    try:
        address = f"http://127.0.0.1:{probes.port}"
        with urllib.request.urlopen(f"{address}/readyz") as page:
            assert page.read() == b"serving: folding keeps failing (MemoryError)\n"
        state[:] = ["failed", "no disk"]
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{address}/readyz")
    finally:
        probes.close()
