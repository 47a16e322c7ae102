"""The history of a connected store: a line every few minutes for the changes that arrived by Watch.

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
"""The seconds that one line of the history covers."""
WATCH = "watch"
"""The reason that such a line has in `Store.recharges`."""


class WatchLog:
    """The changes that arrived by Watch and are not in the history yet."""

    def __init__(self, store: CopyStore) -> None:
        self._store = store
        self._copies = dict[str, Recharged]()
        self._since = time.monotonic()
        self._sent = 0
        self._received = 0

    def add(self, copy: Recharged) -> Recharged:
        """Add the outcome for a copy to its earlier ones, and return it."""
        earlier = self._copies.get(copy.name)
        self._copies[copy.name] = copy if earlier is None else after(earlier, copy)
        return copy

    def look(self, sent: int, received: int) -> None:
        """Write the lines if NOTE_S seconds have passed.

        `sent` and `received` count the bytes of the whole connection.
        """
        if time.monotonic() - self._since >= NOTE_S:
            self.note(sent, received)

    def note(self, sent: int, received: int) -> None:
        """Write a line for each copy that has changed, and one line of `recharges`.

        Without changes nothing is written.
        """
        if self._copies:
            seconds, copies = time.monotonic() - self._since, tuple(self._copies.values())
            report = Recharge(copies, received - self._received, seconds, why=WATCH)
            with suppress(StoreError):  # the store may be closed by now; it has the rows already
                self._store.note(report, sent - self._sent)
        self._copies = {}
        self._since = time.monotonic()
        self._sent = sent
        self._received = received
