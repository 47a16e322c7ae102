"""`AsyncClient` with the interface of `Client`, so that the tests of `Client` run over it, unchanged.

    pytest -p psoup_testing.services.async_shim tests/clients/queries      every `Client` of these tests is a ShimClient

Coroutines run in an event loop of a thread. Objects that make calls are converted: a query to a `ShimQuery`, the rest
to a `Shim`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import psoup_client
from psoup_client.aio import AsyncAnswerCopy, AsyncClient, AsyncGroupBatch, AsyncQueries, AsyncQuery, Opening
from psoup_client.aio.shell import Holder
from psoup_client.queries import AnyQueries

_END: Any = object()
_THREAD = "shim"


class _Loop:
    """An event loop in a thread of its own, which starts with the first coroutine."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Execute a coroutine and wait for its result."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name=_THREAD, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


LOOP = _Loop()


async def _result(method: Any, arguments: Any, named: Any) -> Any:
    """Call a method in the event loop, and await what it returns."""
    result = method(*arguments, **named)
    return await result if inspect.isawaitable(result) or isinstance(result, Opening) else result


def called(method: Any, *arguments: Any, **named: Any) -> Any:
    """Call a method of an asynchronous object. Returns its result as `Client` would."""
    return converted(LOOP.run(_result(method, arguments, named)))


def converted(value: Any) -> Any:
    """Convert what an asynchronous method returns."""
    if isinstance(value, AsyncQuery):
        return ShimQuery.like(value)
    if isinstance(value, AsyncQueries):
        return ShimQueries(value._client, value._spans)
    if isinstance(value, AsyncAnswerCopy):
        return ShimCopy.like(value)
    if isinstance(value, Holder | AsyncGroupBatch):
        return Shim(value)
    if inspect.isasyncgen(value):
        return _each(value)
    if isinstance(value, list):
        value[:] = [converted(item) if isinstance(item, AsyncQuery) else item for item in value]
    return value


def _each(items: AsyncIterator[Any]) -> Iterator[Any]:
    try:
        while (item := LOOP.run(_next(items))) is not _END:
            yield converted(item)
    finally:
        if inspect.isasyncgen(items):
            LOOP.run(_result(items.aclose, (), {}))


async def _next(items: AsyncIterator[Any]) -> Any:
    return await anext(items, _END)


class ShimQuery(AsyncQuery):
    """A query with the methods of `Query`."""

    __slots__ = ()

    @classmethod
    def like(cls, query: AsyncQuery) -> ShimQuery:
        made = cls(query._client, query._info or query._id, key=query._key)
        made._id = query._id
        return made

    @property
    def info(self) -> Any:
        if self._info is None and threading.current_thread().name != _THREAD:
            LOOP.run(self.load())
        return super().info

    def invoke(self, **named: Any) -> Any:  # type: ignore[override]
        return called(super().invoke, **named)

    def stream(self, **named: Any) -> Any:  # type: ignore[override]
        return called(super().stream, **named)

    def explain(self, **named: Any) -> Any:  # type: ignore[override]
        return called(super().explain, **named)

    def alter(self, **named: Any) -> Any:  # type: ignore[override]
        return called(super().alter, **named)

    def unregister(self) -> Any:  # type: ignore[override]
        return called(super().unregister)


class ShimQueries(AnyQueries[ShimQuery]):
    """A sequence of queries with the methods of `Query`."""

    __slots__ = ()

    def _query(self, query_id: str) -> ShimQuery:
        return ShimQuery(self._client, query_id)


class ShimCopy(AsyncAnswerCopy):
    """A copy with the methods of `AnswerCopy`."""

    @classmethod
    def like(cls, copy: AsyncAnswerCopy) -> ShimCopy:
        made = cls.__new__(cls)
        made.__dict__ = copy.__dict__
        return made

    def sync(self, **named: Any) -> Any:  # type: ignore[override]
        return called(super().sync, **named)


@dataclass(frozen=True)
class _Call:
    """A method that blocks. Like methods of `Client`, two are equal if they are one method of one object."""

    method: Any

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return called(self.method, *arguments, **named)


class Shim:
    """An asynchronous object whose methods block."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["_inner"], name)
        if not inspect.ismethod(value):
            return value
        return _Call(value)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        LOOP.run(self._inner.__aexit__(*exception))

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self._inner, AsyncGroupBatch):
            yield from self._inner
            return
        items = aiter(self._inner)
        while (item := LOOP.run(_next(items))) is not _END:
            yield converted(item)

    def __next__(self) -> Any:
        item = LOOP.run(_next(self._inner))
        if item is _END:
            raise StopIteration
        return converted(item)

    def __repr__(self) -> str:
        return repr(self._inner._core).replace("Async", "")


def _core_called(client: AsyncClient, method: Any, *arguments: Any, **named: Any) -> Any:
    """Call a private method of the core."""
    if threading.current_thread().name == _THREAD:  # a query that a test has made of a ShimClient
        return method(*arguments, **named)
    return converted(LOOP.run(client._run(method, *arguments, **named)))


class _Method:
    """A method of a stub. Outside the event loop it blocks."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if threading.current_thread().name == _THREAD:
            return self.raw(*arguments, **named)
        return LOOP.run(_result(self.raw, arguments, named))


class _Stub:
    """A stub whose unary methods block."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def __getattr__(self, name: str) -> Any:
        return _Method(getattr(self._stub, name))


class _Bridged:
    """The replies of a call, for code inside and outside the event loop."""

    def __init__(self, client: AsyncClient, replies: Any) -> None:
        self._client = client
        self._replies = replies

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = _core_called(self._client, next, self._replies, _END)
        if item is _END:
            raise StopIteration
        return item

    def close(self) -> None:
        _core_called(self._client, self._replies.close)


class ShimConnection:
    """The connection of an `AsyncClient`, whose `call` and stubs block."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        if threading.current_thread().name != _THREAD:
            LOOP.run(client._run(lambda: None))  # the stubs are made in the event loop

    def call(self, method: Any, *arguments: Any, **named: Any) -> Any:
        raw = method.raw if isinstance(method, _Method) else method
        return _core_called(self._client, self._client._connection.call, raw, *arguments, **named)

    def stream(self, method: Any, *arguments: Any, **named: Any) -> Any:
        return _Bridged(self._client, self._client._connection.stream(method, *arguments, **named))

    def replies(self, call: Any, *arguments: Any, **named: Any) -> Any:
        return _Bridged(self._client, self._client._connection.replies(call, *arguments, **named))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client._connection, name)
        return _Stub(value) if type(value).__name__.endswith("Stub") else value


class ShimClient(Shim):
    """`AsyncClient` with the methods of `Client`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(AsyncClient(*arguments, **named))

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__["_inner"]
        if name == "connection":
            return ShimConnection(inner)
        if hasattr(inner, name) and not name.startswith("_"):
            return super().__getattr__(name)
        value = getattr(inner._calls, name)
        return partial(_core_called, inner, value) if inspect.ismethod(value) else value

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"


def pytest_configure() -> None:
    """Replace `Client` before the tests import it."""
    psoup_client.Client = ShimClient  # type: ignore[misc,assignment]
