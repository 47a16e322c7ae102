"""The connection of `AsyncClient`: a channel of grpc.aio. Its calls wait in the task that made them.

A channel of grpc.aio belongs to one event loop. So the first call makes it, in the loop that runs then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

import grpc

from psoup_client.aio.steps import run, wait_for
from psoup_client.aio.tasks import TaskAhead, TaskCondition, TaskEvent, TaskLock, TaskWorker, in_thread
from psoup_client.channel.addresses import target
from psoup_client.channel.connection import Connection, OpenedCall, channel_credentials, channel_options
from psoup_client.channel.options import ClientOptions
from psoup_client.channel.routes import at

T = TypeVar("T")
_END: Any = object()

_WRITE_FAILED = "Internal error from Core"
"""The message of grpc.aio if a service ends a call while the client sends. It hides the real status, which a repeated
call shows it: https://github.com/grpc/grpc/issues/36066
"""

CALLS_AT_ONCE = 100
"""The most calls with one reply that are under way at a time. A service takes 256 calls of a connection, with watches,
and refuses further ones. With fewer calls under way a thousand tasks are answered sooner, too.
"""


class _NotSent(grpc.RpcError):
    """The end of a call by this client, in the form that gRPC for threads raises."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        """The status."""
        return self._code

    def details(self) -> str:
        """The message."""
        return self._details

    def trailing_metadata(self) -> tuple[()]:
        """There is none."""
        return ()


def _given_up() -> _NotSent:
    return _NotSent(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")


class AsyncConnection(Connection):
    """A connection for the tasks of one event loop. It raises the errors of `Connection`, and TypeError for
    interceptors that are not of grpc.aio.
    """

    def __init__(self, address: str, timeout: float, options: ClientOptions) -> None:
        super().__init__(address, timeout, options)
        self._targets = [(target(each), channel_credentials(each, options)) for each in self.addresses]
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: Sequence[Any] = ()
        wrong = next((each for each in options.interceptors if not isinstance(each, grpc.aio.ClientInterceptor)), None)
        if wrong is not None:
            raise TypeError(
                f"the interceptor {wrong!r} is for threads: an AsyncClient takes interceptors such as"
                " grpc.aio.UnaryUnaryClientInterceptor"
            )

    def enter(self) -> None:
        """Make the channel with the first call. Raises RuntimeError in another event loop, or without one."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None:
            raise RuntimeError(
                "this AsyncClient was used in another event loop, and its channel belongs to that: make a client in"
                " each loop"
            )
        self._loop = loop
        self._make_stubs([self._open_channel(*each) for each in self._targets])
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)
        waiting = self.groups.TakeBatch, self.queries.WaitForSequence
        self._waiting = [at(method, route) for method in waiting for route in self.routes]
        """Calls that wait for news at the service. They are not among the calls at once."""

    def _open_channel(self, place: str, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
        arguments = channel_options(self._options, several=self.routes.several)
        interceptors = list(self._options.interceptors)
        if credentials is None:
            return grpc.aio.insecure_channel(place, arguments, interceptors=interceptors)
        return grpc.aio.secure_channel(place, credentials, arguments, interceptors=interceptors)

    def _reply(
        self, method: Any, request: Any, timeout: float, wait_for_ready: bool, metadata: tuple[tuple[str, Any], ...]
    ) -> Any:
        if method in self._waiting:
            return self._sent(method, request, timeout, wait_for_ready, metadata)
        if self._turns.locked():
            timeout = self._turn(timeout)
        else:
            wait_for(self._turns.acquire())
        try:
            self._check_open()  # the client may have been closed meanwhile
            return self._sent(method, request, timeout, wait_for_ready, metadata)
        finally:
            self._turns.release()

    def _turn(self, timeout: float) -> float:
        """Wait until fewer calls are under way. Returns the rest of the timeout. Raises grpc.RpcError after it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout

        async def acquired() -> None:
            async with asyncio.timeout_at(until):
                await self._turns.acquire()

        try:
            wait_for(acquired())
        except TimeoutError:
            code, message = grpc.StatusCode.DEADLINE_EXCEEDED, f"{CALLS_AT_ONCE} other calls are under way"
            raise _NotSent(code, message) from None
        return max(until - loop.time(), 0.001)

    def _sent(
        self, method: Any, request: Any, timeout: float, wait_for_ready: bool, metadata: tuple[tuple[str, Any], ...]
    ) -> Any:
        call = method(request, timeout=timeout, wait_for_ready=wait_for_ready, metadata=metadata)
        try:
            return wait_for(call)
        except asyncio.CancelledError:
            call.cancel()
            if _task_is_cancelled():
                raise
            raise _given_up() from None

    def _messages(self, call: Any) -> Iterator[Any]:
        replies = call.__aiter__()
        while True:
            try:
                reply = wait_for(anext(replies, _END))
            except asyncio.CancelledError:
                if _task_is_cancelled():
                    raise
                raise _given_up() from None
            except grpc.RpcError as problem:
                if problem.code() is grpc.StatusCode.INTERNAL and problem.details() == _WRITE_FAILED:
                    raise _NotSent(grpc.StatusCode.UNAVAILABLE, "the call ended while a message was sent") from None
                raise
            if reply is _END:
                return
            yield reply

    def requests(self, requests: Iterator[Any]) -> Any:
        """Return an asynchronous iterator of the same requests."""
        return _each(requests)

    def _cancelled(self, call: Any, problem: grpc.RpcError) -> bool:
        return isinstance(problem, _NotSent)  # `cancelled` of grpc.aio is also true if the service cancelled the call

    def cancel(self, call: OpenedCall) -> None:
        """Cancel an opened call. It ended before if the event loop is closed, as at the end of the interpreter."""
        if self._loop is not None and not self._loop.is_closed():
            call.cancel()

    def close(self) -> None:
        """End all calls and close the channels. May be called twice. Waits for the end of the calls."""
        self._closed = True
        for channel in self._channels:
            wait_for(channel.close())

    def pause(self, seconds: float) -> None:
        """Wait."""
        wait_for(asyncio.sleep(seconds))

    def lock(self) -> TaskLock:
        """Make a lock."""
        return TaskLock()

    def event(self) -> TaskEvent:
        """Make an event that is not set."""
        return TaskEvent()

    def condition(self) -> TaskCondition:
        """Make a condition."""
        return TaskCondition()

    def start(self, work: Callable[[], None], name: str) -> TaskWorker:
        """Run a function in a new task."""
        return TaskWorker(asyncio.get_running_loop().create_task(run(work), name=name))

    def ahead(self) -> TaskAhead:
        """Make a runner of functions, with a task for each."""
        return TaskAhead()

    def apart(self, is_long: bool, work: Callable[..., T], /, *arguments: Any) -> T:
        """Compute something without I/O, in a thread if it takes more than a few milliseconds. A cancelled task waits
        for the thread.
        """
        return wait_for(in_thread(work, *arguments)) if is_long else work(*arguments)


async def _each(requests: Iterator[Any]) -> AsyncIterator[Any]:
    while (request := await run(next, requests, _END)) is not _END:
        yield request


def _task_is_cancelled() -> bool:
    """Whether a wait was cancelled with its task. If not, its call alone was cancelled, for example by `close`."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
