"""The store without a disk: the same contract, and nothing survives the process.

    keep_pushes=True    every event, so that tests can replay a run into a fresh engine
    keep_pushes=False   the streams and queries that stand, and each stream's last heartbeat

A service uses the second form: tuples are in the engine, and a copy that is lost at a restart would only double the
memory. The store grows with the standing streams and queries, not with past events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np
from sortedcontainers import SortedDict

from psoup.admission.spans import meeting
from psoup.data.chunk import ChunkView
from psoup.errors import Internal, NotFound
from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.change import change_of
from psoup.events.events import (
    Attached,
    Event,
    Pushed,
    QueriesAltered,
    Registered,
    RegisteredMany,
    Replaced,
    StreamAltered,
    StreamCreated,
    StreamDropped,
    Unregistered,
    UnregisteredMany,
    WatermarkRaised,
    WatermarksRaised,
)
from psoup.events.groups import GroupChanged
from psoup.events.lists import ListEvent
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup.events.webhooks import WebhookChanged
from psoup.invariants import ensure
from psoup.model import StreamSpec
from psoup.plan.standing_query import StandingQuery
from psoup.sql.templates.block import BoundBlock
from psoup.values.columns import Array, Batch
from psoup_storage.alterations import LEAST, needed
from psoup_storage.contract import NO_COPY, InTurn, Spooled, new_incarnation

_EVENT_BYTES = 500
"""Bytes charged for the objects of an event, in addition to its texts and tuples."""

_GROUP = "group "
_WEBHOOK = "webhook of "
_ALTERED = "altered"
_Key = tuple[str, int]


class MemoryStore:
    """Keeps events in memory, in the order of their sequence, by the stream or query that they concern."""

    name = "memory"
    durable = False
    follows = False
    guarded = False
    copy_gate = NO_COPY
    promotion = 0

    def __init__(self, *, keep_pushes: bool = False) -> None:
        self._keep_all = keep_pushes
        self._kept: dict[_Key, Event] = {}
        self._blocks: SortedDict[int, Array] = SortedDict()
        """For each block, a bool per query: whether it has left. The key is the ID of the block's first query."""
        self._first_of: dict[int, int] = {}
        """The ID of each block's first query, by the sequence of its event. For readers: any thread may look one up."""
        self._most_alterations = LEAST
        """The number of changes of queries at which outdated ones are dropped."""
        self._last = 0
        self._bytes = 0
        self._broken = ""
        self._notes: dict[str, str] = {}
        self.incarnation = new_incarnation()

    @property
    def sequence(self) -> int:
        """The sequence of the last event appended."""
        return self._last

    @property
    def bytes(self) -> int:
        """Bytes of the kept texts and tuples, and an estimate for the rest."""
        return self._bytes

    @property
    def wal_bytes(self) -> int:
        """Return 0: there is no write-ahead log."""
        return 0

    def check_room(self, size: int) -> None:
        """Do nothing: there is always room here; admission has the memory budget."""

    def shortage(self) -> str:
        """Return "": there is always room here."""
        return ""

    disk_shortage = shortage

    def spool(self, batch: Batch, pace: Callable[[], int]) -> None:
        """Do nothing: no write takes long."""

    def make_ready(self, event: Event, spooled: Spooled | None = None) -> None:
        """Do nothing: an event is kept as it is."""

    def share(self, in_turn: InTurn) -> None:
        """Do nothing: `keep` writes nothing."""

    @property
    def due(self) -> bool:
        """Always False: this store postpones no work."""
        return False

    def settle(self) -> None:
        """Do nothing: this store postpones no work."""

    def append(self, events: Sequence[Event]) -> None:
        """Keep `events`; O(1) each. Raises Internal out of order, after a failure, and when closed."""
        if self._broken:
            raise Internal(f"the memory store takes no events: {self._broken}")
        last = self._last
        for event in events:
            if event.sequence <= last:
                self._broken = f"event {event.sequence} came after event {last}"
                raise Internal(f"the memory store takes no events: {self._broken}")
            last = event.sequence
        for event in events:
            self._keep(event)
        self._last = last

    def read(self, after: int = 0) -> Iterator[Event]:
        """The kept events with a sequence greater than `after`, in order."""
        return (self._as_it_stands(event) for event in self._kept.values() if event.sequence > after)

    def _as_it_stands(self, event: Event) -> Event:
        if not isinstance(event, RegisteredMany) or event.first_id not in self._blocks:
            return event
        return replace(event, gone=np.flatnonzero(self._blocks[event.first_id]).tolist())

    @property
    def registrations(self) -> MemoryStore:
        """The store itself. It keeps the statements of parked queries in memory."""
        return self

    def read_queries(self, sequence: int, query_ids: Array) -> Sequence[StandingQuery]:
        """The queries of an event that is in memory; see `psoup.published.parked_queries.Registrations`. O(k)."""
        first_of_block = self._first_of.get(sequence)
        key = ("query", int(query_ids[0])) if first_of_block is None else ("queries", first_of_block)
        event = self._kept.get(("event", sequence) if self._keep_all else key)
        if isinstance(event, Registered):
            return [event.query]
        if not isinstance(event, RegisteredMany) or event.sequence != sequence:
            raise NotFound("the query has just been unregistered", reason="UNKNOWN_QUERY", sequence=sequence)
        rows = query_ids - event.first_id
        queries = event.queries
        return queries.take(rows) if isinstance(queries, BoundBlock) else [queries[row] for row in rows.tolist()]

    def keep(self, stream: int, spec: StreamSpec, chunk: ChunkView, oldest: int) -> None:
        """Do nothing: the tuples are in memory already, and stay there."""

    def thin(self, stream: int, spec: StreamSpec, chunk: ChunkView) -> None:
        """Do nothing: this store has no chunks."""

    def note(self, name: str, text: str, *, sync: bool = False) -> None:
        """Store one line for the life of the process."""
        self._notes[name] = text

    def noted(self, name: str) -> str:
        """The last note under a name."""
        return self._notes.get(name, "")

    def close(self) -> None:
        """Accept no more events; stored events can still be read."""
        self._broken = self._broken or "it is closed"

    def check(self) -> None:
        """Raise Corrupt if the events are out of order or the bytes do not add up. O(events)."""
        sequences = [event.sequence for event in self._kept.values()]
        ensure(sequences == sorted(set(sequences)), self, "events are out of order", sequences=sequences)
        size = sum(map(_size, self._kept.values()))
        ensure(self._bytes == size, self, "bytes are miscounted", counted=self._bytes, held=size)

    def _keep(self, event: Event) -> None:
        if self._keep_all:
            self._put(("event", event.sequence), event)
            return
        match event:
            case StreamCreated():
                self._put(("stream", event.stream_id), event)
            case StreamAltered():
                created = self._kept["stream", event.stream_id]
                assert isinstance(created, StreamCreated)
                altered = replace(created, spec=event.spec, sql=event.sql)
                self._bytes += _size(altered) - _size(created)
                self._kept["stream", event.stream_id] = altered  # in the old place, before its queries
            case Registered():
                self._put(("query", event.query_id), event)
                self._leave(change_of(event).ended)
            case RegisteredMany():
                self._put(("queries", event.first_id), event)
                self._blocks[event.first_id] = np.zeros(len(event.queries), np.bool_)
                self._first_of[event.sequence] = event.first_id
                self._leave(sorted(change_of(event).ended))
            case WatermarkRaised() | WatermarksRaised():
                self._keep_watermarks(event)
            case StreamDropped():
                self._leave(event.query_ids.tolist())
                self._drop(("stream", event.stream_id))
                self._drop_parts(event.stream_id)
            case Unregistered():
                self._leave((event.query_id,))
            case UnregisteredMany():
                self._leave(event.query_ids.tolist())
            case QueriesAltered():
                self._put((_ALTERED, event.sequence), event)
                self._forget_alterations()
            case Pushed() | Attached() | Replaced():  # the engine has the tuples; history needs a data directory
                pass
            case _:
                self._keep_latest(event)

    def _keep_latest(self, event: ListEvent) -> None:
        """Keep the latest event of an entry of a list, or none after its drop."""
        dropped = False
        match event:
            case GroupChanged():
                key, dropped = (f"{_GROUP}{event.name}", event.stream_id), event.group is None
            case WebhookChanged():
                key, dropped = (f"{_WEBHOOK}{event.tenant}", event.webhook_id), event.webhook is None
            case TokenIssued():
                key = f"token {event.token.token_id}", 0
            case TokenRevoked():
                key, dropped = (f"token {event.token_id}", 0), True
            case TenantCreated() | TenantAltered():
                key = f"tenant {event.tenant.name}", 0
            case TenantDropped():
                key, dropped = (f"tenant {event.name}", 0), True
                for key in [key for key in self._kept if key[0] == f"{_WEBHOOK}{event.name}"]:
                    self._drop(key)
            case _:
                assert_never(event)
        self._drop(key)
        if not dropped:
            self._put(key, event)

    def _drop_parts(self, stream_id: int) -> None:
        """Drop the heartbeat and the groups of a stream."""
        self._drop(("watermark", stream_id))
        for key in [key for key in self._kept if key[0].startswith(_GROUP) and key[1] == stream_id]:
            self._drop(key)

    def _leave(self, query_ids: Sequence[int]) -> None:
        """Forget queries (ascending), and blocks whose last query has left."""
        for query_id in query_ids:
            if ("query", query_id) in self._kept:
                self._drop(("query", query_id))
        count_of: Callable[[Array], int] = len
        for first, gone, _ in meeting(query_ids, self._blocks, count_of):
            low, high = bisect_left(query_ids, first), bisect_left(query_ids, first + len(gone))
            gone[np.array(query_ids[low:high]) - first] = True
            if gone.all():
                del self._blocks[first], self._first_of[self._kept["queries", first].sequence]
                self._drop(("queries", first))

    def _forget_alterations(self) -> None:
        """Drop outdated changes of queries, whenever their number has doubled."""
        changes = [event for event in self._kept.values() if isinstance(event, QueriesAltered)]
        if len(changes) < self._most_alterations:
            return
        left = {event.sequence: event for event in needed(changes, self._registered)}
        for event in changes:
            key = (_ALTERED, event.sequence)
            if event.sequence in left:
                self._bytes += _size(left[event.sequence]) - _size(event)
                self._kept[key] = left[event.sequence]
            else:
                self._drop(key)
        self._most_alterations = max(LEAST, 2 * len(left))

    def _registered(self, query_ids: Array) -> Array:
        """Whether the store still has the registration of each query: bool[k]."""
        exists = np.array([("query", query_id) in self._kept for query_id in query_ids.tolist()], np.bool_)
        for first, gone in self._blocks.items():
            inside = np.flatnonzero((query_ids >= first) & (query_ids < first + len(gone)))
            exists[inside] = ~gone[query_ids[inside] - first]
        return exists

    def _keep_watermarks(self, event: WatermarkRaised | WatermarksRaised) -> None:
        """Keep an event in place of the last one of its kind: of the stream, or of the clock."""
        key = ("watermark", event.stream_id) if isinstance(event, WatermarkRaised) else ("watermarks", 0)
        self._drop(key)
        self._put(key, event)

    def _put(self, key: _Key, event: Event) -> None:
        self._kept[key] = event
        self._bytes += _size(event)

    def _drop(self, key: _Key) -> None:
        event = self._kept.pop(key, None)
        if event is not None:
            self._bytes -= _size(event)


def _size(event: Event) -> int:
    match event:
        case Pushed():
            return _EVENT_BYTES + event.batch.nbytes + 8 * event.refused.count
        case StreamCreated():
            return _EVENT_BYTES + len(event.sql)
        case Registered():
            return _EVENT_BYTES + len(event.query.text) + sum(map(len, (event.tag.key, *sum(event.tag.labels, ()))))
        case RegisteredMany():
            size = _EVENT_BYTES + (0 if event.tags is None else event.tags.nbytes)
            if isinstance(event.queries, BoundBlock):
                return size + event.queries.nbytes
            return size + sum(len(query.text) for query in event.queries)
        case QueriesAltered():
            return _EVENT_BYTES + event.query_ids.nbytes
        case WatermarksRaised():
            return _EVENT_BYTES + event.stream_ids.nbytes + event.watermarks.nbytes
        case GroupChanged():
            return _EVENT_BYTES + (0 if event.group is None else len(event.group.form) + len(event.group.positions))
        case WebhookChanged():
            return _EVENT_BYTES + event.nbytes
        case StreamAltered() | StreamDropped() | Attached() | WatermarkRaised() | Replaced():
            return _EVENT_BYTES
        case TenantCreated() | TenantAltered() | TenantDropped():
            return _EVENT_BYTES
        case Unregistered() | UnregisteredMany() | TokenIssued() | TokenRevoked():
            return _EVENT_BYTES
        case _:
            assert_never(event)
