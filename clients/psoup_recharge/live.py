"""A store that stays up to date: by a Watch call if possible, else by Sync calls with pauses.

    recharge ──> Watch ──> change ─ a transaction ─> Recharged, as it comes
       ^           └ lost, refused, a query is gone, or another process was faster
       '── a pause, up to twice as long as the one before, 60 s at the most, and as long as the service says ──'

    with `every`: recharge, and nothing until the next; a device may sleep meanwhile

A pause has a random length up to its maximum. So not all devices call at once after a restart of the service.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from psoup_client import Client
from psoup_client.channel.patience import passes
from psoup_client.copies.answer_copy import REASONS
from psoup_client.copies.replies import placed_among
from psoup_client.copies.watch import MOST_WATCHED, WatchMessages
from psoup_client.errors import NotFound, PSoupError, ServerFault, from_failure
from psoup_proto.v1 import sync_pb2
from psoup_recharge.entry import Entry
from psoup_recharge.rounds import CopyStore, Recharged, recharge
from psoup_recharge.watch_log import WatchLog

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_SPREAD = 0.1
"""The fraction of `every` by which each pause varies at random.

So devices that began at the same moment drift apart.
"""


class Live:
    """The changes of a store's copies, from `Store.watch`. The iterator waits for the next change, until `close`.

    If a query fails, the result has its `error`, and the copy stays as it was. `lost` is called with the reason if the
    service cannot be reached.
    """

    def __init__(
        self,
        store: CopyStore,
        client: Client,
        every: float | None,
        lost: Callable[[PSoupError], object] = lambda _: None,
    ) -> None:
        self._store = store
        self._client = client
        self._every = every
        self._lost = lost
        self._closed = threading.Event()
        self._messages: WatchMessages | None = None
        self._begun = list[tuple[Entry, sync_pb2.Want]]()
        self._pause = FIRST_PAUSE_S
        self._polls = False
        self._sent = 0
        self._changes = self._go_on()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Recharged]:
        return self._changes

    def close(self) -> None:
        """End the iteration. Any thread may call it."""
        self._closed.set()
        if (messages := self._messages) is not None:
            messages.close()

    def _go_on(self) -> Iterator[Recharged]:
        while not self._closed.is_set():
            try:
                yield from self._recharged()
                if self._every is None:
                    yield from self._watched()
                else:
                    self._pause = FIRST_PAUSE_S
                    self._closed.wait(self._every * random.uniform(1 - _SPREAD, 1 + _SPREAD))
            except PSoupError as problem:
                if self._closed.is_set():
                    return
                if not passes(problem):
                    raise
                self._lost(problem)
                self._closed.wait(max(random.uniform(0, self._pause), problem.retry_after or 0.0))
                self._pause = min(2 * self._pause, LONGEST_PAUSE_S)

    def _recharged(self) -> Iterator[Recharged]:
        """Recharge all copies, or with `every` only those that are due. Yields the outcome for each copy."""
        only = [entry.name for entry in self._store.entries()] if self._every is None else []
        yield from recharge(self._store, self._client, max_bytes=None, max_seconds=None, only=only).copies

    def _watched(self) -> Iterator[Recharged]:
        """Yield the changes that arrive by Watch. Ends when a recharge is needed again."""
        if not self._wants():  # every query was refused, for example; wait for changed entries
            self._closed.wait(LONGEST_PAUSE_S)
            return
        self._sent = 0
        self._messages = messages = WatchMessages(self._client, self._wants, patience=0.0, polls=self._asks)
        if self._closed.is_set():
            return
        log = WatchLog(self._store)
        try:
            for body in messages:
                self._pause = FIRST_PAUSE_S
                log.look(self._sent, messages.received)
                for (entry, want), outcome in placed_among(self._begun, body):
                    if outcome.HasField("failure"):
                        yield log.add(Recharged(entry.name, asked=True, error=from_failure(outcome.failure)))
                        self._closed.wait(FIRST_PAUSE_S)
                        return
                    change = outcome.change
                    try:
                        gone = self._store.apply(entry, want, change, body.streams, body.clock)
                    except ServerFault as problem:  # the change does not fit this copy
                        yield log.add(Recharged(entry.name, asked=True, error=problem))
                        self._closed.wait(FIRST_PAUSE_S)
                        return
                    if gone is None:  # another process changed the copy first
                        return
                    want.token = change.token or want.token
                    if change.token:
                        reset, size = REASONS.get(change.reset, "other"), outcome.ByteSize()
                        left, complete = change.rows_left, change.complete
                        yield log.add(Recharged(entry.name, True, change.rows, gone, size, left, complete, reset))
        finally:
            messages.close()
            log.note(self._sent, messages.received)

    def _asks(self, problem: PSoupError) -> None:
        """Call `lost` once with the reason why the service, of an older version, must be polled by Sync."""
        if not self._polls:
            self._polls = True
            self._lost(problem)

    def _wants(self) -> list[sync_pb2.Want]:
        """Return the wants of a Watch call: the copies that have a token, as they are now."""
        wants = list[tuple[Entry, sync_pb2.Want]]()
        for entry in self._store.entries():
            with suppress(NotFound):  # another program has just forgotten it
                wants.append((entry, self._store.want(entry)))
        self._begun = [(entry, want) for entry, want in wants if want.token][:MOST_WATCHED]
        self._sent += sum(want.ByteSize() for _, want in self._begun)
        return [want for _, want in self._begun]
