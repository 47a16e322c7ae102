"""Events that are encoded before they are appended, while earlier events go to the disk.

    spool         large pushes: their tuples are on the disk before they are decided      (`spool`)
    make          encodes an event before it counts, so that an error refuses one command (`codec`)
    of            returns the rows for `append`; encodes small pushes only now

So the content of an event cannot make `append` fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psoup.events.events import Event, Pushed
from psoup.values.columns import Batch
from psoup_storage.contract import InTurn, Spooled, at_once
from psoup_storage.durable.log.codec import encode
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.log.spool import Spools
from psoup_storage.durable.sqlite.database import Database

SMALL_PUSH = 1024 * 1024
"""The most bytes of a push that `append` encodes, while the sequencer prepares the next push.

There is always memory for such a push, and its content always fits the log. If the sequencer encoded it, its time for
the push would double.
"""


class ReadyRows:
    """Rows of events that are not appended yet."""

    def __init__(self, database: Database) -> None:
        """Remove the spools that an earlier process left. Raises the errors of a transaction."""
        self.spools = Spools(database)
        self.in_turn: InTurn = at_once
        self._rows: dict[int, LogRow] = {}
        """The encoded rows, by sequence."""

    def spool(self, batch: Batch, pace: Callable[[], int]) -> Spooled | None:
        """Write the tuples of a large push, some at a time; see `Store`. Raises as `append`."""
        return self.spools.write(batch, self.in_turn, pace) if batch.nbytes > SMALL_PUSH else None

    def make(self, event: Event, spooled: Spooled | None = None) -> None:
        """Encode an event, unless it is a small push, whose columns are checked already. O(bytes not spooled).

        `spooled`: ignored if the event has other columns.
        """
        if isinstance(event, Pushed):
            if spooled is not None and event.batch.columns is spooled.columns:
                self._rows[event.sequence] = encode(event, spooled)
                self.spools.name(spooled.key)
                return
            if event.batch.nbytes <= SMALL_PUSH:
                return
        self._rows[event.sequence] = encode(event)

    def of(self, events: Sequence[Event]) -> list[LogRow]:
        """The rows of events. O(bytes) of those that are not ready."""
        return [self._rows.get(event.sequence) or encode(event) for event in events]

    def appended(self, events: Sequence[Event]) -> None:
        """Forget the rows of events that are in the log."""
        for event in events:
            self._rows.pop(event.sequence, None)
