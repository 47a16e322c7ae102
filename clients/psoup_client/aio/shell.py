"""The shell of the asynchronous objects: how a method that calls becomes a method that is awaited.

    push = awaited(IngestCalls.push)                await client.push(…)
    match_pages = each(MatchingCalls.match_pages)   async for page in client.match_pages(…)
    stage = opening(IngestCalls.stage, …)           async with client.stage(…) as stage     or: await it

A made method has the parameters, the docstring and the errors of the given one. It executes the given one on the object
of the core that the shell wraps.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from psoup_client.aio.connection import AsyncConnection
from psoup_client.aio.steps import run
from psoup_client.errors import PSoupError, without_frames

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")
Item = TypeVar("Item")
F = TypeVar("F", bound=Callable[..., Any])
_END: Any = object()


class Shell(ABC):
    """Base of the asynchronous objects."""

    __slots__ = ()

    @abstractmethod
    def _held(self) -> Any:
        """Return the object of the core whose methods are executed."""

    @abstractmethod
    def _over(self) -> AsyncConnection:
        """Return the connection."""

    async def _run(self, function: Callable[..., R], /, *arguments: Any, **named: Any) -> R:
        """Execute a function that makes calls. Its errors have no frames of the SDK."""
        self._over().enter()
        try:
            return await run(function, *arguments, **named)
        except PSoupError as problem:
            raise without_frames(problem)  # noqa: B904 - the same error again


class Holder(Shell, Generic[R]):
    """A shell around an object of the core."""

    def __init__(self, core: R, connection: AsyncConnection) -> None:
        self._core = core
        self._connection = connection

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self._core!r}>"

    def _held(self) -> R:
        return self._core

    def _over(self) -> AsyncConnection:
        return self._connection


def awaited(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Shell, P], Coroutine[Any, Any, R]]:
    """Make a method that is awaited."""

    @functools.wraps(method)
    async def call(self: Shell, /, *arguments: P.args, **named: P.kwargs) -> R:
        return await self._run(method, self._held(), *arguments, **named)

    return call


def giving(
    method: Callable[Concatenate[Any, P], R], wrap: Callable[[R, AsyncConnection], W]
) -> Callable[Concatenate[Shell, P], Coroutine[Any, Any, W]]:
    """Make a method that is awaited, and whose result is converted by `wrap`."""

    @functools.wraps(method)
    async def call(self: Shell, /, *arguments: P.args, **named: P.kwargs) -> W:
        return wrap(await self._run(method, self._held(), *arguments, **named), self._over())

    _sign(call, method, _name(wrap))
    return call


def each(
    method: Callable[Concatenate[Any, P], Iterator[R]], wrap: Callable[[R, AsyncConnection], W]
) -> Callable[Concatenate[Shell, P], AsyncGenerator[W, None]]:
    """Make a method for `async for`, whose items are converted by `wrap`."""

    @functools.wraps(method)
    async def call(self: Shell, /, *arguments: P.args, **named: P.kwargs) -> AsyncGenerator[W, None]:
        items = iter(await self._run(method, self._held(), *arguments, **named))
        try:
            while (item := await self._run(next, items, _END)) is not _END:
                yield wrap(item, self._over())
        finally:
            if (close := getattr(items, "close", None)) is not None:
                await self._run(close)

    items = str(inspect.signature(method).return_annotation).removeprefix("Iterator[").removesuffix("]")
    _sign(call, method, f"AsyncGenerator[{items if wrap is same else _name(wrap)}, None]")
    return call


def _sign(call: Any, method: Callable[..., Any], returns: str) -> None:
    """Give a function the parameters of a method, and the name of another result, for `help` and the reference."""
    call.__signature__ = inspect.signature(method).replace(return_annotation=returns)


def _name(wrap: Any) -> str:
    """Return the name of the class that wraps a result: of itself, or of its method `of`."""
    name: str = getattr(wrap, "__self__", wrap).__name__
    return name


def twin_of(method: Callable[..., Any]) -> Callable[[F], F]:
    """Give a method that is written out the docstring and the parameters of its twin."""

    def decorate(function: F) -> F:
        given = function.__annotations__["return"]
        functools.update_wrapper(function, method)
        _sign(function, method, given)
        return function

    return decorate


def same(value: R, connection: AsyncConnection) -> R:
    """Return the value."""
    return value


class Closing(Protocol):
    """An object for an `async with` statement."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *_: Any) -> None: ...


class Iterated(Closing, Protocol):
    """An object for an `async with` statement, and for `async for`."""

    def __aiter__(self) -> AsyncIterator[Any]: ...


C = TypeVar("C", bound=Closing)
I = TypeVar("I", bound=Iterated)  # noqa: E741


class Opening(Generic[C]):
    """An object that a call opens. Await it, or use it in an `async with` statement, which also closes it."""

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._open = opened
        self._object: C

    def __await__(self) -> Generator[Any, None, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        self._object = await self._open()
        await self._object.__aenter__()
        return self._object

    async def __aexit__(self, *exception: Any) -> None:
        await self._object.__aexit__(*exception)


class OpeningEach(Opening[I], Generic[I, Item]):
    """As `Opening`. `async for` opens the object, iterates over it, and closes it at the end."""

    async def __aiter__(self) -> AsyncGenerator[Item, None]:
        async with self as opened:
            async for item in opened:
                yield item


def opening(
    method: Callable[Concatenate[Any, P], R], wrap: Callable[[R, AsyncConnection], C]
) -> Callable[Concatenate[Shell, P], Opening[C]]:
    """Make a method that opens an object. `wrap` converts the object."""

    @functools.wraps(method)
    def call(self: Shell, /, *arguments: P.args, **named: P.kwargs) -> Opening[C]:
        return Opening(functools.partial(giving(method, wrap), self, *arguments, **named))

    _sign(call, method, f"Opening[{_name(wrap)}]")
    return call


def opening_each(
    method: Callable[Concatenate[Any, P], R], wrap: Callable[[R, AsyncConnection], I], item: type[Item]
) -> Callable[Concatenate[Shell, P], OpeningEach[I, Item]]:
    """Make a method that opens an object for `async for`. `item`: the type of its items."""

    @functools.wraps(method)
    def call(self: Shell, /, *arguments: P.args, **named: P.kwargs) -> OpeningEach[I, Item]:
        return OpeningEach(functools.partial(giving(method, wrap), self, *arguments, **named))

    _sign(call, method, f"OpeningEach[{_name(wrap)}, {item.__name__}]")
    return call
