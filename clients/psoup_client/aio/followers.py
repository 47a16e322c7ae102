"""Iterators that wait for what is new, for tasks: matches of a stream, and changes of copies.

Each goes on by itself after a lost connection or a restart. A wait may be cancelled: the next one misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from psoup_client.aio.connection import AsyncConnection
from psoup_client.aio.shell import Holder, Shell, awaited
from psoup_client.copies.answer_copy import AnswerCopy, AnyCopy, Synced
from psoup_client.copies.watch import Watching
from psoup_client.follow import FollowBatch, Following
from psoup_client.group import GroupBatch, GroupFollowing

Core = TypeVar("Core", Following, GroupFollowing, Watching)
Item = TypeVar("Item")
_END: Any = object()


class _Waiter(Holder[Core], Generic[Core, Item]):
    """Base of the iterators."""

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the iteration, also for a task that waits in it."""
        await self._run(self._core.close)

    async def __anext__(self) -> Item:
        item = await self._run(next, self._core, _END)
        if item is _END:
            raise StopAsyncIteration
        return self._item(item)

    def _item(self, item: Any) -> Item:
        """Convert an item of the core."""
        given: Item = item
        return given


class AsyncFollowing(_Waiter[Following, FollowBatch]):
    """New matches of a stream, made by `AsyncClient.follow`: `async for` waits for the next `FollowBatch`.

    It goes on by itself after a lost connection or a restart. Use it in an `async with` statement, or call `close`,
    which any task may do. After PositionLost, iterating goes on at the oldest tuple that is kept.
    """

    @property
    def position(self) -> str:
        """The position after the last batch, or a later one if no matches came since."""
        return self._core.position

    async def __aenter__(self) -> AsyncFollowing:
        return self

    def __aiter__(self) -> AsyncFollowing:
        return self


@dataclass(frozen=True, slots=True, repr=False)
class AsyncGroupBatch(FollowBatch):
    """Some matches for one worker of a group, as `GroupBatch`. `confirm` is awaited."""

    partitions: int = 0
    workers: int = 0
    _confirm: Callable[[], Any] = field(default=lambda: None, repr=False, compare=False)

    async def confirm(self) -> None:
        """Confirm the batch. When this returns, the confirmation is on disk, and no worker gets the batch again.

        Raises FailedPrecondition with reason LEASE_LOST if the worker's lease is over: then the batch comes again, and
        iterating goes on with a new lease. A repeated call does nothing.
        """
        await self._confirm()


class AsyncGroupFollowing(_Waiter[GroupFollowing, AsyncGroupBatch]):
    """The matches of one worker of a group, made by `AsyncClient.follow` with `group`: `async for` waits for a batch.

    Asking for the next batch confirms the one before. It goes on by itself after a lost connection or a restart. Use it
    in an `async with` statement, or call `close`: then other workers go on with its share at once.
    """

    async def __aenter__(self) -> AsyncGroupFollowing:
        return self

    def __aiter__(self) -> AsyncGroupFollowing:
        return self

    def _item(self, item: GroupBatch) -> AsyncGroupBatch:
        facts = {each.name: getattr(item, each.name) for each in fields(item) if each.name != "_confirm"}
        return AsyncGroupBatch(**facts, _confirm=lambda: self._run(item.confirm))


class AsyncAnswerCopy(Shell, AnyCopy):
    """A copy of a query's answer, made by `AsyncClient.copy`, with the names of `AnswerCopy`.

    `await copy.sync()` brings it up to date by changes; nothing else makes a call.
    """

    @classmethod
    def of(cls, copy: AnswerCopy) -> AsyncAnswerCopy:
        """Convert a copy of the core."""
        made = cls.__new__(cls)
        made.__dict__.update(copy.__dict__)
        return made

    def _held(self) -> Any:
        return self

    def _over(self) -> AsyncConnection:
        connection = self._session.connection
        assert isinstance(connection, AsyncConnection)
        return connection

    sync = awaited(AnswerCopy.sync)


class AsyncWatching(_Waiter[Watching, tuple[AsyncAnswerCopy, Synced]]):
    """Changes of some copies, made by `AsyncClient.watch`: `async for copy, change in watch` waits for the next one.

    It has the rules of `Watching`. Use it in an `async with` statement, or call `close`, which any task may do.
    """

    async def __aenter__(self) -> AsyncWatching:
        return self

    def __aiter__(self) -> AsyncWatching:
        return self
