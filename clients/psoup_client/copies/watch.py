"""Watched copies of answers: each change arrives as it becomes visible, until the program ends the watch.

    wants with tokens ──> Watch ──> message ──> changes, each applied as a whole ──> (copy, what has changed)
         ^                             └ the connection is lost, the service restarts, ten minutes are over
         '───── a pause, then the same call with the present tokens of the copies ──'

The service queues nothing for a slow program, and sends one change for everything that happened meanwhile. A service of
an older version, which does not know Watch, is polled by Sync, with pauses.
"""

from __future__ import annotations

import random
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from psoup_client.channel.patience import Patience, passes
from psoup_client.copies.answer_copy import (
    LONG_BODY,
    AnyCopy,
    Synced,
    applied,
    changes,
    falls_back,
    token_of,
    want_of,
)
from psoup_client.copies.replies import body_of, placed_among
from psoup_client.errors import NO_SUCH_CALL, DeadlineExceeded, PSoupError, ServerFault, from_failure
from psoup_client.session import Session, shown
from psoup_proto.v1 import sync_pb2

MOST_WATCHED = 1_000
"""The greatest number of copies in one watch."""
FIRST_POLL_S = 1.0
"""The first pause, in seconds, between two polls of a service that does not know Watch."""

LONGEST_POLL_S = 60.0
"""The longest pause, in seconds, between two such polls, after many polls without a change."""
_POLL_BYTES = 1024 * 1024
_CALL_S = 600.0
"""The seconds after which a call ends and a new call begins. So the client notices a silently lost connection."""


class WatchMessages:
    """The messages of Watch, which continue after a lost connection. `wants`: returns the wants for the next call.

    The iterator waits for the next message, until any thread calls `close`. Raises the error of a call, and Unavailable
    if the service is away for longer than `patience` seconds. `polls`: called with the reason if the service does not
    know Watch and is polled. `received`: received bytes.
    """

    def __init__(
        self,
        session: Session,
        wants: Callable[[], Sequence[sync_pb2.Want]],
        *,
        progress: int = 0,
        max_bytes: int = 0,
        patience: float | None = None,
        polls: Callable[[PSoupError], object] = lambda _: None,
    ) -> None:
        self._session = session
        self._wants = wants
        self._progress = progress
        self._max_bytes = max_bytes
        retry = session.connection.retry
        self._patience = Patience(retry.patience_seconds if patience is None else patience, retry)
        self._call: Any = None
        self._replies: Iterator[Any] | None = None
        self._closed = session.connection.event()
        self._polls = polls
        self.received = 0

    def __iter__(self) -> Iterator[sync_pb2.SyncBody]:
        return self

    def __next__(self) -> sync_pb2.SyncBody:
        while not self.closed:
            begun = self._replies is not None
            try:
                reply = self._session.reflecting(None, self._begin) if self._replies is None else next(self._replies)
            except PSoupError as problem:
                self.anew()
                if problem.reason == NO_SUCH_CALL and not begun:
                    self._polls(problem)
                    self._polls = lambda _: None  # report it only once
                    self._replies = self._polled()
                    continue
                call_is_over = begun and isinstance(problem, DeadlineExceeded)
                if not (self.closed or call_is_over):
                    self._wait(problem)
            except Exception:  # raised by a signal handler; the call is still open
                raise
            except BaseException:  # Ctrl-C, or a task that was cancelled: gRPC has cancelled the call
                self.anew()
                raise
            else:
                self._patience.reset()
                if isinstance(reply, sync_pb2.SyncBody):
                    return reply
                self.received += len(reply.body)
                return self._read(reply)
        raise StopIteration

    def _read(self, reply: Any) -> sync_pb2.SyncBody:
        try:
            body = self._session.connection.apart(len(reply.body) > LONG_BODY, body_of, reply)
        except BaseException:  # the message is lost, and later ones build on it
            self.anew()
            raise
        shown(self._session, body.sequence)
        return body

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    def anew(self) -> None:
        """Cancel the call, so that the next message comes from a new call with the present wants."""
        if self._call is not None:
            self._call.cancel()
        self._call = self._replies = None

    def close(self) -> None:
        """End the call and the iteration."""
        self._closed.set()
        if (call := self._call) is not None:
            call.cancel()

    def _polled(self) -> Iterator[sync_pb2.SyncBody]:
        """Yield replies of repeated Sync calls. The pauses between them grow while nothing changes."""
        pause = 0.0
        while not self._closed.wait(pause * random.uniform(0.5, 1.0)):
            wants, at, changed, left = list(self._wants()), 0, False, False
            while at < len(wants) and not self.closed:
                body, size = changes(self._session, wants[at:], self._max_bytes or _POLL_BYTES)
                self.received += size
                body.places.extend(range(at, at + len(body.outcomes)))
                at += len(body.outcomes)
                changed |= any(outcome.change.token for outcome in body.outcomes)
                left |= any(outcome.HasField("change") and not outcome.change.complete for outcome in body.outcomes)
                yield body
            pause = 0.0 if left else FIRST_POLL_S if changed or not pause else min(2 * pause, LONGEST_POLL_S)

    def _wait(self, problem: PSoupError) -> None:
        """Wait before the next attempt for a random part of the pause, so that not all clients return at once."""
        if not passes(problem):
            raise problem
        self._closed.wait(self._patience.next(problem) * random.uniform(0.5, 1.0))

    def _begin(self, sequence: int) -> Any:
        """Start a Watch call that reflects at least the event `sequence`. Returns its first message."""
        request = sync_pb2.WatchRequest(
            wants=self._wants(),
            max_bytes=self._max_bytes,
            min_sequence=sequence,
            compression=sync_pb2.COMPRESSION_ZSTD,
            progress_seconds=self._progress,
        )
        connection = self._session.connection
        self._call = connection.open(connection.sync.Watch, request, _CALL_S)
        self._replies = connection.replies(self._call)
        if self.closed:
            self._call.cancel()
        return next(self._replies)


class Watching:
    """Changes of some copies, made by `Client.watch`: iterating waits for the next change, and gives (copy, Synced).

    The copies are up to date as of the last given change. At first each copy is given once. The error of a query comes
    once, as `error`, and the remaining copies go on. Use it in a `with` statement, or call `close`, which any thread
    may do.
    """

    def __init__(self, session: Session, copies: Sequence[AnyCopy], progress: int, patience: float | None) -> None:
        self._copies = list(copies)
        self._wanted = list[tuple[AnyCopy, sync_pb2.Want]]()
        """The copies of the present call, with their wants."""
        self._tokens = dict[AnyCopy, bytes]()
        """The token of each copy that the service assumes now."""
        self._apart = session.connection.apart
        self._new = set(self._copies)
        self._found = deque[tuple[AnyCopy, Synced]]()
        self._messages = WatchMessages(session, self._wants, progress=progress, patience=patience, polls=_warn)

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[AnyCopy, Synced]]:
        return self

    def __next__(self) -> tuple[AnyCopy, Synced]:
        if self._messages.closed:
            raise StopIteration
        while not self._found:
            if not self._copies:  # all copies have been removed
                raise StopIteration
            self._take(next(self._messages))
        return self._found.popleft()

    def close(self) -> None:
        """End the iteration."""
        self._messages.close()

    def _wants(self) -> list[sync_pb2.Want]:
        wants = [want_of(copy) for copy in self._copies]
        self._wanted = list(zip(self._copies, wants, strict=True))
        self._tokens = {copy: token_of(copy) for copy in self._copies}
        return wants

    def _take(self, body: sync_pb2.SyncBody) -> None:
        """Apply a message. Cancel the call if some copies need another kind of request, or if the caller waits no more.
        A new call then has all copies with their present tokens.
        """
        anew = True
        try:
            anew = self._apart(body.ByteSize() > LONG_BODY, self._apply, body)
        finally:
            if anew:
                self._messages.anew()

    def _apply(self, body: sync_pb2.SyncBody) -> bool:
        """Apply a message, without a call. Returns whether some copies need another kind of request."""
        anew = False
        for (copy, want), outcome in placed_among(self._wanted, body):
            if outcome.HasField("failure"):
                error = from_failure(outcome.failure)
                if falls_back(copy, want, error):
                    anew = True
                    continue
                self._copies.remove(copy)
                self._found.append((copy, Synced(error=error)))
                continue
            if token_of(copy) != self._tokens[copy]:  # the caller has synced this copy meanwhile
                anew = True
                continue
            try:
                synced = applied(copy, outcome.change, body)
            except ServerFault as problem:
                self._copies.remove(copy)
                self._found.append((copy, Synced(error=problem)))
                anew = True
                continue
            self._tokens[copy] = token_of(copy)
            if outcome.change.token or copy in self._new:
                self._new.discard(copy)
                self._found.append((copy, synced))
        return anew


def _warn(problem: PSoupError) -> None:
    warnings.warn(
        f"{problem}; what has changed is asked for every {FIRST_POLL_S:.0f} to {LONGEST_POLL_S:.0f} s", stacklevel=5
    )
