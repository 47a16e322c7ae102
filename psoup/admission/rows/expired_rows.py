"""Deletions of expired rows: the decision about the rows that a look at the tables has found (EXPIRES BY).

    reader      look at a snapshot ──> IDs of versions that have expired
    sequencer                          still open in the present snapshot? ── pushed since that snapshot? ──> deletions
                                                                              yes: the row stays for now

The event is a push of deletions. So the log, copies, followers and a replay need nothing new, and a replay looks at no
clock. Admission knows no tuples. It reads the versions from the published snapshot, which lags behind it. A key
of a push that is not published yet is left out. It may have a later time of expiry, and the next look finds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.admission.budget import MemoryBudget
from psoup.admission.catalog import KnownStream
from psoup.admission.rows.push_times import NONE_REFUSED, in_system_time
from psoup.data.newest_versions import key_lanes
from psoup.events.acknowledgements import Prepared, PushAcknowledgement
from psoup.events.commands import ExpireRows
from psoup.events.events import Event, Pushed
from psoup.model import DELETED_AT, TableSpec
from psoup.published.expired_rows import still_expired
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array, Column, concat_columns, null_column


@dataclass(frozen=True, slots=True)
class _ComingKeys:
    """The keys of a push that may not be published. `hashes`: uint64[rows]. They need less memory than the rows."""

    sequence: int
    stream_id: int
    hashes: Array


class ExpiringTables:
    """The pushes to tables with EXPIRES BY that the writer has not published. Part of admission's state."""

    def __init__(self, streams: Mapping[int, KnownStream], budget: MemoryBudget) -> None:
        self._streams = streams
        self._budget = budget
        self._published: Callable[[], Snapshot] | None = None
        self._coming: deque[_ComingKeys] = deque()

    def share(self, published: Callable[[], Snapshot]) -> None:
        """Read versions from the snapshots that `published` returns. Before that, no row expires."""
        self._published = published

    def note(self, event: Event) -> None:
        """Keep the keys of a push to a table with EXPIRES BY until it is published. O(rows)."""
        if not isinstance(event, Pushed) or self._published is None:
            return
        table = self._streams[event.stream_id].spec.table
        if table is not None and table.expires is not None:
            self._forget(self._published().sequence)
            hashes = _hashes([event.batch.columns[place] for place in table.key])
            self._coming.append(_ComingKeys(event.sequence, event.stream_id, hashes))

    def _forget(self, sequence: int) -> None:
        while self._coming and self._coming[0].sequence <= sequence:
            self._coming.popleft()

    def decide(self, command: ExpireRows, sequence: int, now: int) -> Prepared:
        """Delete the rows that have expired by `now`. `sequence`: the last event. No event without such rows.

        Raises ResourceExhausted if the deletions do not fit into the memory budget. O(IDs + rows that are not
        published).
        """
        nothing = Prepared(PushAcknowledgement(sequence, duplicate=True))
        stream, snapshot = self._streams.get(command.stream_id), self._snapshot()
        view = None if snapshot is None else snapshot.by_id.get(command.stream_id)
        if stream is None or stream.spec.table is None or snapshot is None or view is None:
            return nothing
        self._forget(snapshot.sequence)
        parts = [
            [data.columns[place].take(rows) for place in stream.spec.table.key]
            for data, rows in still_expired(view, stream.spec, command.ids, now)
        ]
        keys = [concat_columns(columns) for columns in zip(*parts, strict=True)]
        keys = self._without_coming(stream, keys) if keys else keys
        if not keys or not len(keys[0]):
            return nothing
        columns = _deletions(stream, stream.spec.table, keys)
        batch, watermark = in_system_time(columns, len(keys[0]), stream.least_stamp, now)
        self._budget.check_batch(stream.spec, batch.nbytes)
        event = Pushed(sequence + 1, stream.tenant, stream.stream_id, batch, NONE_REFUSED, watermark, now)
        return Prepared(PushAcknowledgement(event.sequence, accepted=len(batch), watermark=watermark), event)

    def _snapshot(self) -> Snapshot | None:
        return None if self._published is None else self._published()

    def _without_coming(self, stream: KnownStream, keys: Sequence[Column]) -> list[Column]:
        """The keys that no push has which is not published."""
        coming = [push.hashes for push in self._coming if push.stream_id == stream.stream_id]
        if not coming:
            return [*keys]
        rows = np.flatnonzero(~np.isin(_hashes(keys), np.concatenate(coming)))
        return [column.take(rows) for column in keys]


def _hashes(keys: Sequence[Column]) -> Array:
    """A hash of each key: uint64[rows]. A row that stays because of equal hashes expires at a later look."""
    return np.ascontiguousarray(key_lanes(keys)[:, 0])


def _deletions(stream: KnownStream, table: TableSpec, keys: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of the deletions of some keys."""
    rows, by_place = len(keys[0]), dict(zip(table.key, keys, strict=True))
    attributes = stream.spec.schema.attributes
    columns = [
        by_place[place] if place in by_place else null_column(a.type, rows) for place, a in enumerate(attributes)
    ]
    columns[DELETED_AT] = Column(attributes[DELETED_AT].type, np.ones(rows, np.bool_))
    return tuple(columns)
