"""What surrounds every call: sizes, numbers, deadlines, ages, errors, metrics. Servicers know nothing of it.

    bytes ─> size, parse ─> place among the calls ─> deadline or age ─> servicer ─> reply
                 '──────────────┴──────── PSoupError ─────┴──────────────'──> status with details

`Calls.add` takes a servicer as the generated code registers it, and wraps each of its methods once, when the server is
made. Whatever a client sends, a call ends with a documented status: INTERNAL only for a defect, which is logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from psoup.errors import FailedPrecondition, Internal, InvalidInput, PSoupError, ResourceExhausted, Unavailable
from psoup_service.deadlines import Deadlines
from psoup_service.limits import Limits
from psoup_service.metrics import Metrics
from psoup_service.status import abort, code_of

Context: TypeAlias = grpc.aio.ServicerContext
_log = logging.getLogger(__name__)

INGEST_METHODS = frozenset({"Push", "PushStream", "AddPart", "RegisterMany"})
"""Methods whose requests may have the ingest size."""

_GONE = (grpc.aio.InternalError,)
"""What gRPC raises when it is asked to send to a client that has cancelled: the end of the call, and no defect."""

_NOT_NOW = frozenset({"STARTING", "DRAINING"})


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands in for a request that was refused before it was parsed."""

    error: PSoupError


class _Registrar:
    """Takes the place of a server in the generated `add_…Servicer_to_server` functions."""

    def __init__(self) -> None:
        self.services: dict[str, dict[str, Any]] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Not needed: the next call has the same, by name."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Keep the handlers of one service."""
        self.services[service] = handlers


class Calls:
    """Wraps servicers, and counts the calls under way."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._deadlines = Deadlines()
        self.open = 0
        metrics.open.set_function(lambda: self.open)
        self._idle = asyncio.Event()
        self._idle.set()
        self._reading: set[asyncio.Timeout] = set()
        self._draining = False

    def drain(self) -> None:
        """End the streams that wait for their client's next message: what came is finished, nothing more is read."""
        self._draining = True
        for wait in self._reading:
            wait.reschedule(0)

    def add(self, register: Callable[[Any, Any], None], servicer: Any, server: grpc.aio.Server) -> list[str]:
        """Register `servicer` with its methods wrapped; returns the full names of its services."""
        registrar = _Registrar()
        register(servicer, registrar)
        for service, handlers in registrar.services.items():
            wrapped = {method: self._wrap(service, method, handler) for method, handler in handlers.items()}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, wrapped),))
        return list(registrar.services)

    async def finished(self, timeout: float) -> bool:
        """Wait until no call is under way, up to `timeout` seconds; whether that came."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _wrap(self, service: str, method: str, handler: Any) -> Any:
        name = f"{service.rpartition('.')[2]}/{method}"
        limit = self._limits.ingest_message_bytes if method in INGEST_METHODS else self._limits.control_message_bytes
        parse = parser(handler.request_deserializer, limit)
        serialize = handler.response_serializer
        if handler.stream_unary is not None:
            raise TypeError(f"{name} streams requests to one reply, which has no wrapper yet")
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(self._unary(name, handler.unary_unary), parse, serialize)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(self._downstream(name, handler.unary_stream), parse, serialize)
        return grpc.stream_stream_rpc_method_handler(self._duplex(name, handler.stream_stream), parse, serialize)

    def _unary(self, name: str, behaviour: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def call(request: Any, context: Context) -> Any:
            async def serve() -> Any:
                _check(request)
                left = context.time_remaining()
                longest = self._limits.longest_deadline_s
                with self._deadlines.within(self._limits.default_deadline_s if left is None else min(left, longest)):
                    return await behaviour(request, context)

            return await self._run(name, context, serve, timed=True)

        return call

    def _downstream(self, name: str, behaviour: Callable[[Any, Context], AsyncIterator[Any]]) -> Any:
        async def call(request: Any, context: Context) -> None:
            async def serve() -> None:
                _check(request)
                await self._write_all(behaviour(request, context), context)

            await self._run(name, context, serve, timed=False)

        return call

    def _duplex(self, name: str, behaviour: Callable[[AsyncIterator[Any], Context], AsyncIterator[Any]]) -> Any:
        async def call(_: AsyncIterator[Any], context: Context) -> None:
            async def serve() -> None:
                await self._write_all(behaviour(self._read_all(context), context), context)

            await self._run(name, context, serve, timed=False)

        return call

    async def _run(self, name: str, context: Context, serve: Callable[[], Awaitable[Any]], *, timed: bool) -> Any:
        """One call from its beginning to its status."""
        started = time.perf_counter()
        code = "OK"
        self._enter()
        try:
            if self.open > self._limits.concurrent_calls:
                raise _too_many(self._limits.concurrent_calls)
            return await serve()
        except PSoupError as problem:
            error = _not_now(problem)
            code = code_of(error).name
            if isinstance(error, Internal):
                _log.error("call failed", extra={"call": name, "reason": error.reason, "problem": error.message})
        except TimeoutError:
            error = None
            code = grpc.StatusCode.DEADLINE_EXCEEDED.name
        except (asyncio.CancelledError, GeneratorExit) as ending:
            error = _cause(ending)
            code = grpc.StatusCode.CANCELLED.name if error is None else code_of(error).name
            if error is None:
                raise
        except Exception as defect:
            error = Internal(f"{name} failed by a defect of the service ({type(defect).__name__})")
            code = grpc.StatusCode.INTERNAL.name
            _log.exception("a defect ended a call", extra={"call": name})
        finally:
            self._leave()
            self._metrics.call_ended(name, code, time.perf_counter() - started if timed else None)
        # The call is over, but its status may have to wait behind a message that the client does not read.
        try:
            if error is None:
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"{name} did not end within its deadline")
            else:
                await abort(context, error)
        except _GONE:
            raise asyncio.CancelledError from None

    async def _write_all(self, messages: AsyncIterator[Any], context: Context) -> None:
        """Send what the servicer yields, for at most the age of a stream; a reader that stalls is cut sooner."""
        try:
            async with asyncio.timeout(self._limits.stream_age_s) as age:
                async for message in messages:
                    await self._moving(context.write(message))
        except TimeoutError:
            if not age.expired():
                raise
            raise _cut("STREAM_AGE", f"the stream is {self._limits.stream_age_s:g} s old") from None
        finally:
            await messages.aclose()  # type: ignore[attr-defined]

    async def _read_all(self, context: Context) -> AsyncIterator[Any]:
        """The client's messages, to the end of its side."""
        while True:
            if self._draining:
                raise _draining()
            request = await self._moving(context.read(), reading=True)
            if request is grpc.aio.EOF:
                return
            _check(request)
            yield request

    async def _moving(self, step: Awaitable[Any], *, reading: bool = False) -> Any:
        """Wait for one message to come or go, up to the idle time, or to the drain if it is one that may never come."""
        idle = asyncio.timeout(self._limits.stream_idle_s)
        try:
            async with idle:
                if reading:
                    self._reading.add(idle)
                return await step
        except _GONE:
            raise asyncio.CancelledError from None
        except TimeoutError:
            if not idle.expired():
                raise
            if reading and self._draining:
                raise _draining() from None
            raise _cut("STREAM_IDLE", f"nothing moved for {self._limits.stream_idle_s:g} s") from None
        finally:
            self._reading.discard(idle)

    def _enter(self) -> None:
        self.open += 1
        self._idle.clear()

    def _leave(self) -> None:
        self.open -= 1
        if not self.open:
            self._idle.set()


def ender() -> Callable[[PSoupError], None]:
    """What ends the present call with an error, also while its client does not read. From any thread."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None, "a call is a task"

    def end(error: PSoupError) -> None:
        with suppress(RuntimeError):  # the loop is closed, and the call with it
            loop.call_soon_threadsafe(task.cancel, error)

    return end


def _cause(ending: BaseException) -> PSoupError | None:
    """The error that a call was ended with by its `ender`; None if its client has left."""
    cause = ending.args[0] if ending.args else None
    if not isinstance(cause, PSoupError):
        return None
    task = asyncio.current_task()
    assert task is not None, "a call is a task"
    task.uncancel()
    return cause


def parser(parse: Callable[[bytes], Any], limit: int) -> Callable[[bytes], Any]:
    """A deserializer that cannot fail: gRPC would report a failure as INTERNAL."""

    def deserialize(raw: bytes) -> Any:
        if len(raw) > limit:
            return Unreadable(
                ResourceExhausted(
                    f"the request has {len(raw):,} bytes; {limit:,} is the most for this call",
                    reason="MESSAGE_TOO_LARGE",
                    bytes=len(raw),
                    limit=limit,
                )
            )
        try:
            return parse(raw)
        except DecodeError:
            return Unreadable(
                InvalidInput("the request is no message of this call's type; compare the .proto", reason="NOT_PROTOBUF")
            )

    return deserialize


def _check(request: Any) -> None:
    if isinstance(request, Unreadable):
        raise request.error


def _not_now(error: PSoupError) -> PSoupError:
    """A host that is starting or draining states a precondition; to a client it is a reason to try again."""
    if isinstance(error, FailedPrecondition) and error.reason in _NOT_NOW:
        return Unavailable(error.message, reason=error.reason, **error.facts)
    return error


def _too_many(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{limit:,} calls are under way, the most there may be; try again in a moment",
        reason="TOO_MANY_CALLS",
        limit=limit,
        retry_after_ms=100,
    )


def _cut(reason: str, why: str) -> Unavailable:
    return Unavailable(f"{why}, so it is ended; open a new one and go on", reason=reason)


def _draining() -> Unavailable:
    return Unavailable("the service is shutting down; go on when it is back", reason="DRAINING")
