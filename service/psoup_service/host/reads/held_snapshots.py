"""A snapshot that several calls of one client read: the statements of a transaction have the same rows and NOW.

    first read ──> takes the published snapshot and NOW      O(1)
    later reads ──> the same ones
    after HOLD_S ──> its chunks are charged, as for streamed answers (`pins`); other tenants' streams are left out

`HELD` is set around the work of a call, and not around its gate: tokens and roles are always the present ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

from psoup.errors import PSoupError, ResourceExhausted
from psoup_service.host.reads.pins import Pin, Pins

SnapshotT = TypeVar("SnapshotT")

HOLD_S = 0.1
"""The seconds after which the chunks of a held snapshot are charged. Most transactions have ended by then."""


class HeldSnapshot:
    """The snapshot of one transaction. One call at a time reads it, from any thread. `tenant`: owns its memory."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._loop = asyncio.get_running_loop()
        self._snapshot: Any = None
        self._now: int | None = None
        self._pins: Pins | None = None
        self._pin: Pin | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended: PSoupError | None = None
        self._released = False

    def snapshot(self, take: Callable[[], Any], pins: Pins) -> Any:
        """The snapshot; `take` returns it for the first read. Raises ResourceExhausted if it was given up."""
        if self._ended is not None:
            raise self._ended
        snapshot = self._snapshot
        if snapshot is None:
            snapshot = self._snapshot = take()
            self._pins = pins
            self._loop.call_soon_threadsafe(self._start)
        return snapshot

    def now(self, clock: Callable[[], int]) -> int:
        """NOW of the transaction; `clock` returns it for the first read."""
        if self._now is None:
            self._now = clock()
        return self._now

    def release(self) -> None:
        """Let go of the snapshot. On the event loop. Idempotent."""
        self._released = True
        self._snapshot = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pin is not None and self._pins is not None:
            self._pins.release(self._pin)
            self._pin = None

    def _start(self) -> None:
        if not self._released:
            self._timer = self._loop.call_later(HOLD_S, self._charge)

    def _charge(self) -> None:
        """Charge the chunks in memory, and leave out the streams of other tenants."""
        snapshot, pins = self._snapshot, self._pins
        if snapshot is None or pins is None or self._released:
            return
        owned = {key: view for key, view in snapshot.streams.items() if key[0] == self._tenant}
        if len(owned) < len(snapshot.streams):
            by_id = {view.stream_id: view for view in owned.values()}
            self._snapshot = snapshot = replace(snapshot, streams=owned, by_id=by_id)
        parts = [(view.stream_id, [entry.data for entry in view.chunks]) for view in owned.values()]
        self._pin = pins.hold_all(parts, self._give_up, self._tenant)

    def _give_up(self, error: PSoupError) -> None:
        """End the snapshot, from any thread: it holds too much memory."""
        self._ended = ResourceExhausted(
            "the snapshot of this transaction keeps too many tuples that have left memory otherwise, so it is given up;"
            " end the transaction, and keep transactions short",
            reason="SNAPSHOT_TOO_OLD",
            **{name: value for name, value in error.facts.items() if name != "reason"},
        )
        self._loop.call_soon_threadsafe(self.release)


HELD: ContextVar[HeldSnapshot | None] = ContextVar("held_snapshot", default=None)
"""The held snapshot that the present call reads; None for the published one."""


def carried(take: Callable[[], SnapshotT], pins: Pins) -> Callable[[], SnapshotT]:
    """A function that returns the snapshot of the present call, on any thread. `take`: returns the published one."""
    moment = HELD.get()
    return take if moment is None else lambda: moment.snapshot(take, pins)
