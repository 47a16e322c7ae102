"""Events, conditions and workers of one event loop, for code that `run` executes. Only waits give way to other tasks.

All of them belong to one event loop, so changes between two waits need no lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from psoup_client.aio.steps import run, wait_for

T = TypeVar("T")


class TaskLock:
    """A lock for a `with` statement, which may be held while its holder waits."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def __enter__(self) -> None:
        wait_for(self._lock.acquire())

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class TaskEvent:
    """As `threading.Event`, for tasks."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Set it, and let all go on that wait."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for `timeout` seconds. Returns whether it is set."""
        if not self._event.is_set():
            with suppress(TimeoutError):
                wait_for(_within(timeout, self._event.wait()))
        return self._event.is_set()


class TaskCondition:
    """As `threading.Condition`, for tasks. Its `with` statement locks nothing, as other tasks run only in waits."""

    def __init__(self) -> None:
        self._waiting = set[asyncio.Future[None]]()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until the predicate holds, or for `timeout` seconds. Returns the predicate's last result."""
        if not (result := predicate()):
            with suppress(TimeoutError):
                wait_for(_within(timeout, self._changed(predicate)))
            result = predicate()
        return result

    async def _changed(self, predicate: Callable[[], Any]) -> None:
        while not predicate():
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    def notify_all(self) -> None:
        """Let all that wait look at their predicates again."""
        for future in self._waiting:
            if not future.done() and not future.get_loop().is_closed():
                future.set_result(None)


async def _within(timeout: float | None, waiting: Any) -> None:
    async with asyncio.timeout(timeout):
        await waiting


async def in_thread(work: Callable[..., T], /, *arguments: Any, end: Callable[[], object] = lambda: None) -> T:
    """Execute a function in a thread. Returns its result, or raises its error.

    If the task is cancelled it calls `end`, waits for the thread, and then raises CancelledError. So the function never
    changes an object that its caller uses again.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        end()
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # else asyncio logs an error that is never asked for
        raise


class TaskWorker:
    """A function that runs in a task of its own."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def join(self) -> None:
        """Wait for its end."""
        wait_for(asyncio.wait([self._task]))

    def result(self) -> Any:
        """Wait for the result. Raises what the function raised."""
        return wait_for(self._task)


class TaskAhead:
    """Runs functions in tasks. At the end of the `with` statement, those that still run are cancelled."""

    def __init__(self) -> None:
        self._tasks = set[asyncio.Task[Any]]()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> TaskWorker:
        """Run a function."""
        task = asyncio.get_running_loop().create_task(run(function, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return TaskWorker(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # else asyncio logs an error that is never asked for

    def __enter__(self) -> TaskAhead:
        return self

    def __exit__(self, *_: object) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            wait_for(asyncio.wait(tasks))
