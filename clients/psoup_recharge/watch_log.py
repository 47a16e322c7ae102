"""The history of a connected store: changes by Watch are written to it every few minutes.

    change change        change        change     the connection ends
    '──── ten minutes: one line ────'  '──────── another line ────────'

A process that is killed loses the last line, and no row.
"""

from __future__ import annotations

import time
from contextlib import suppress

from psoup_recharge.rounds import CopyStore, Recharge, Recharged, after
from psoup_recharge.sqlite import StoreError

NOTE_S = 600.0
"""Seconds that one line of the history covers."""
WATCH = "watch"
"""The reason of such a line in `Store.recharges`."""


class WatchLog:
    """Changes that came while connected and are not in the history yet. `sent`, `received`: bytes in all."""

    def __init__(self, store: CopyStore) -> None:
        self._store = store
        self._copies = dict[str, Recharged]()
        self._since = time.monotonic()
        self._sent = 0
        self._received = 0

    def add(self, copy: Recharged) -> Recharged:
        """Take in what became of a copy, and give it back."""
        earlier = self._copies.get(copy.name)
        self._copies[copy.name] = copy if earlier is None else after(earlier, copy)
        return copy

    def look(self, sent: int, received: int) -> None:
        """Write a line, if it is time for one."""
        if time.monotonic() - self._since >= NOTE_S:
            self.note(sent, received)

    def note(self, sent: int, received: int) -> None:
        """Write a line, if something has come, and a line for each copy that has changed."""
        if self._copies:
            seconds, copies = time.monotonic() - self._since, tuple(self._copies.values())
            report = Recharge(copies, received - self._received, seconds, why=WATCH)
            with suppress(StoreError):  # the store was closed meanwhile, say; what has come is in it
                self._store.note(report, sent - self._sent)
        self._copies = {}
        self._since = time.monotonic()
        self._sent = sent
        self._received = received
