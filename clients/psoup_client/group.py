"""Workers that share the matches of a stream: a group of followers whose positions the service keeps.

    TakeBatch ──> batch ──> the program's work ──> TakeBatch, which confirms the batch before ──> batch ──> …
                                └ the program ends, or takes longer than its lease: the batch comes again

A worker has at most one batch that is not confirmed. The connection may be lost and the service may restart: what was
not confirmed comes again, to any worker.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from psoup_client import html
from psoup_client.arguments import short_errors
from psoup_client.channel.patience import Patience, passes
from psoup_client.errors import FailedPrecondition, PositionLost, PSoupError
from psoup_client.follow import FollowBatch, tables_of
from psoup_client.phrases import counted
from psoup_client.session import Session
from psoup_client.times import from_proto
from psoup_proto.v1 import groups_pb2

_WAIT_S = 10
"""Seconds that a call waits for matches."""


@dataclass(frozen=True, slots=True)
class GroupBatch(FollowBatch):
    """Some matches for one worker of a group, as in FollowBatch. `position` is "", because the service keeps it.

    Asking for the next batch confirms this one. `confirm` does so at once. `partitions`: how many of the group's 64
    partitions the worker has. `workers`: the number of the group's workers.
    """

    partitions: int = 0
    workers: int = 0
    _confirm: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    def __repr__(self) -> str:
        some = f"{counted(self.tuples.num_rows, 'tuple')}, {counted(self.matches.num_rows, 'match')}"
        return f"<GroupBatch: {some}, lag {self.lag:,}; {self.partitions} of 64 partitions>"

    @short_errors
    def confirm(self) -> None:
        """Confirm the batch. When this returns, the confirmation is on disk, and no worker gets the batch again.

        Raises FailedPrecondition with reason LEASE_LOST if the worker's lease is over: then the batch comes again, and
        iterating goes on with a new lease.
        A repeated call does nothing.
        """
        self._confirm()


@dataclass(frozen=True, slots=True)
class GroupWorker(html.Facts):
    """A worker of a group: its name, its partitions, and whether it has a batch that is not confirmed."""

    worker: str
    partitions: int
    busy: bool


@dataclass(frozen=True, slots=True)
class GroupInfo(html.Facts):
    """A group of followers. `selection`: its queries, as text. `confirmed`: the last confirmation, or None.

    `next_id`: the oldest tuple that some partition has not confirmed. `lag`: the tuples from there on.
    """

    group: str
    selection: str
    next_id: int
    lag: int
    formed: dt.datetime
    confirmed: dt.datetime | None
    workers: tuple[GroupWorker, ...]

    @staticmethod
    def of(message: groups_pb2.FollowGroup) -> GroupInfo:
        """Convert the message on the wire."""
        return GroupInfo(
            message.group,
            message.selection,
            message.next_id,
            message.lag,
            from_proto(message.form_time),
            from_proto(message.confirm_time) if message.HasField("confirm_time") else None,
            tuple(GroupWorker(worker.worker, worker.partitions, worker.busy) for worker in message.workers),
        )


@dataclass(frozen=True, slots=True)
class FollowerInfo(html.Facts):
    """A client that follows a stream outside of groups. `name`: "" if it has none.

    `next_id`: all tuples before it have been told. `lag`: the tuples that have not.
    """

    name: str
    next_id: int
    lag: int


class GroupFollowing:
    """The matches of one worker of a group, made by `Client.follow` with `group`: iterating waits for a `GroupBatch`.

    Asking for the next batch confirms the one before. It goes on by itself after a lost connection or a restart. Use it
    in a `with` statement, or call `close`, which any thread may do: then other workers go on with its share at once.
    After an error with reason LEASE_LOST, iterating begins a new lease.
    """

    def __init__(self, session: Session, request: groups_pb2.TakeBatchRequest, *, patience: float | None) -> None:
        """Begin the lease at once. Raises the errors of the call."""
        self._session = session
        self._request = request
        retry = session.connection.retry
        self._patience = Patience(retry.patience_seconds if patience is None else patience, retry)
        self._closed = session.connection.event()
        self._first: Any = session.reflecting(None, self._join)

    def __enter__(self) -> GroupFollowing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[GroupBatch]:
        return self

    @short_errors
    def __next__(self) -> GroupBatch:
        while not self._closed.is_set():
            reply, self._first = self._first or self._next(), None
            if reply is None:
                break
            self._request.lease, self._request.confirm = reply.lease, reply.batch
            self._session.note_sequence(reply.sequence)
            if reply.missed:
                self._confirm_missed(reply)
                raise PositionLost(
                    f"{counted(reply.missed, 'tuple')} of the stream were no longer kept when group"
                    f" {self._request.group!r} came to them; iterating goes on at tuple {reply.first_id:,}",
                    position="",
                    why="NOT_KEPT",
                    missed=reply.missed,
                    first_id=reply.first_id,
                )
            if reply.batch:
                return self._batch(reply)
        raise StopIteration

    def _confirm_missed(self, reply: Any) -> None:
        """Confirm that tuples were missed. If the caller leaves this wait, the next one reports them all the same."""
        self._first = reply
        try:
            self._confirm(reply.batch)
        except PSoupError:  # they come again
            self._first = None
            raise
        self._first = None

    def close(self) -> None:
        """Give the lease back, and end the iteration. A batch that is not confirmed comes again to another worker."""
        if self._closed.is_set():
            return
        self._closed.set()
        request = groups_pb2.LeaveGroupRequest(
            stream=self._request.stream, group=self._request.group, lease=self._request.lease
        )
        if request.lease:
            with suppress(PSoupError):  # the service takes the lease back when its time is over
                self._session.connection.call(self._session.connection.groups.LeaveGroup, request, 5.0, repeat=False)

    def _join(self, sequence: int) -> Any:
        """The first call, which does not wait for matches."""
        self._request.min_sequence, self._request.wait_seconds = sequence, 0
        reply = self._session.connection.call(self._session.connection.groups.TakeBatch, self._request)
        self._request.min_sequence, self._request.wait_seconds, self._request.lease = 0, _WAIT_S, reply.lease
        return reply

    def _next(self) -> Any:
        """The next message. Waits while the service is away. Returns None after `close`."""
        connection, away = self._session.connection, False
        while not self._closed.is_set():
            try:
                reply = connection.call(connection.groups.TakeBatch, self._request, connection.timeout + _WAIT_S)
            except PSoupError as problem:
                if self._closed.is_set():
                    break
                if problem.reason == "LEASE_LOST":
                    self._begin_again(problem, away)
                    continue
                if not passes(problem):
                    raise
                away = True
                self._closed.wait(self._patience.next(problem) * random.uniform(0.5, 1.0))
            else:
                self._patience.reset()
                return reply
        return None

    def _begin_again(self, problem: PSoupError, away: bool) -> None:
        """Go on with a new lease. Raises `problem` if the worker had a batch and the service was not away."""
        busy = self._request.confirm != 0
        self._request.lease, self._request.confirm = "", 0
        if busy and not away:
            raise problem

    def _batch(self, reply: Any) -> GroupBatch:
        facts = 0, int(reply.lag), int(reply.left_out), int(reply.sequence)
        number, lease = int(reply.batch), reply.lease

        def confirm() -> None:
            if self._request.lease != lease:
                raise FailedPrecondition(
                    "the lease under which this batch came is over, so it comes again", reason="LEASE_LOST"
                )
            if self._request.confirm == number:
                try:
                    self._confirm(number)
                except PSoupError as problem:
                    if problem.reason == "LEASE_LOST":  # told once: the next batch comes under a new lease
                        self._request.lease, self._request.confirm = "", 0
                    raise

        tables = tables_of(reply)
        return GroupBatch("", *tables, *facts, reply.partitions, reply.workers, confirm)

    def _confirm(self, number: int) -> None:
        """Confirm a batch without asking for another."""
        connection, request = self._session.connection, self._request
        message = groups_pb2.ConfirmBatchRequest(
            stream=request.stream, group=request.group, lease=request.lease, batch=number
        )
        reply = connection.call(connection.groups.ConfirmBatch, message)
        self._session.note_sequence(reply.sequence)
        if request.confirm == number:
            request.confirm = 0
