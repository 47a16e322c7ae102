"""LISTEN and UNLISTEN: notifications of changes in the answers of queries.

LISTEN "hot" ─> Watch ─> changes ─ between two statements ─> NOTIFY hot

Changes add up until the next notification can be sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Protocol

from psoup.errors import Internal, NotFound, PSoupError, ResourceExhausted
from psoup_proto.v1 import sync_pb2
from psoup_service.pg.account import Account
from psoup_service.pg.calls import Calls
from psoup_service.pg.statements.held_ids import HeldIds
from psoup_service.pg.statements.utility import Utility, waiting
from psoup_service.pg.statements.words import Words
from psoup_service.wire.written import Written

MOST = 64
"""The most queries that a session listens to."""
_REPLY_BYTES = 1 << 20
_AGAIN = frozenset({"STREAM_AGE", "STREAM_IDLE"})
"""Reasons of ended watches that are simply started again."""
_log = logging.getLogger(__name__)


class Listener(Protocol):
    """The client that listens: see `contract.Announcer`."""

    async def notify(self, channel: str, payload: Callable[[], str]) -> None:
        """Send a notification."""
        ...


class Listening:
    """The subscriptions of a session, by key."""

    def __init__(self, calls: Calls, client: Listener, account: Account) -> None:
        self._calls = calls
        self._client = client
        self._account = account
        self._subscriptions = dict[str, _Subscription]()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def read_listen(self, words: Words) -> Utility:
        """LISTEN, after its first word. Raises SqlError."""
        place, key = words.place, words.name()
        words.end()

        async def run() -> str:
            if key in self._subscriptions:
                return "LISTEN"
            if len(self._subscriptions) >= MOST:
                raise ResourceExhausted(f"a session listens to at most {MOST} queries; UNLISTEN some")
            subscription = _Subscription(self._calls, self._client, HeldIds(self._account), key)
            self._subscriptions[key] = subscription
            try:
                await subscription.begun
            except BaseException as problem:
                self._end(key)
                if isinstance(problem, NotFound):
                    raise words.source.error(problem.message, place, reason="UNKNOWN_KEY") from None
                raise
            return "LISTEN"

        return waiting(run)

    def read_unlisten(self, words: Words) -> Utility:
        """UNLISTEN, after its first word. Raises SqlError."""
        key = None if words.accept("*") else words.name()
        words.end()

        async def run() -> str:
            if key is None:
                self.end()
            elif key in self._subscriptions:
                self._end(key)
            return "UNLISTEN"

        return waiting(run)

    def end(self) -> None:
        """End all subscriptions."""
        for key in list(self._subscriptions):
            self._end(key)

    def _end(self, key: str) -> None:
        self._subscriptions.pop(key).end()


class _Subscription:
    """A subscription to the query with a key. `begun`: a future that is done when the present answer is known.

    `_gone`: the reason for the end of the subscription, if it has ended.
    """

    def __init__(self, calls: Calls, client: Listener, rows: HeldIds, key: str) -> None:
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls = calls
        self._client = client
        self._rows = rows
        self._key = key
        self._want = sync_pb2.Want(key=key)
        self._sequence = self._came = self._left = 0
        self._gone: str | bool = False
        self._news = asyncio.Event()
        self._tasks = [asyncio.create_task(run()) for run in (self._watch, self._tell)]

    def end(self) -> None:
        """End the subscription."""
        for task in self._tasks:
            task.cancel()
        self._rows.clear()
        if not self.begun.done():
            self.begun.cancel()

    async def _watch(self) -> None:
        """Take changes until the query is gone, or cannot be watched any more."""
        while not self._gone:
            request = sync_pb2.WatchRequest(
                wants=[self._want], max_bytes=_REPLY_BYTES, encoding=sync_pb2.ENCODING_ARROW
            )
            try:
                await self._calls.many("SyncService/Watch", request, self._take)
            except PSoupError as problem:
                if problem.reason not in _AGAIN:
                    self._failed(problem)
            except Exception as defect:
                _log.exception("a subscription has failed")
                self._failed(Internal(f"the subscription failed by a defect ({type(defect).__name__})"))

    async def _take(self, reply: Any) -> None:
        """Take a reply of Watch."""
        raw = reply.raw if type(reply) is Written else reply
        message = sync_pb2.WatchResponse.FromString(raw) if isinstance(raw, bytes) else raw
        body = sync_pb2.SyncBody.FromString(message.body)
        self._sequence = body.sequence
        for outcome in body.outcomes:
            if outcome.HasField("failure"):
                self._lost(outcome.failure)
            else:
                self._changed(outcome.change)

    def _changed(self, change: sync_pb2.Change) -> None:
        came, left = self._rows.apply(change)
        if change.token:
            self._want.token = change.token
        if not self.begun.done():
            if change.complete:
                self.begun.set_result(None)
            return
        self._came += came
        self._left += left
        if self._came or self._left:
            self._news.set()

    def _lost(self, failure: Any) -> None:
        """Handle a query that has failed or is gone. Another query may have its key now."""
        if not self.begun.done():
            self._gone = True
            self.begun.set_exception(NotFound(failure.message, reason=failure.reason))
        elif self._want.token:
            self._want = sync_pb2.Want(key=self._key)
        else:
            self._left += self._rows.count
            self._end_with(failure.message)

    async def _tell(self) -> None:
        """Send a notification after changes, as soon as the connection can take it."""
        while True:
            await self._news.wait()
            await self._client.notify(self._key, self._payload)

    def _payload(self) -> str:
        """The payload of a notification, with all changes up to now."""
        counts = {"came_count": self._came, "left_count": self._left}
        payload = {"key": self._key, "sequence": self._sequence, **counts}
        self._came = self._left = 0
        self._news.clear()
        return json.dumps({**payload, "gone": self._gone} if self._gone else payload, ensure_ascii=False)

    def _failed(self, problem: PSoupError) -> None:
        if self.begun.done():
            self._end_with(problem.message)
        else:
            self._gone = True
            self.begun.set_exception(problem)

    def _end_with(self, message: str) -> None:
        """End the subscription with a last notification, which says why."""
        self._gone = message
        self._rows.clear()
        self._news.set()
