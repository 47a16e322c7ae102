"""Events that are encoded before they are appended, while earlier events go to the disk.

    spool         large pushes: their tuples are on the disk before they are decided      (`spool`)
    make          what can fail is done while it costs one command                        (`codec`)
    of            the rows, at `append`: made before, or now if it is a small push

So the content of an event cannot fail a store.
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
"""Most bytes of a push that is encoded at `append`, while the sequencer prepares the next one. There is always memory
for it, and its content always fits the log. Encoding it earlier would take the sequencer as long as the decision.
"""


class ReadyRows:
    """Rows of events that are not appended yet."""

    def __init__(self, database: Database) -> None:
        """Raises what a transaction raises: spools of a process before go."""
        self.spools = Spools(database)
        self.in_turn: InTurn = at_once
        self._rows: dict[int, LogRow] = {}
        """By sequence."""

    def spool(self, batch: Batch, pace: Callable[[], int]) -> Spooled | None:
        """Write the tuples of a large push, some at a time; see `Store`. Raises as `append`."""
        return self.spools.write(batch, self.in_turn, pace) if batch.nbytes > SMALL_PUSH else None

    def make(self, event: Event, spooled: Spooled | None = None) -> None:
        """Encode an event, unless it is a small push: its columns are checked already. O(bytes) that were not spooled.

        `spooled`: of no use if the event has other columns.
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
