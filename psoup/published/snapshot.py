"""The snapshot that the engine publishes: one immutable root from which every answer is computed.

    Snapshot ─ streams {(tenant, name): StreamView} ─ chunks: ChunkView + ChunkResults
             ├ queries {query ID: QueryRecord}      (the text, its bound form, its window clause)
             │         {side ID: QueryRecord}       (a join's selection of one of its streams; hidden from clients)
             ├ clauses {SQC ID: ClauseRecord}       (the factors, shared by queries)
             ├ tags    queries by their keys and labels
             ├ tokens, tenants    the valid access tokens by their IDs; the tenants by their names
             ├ groups of followers and webhooks, with their confirmed positions
             └ gone    reasons of removed queries

A reader takes the root once. It never waits for the writer, nor the writer for it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

import numpy as np

from psoup.aggregates.folds import FoldRoom
from psoup.aggregates.packs import PackRoom
from psoup.aggregates.turns import NO_TURNS, Turns
from psoup.clauses.quarantine import NONE_OUT, Outside
from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.sides import IndexView
from psoup.config import EngineConfig, GroupLimits
from psoup.data.archived_chunk import Chunk
from psoup.data.arrivals import ArrivalView
from psoup.data.key_room import KeyRoom
from psoup.data.newest_versions import TableKeys
from psoup.data.refusals import RefusedTimes
from psoup.data.rows_left import ALL_ROWS, RowsLeft
from psoup.data.versions import EVER, LATEST, NOTHING_LOST
from psoup.data.windows import Timeline
from psoup.errors import InvalidInput, NotFound
from psoup.events.access import AccessToken
from psoup.events.groups import FollowerGroup, GroupKey
from psoup.events.tenants import FIRST_TENANT, GroupQuota, Tenant, no_tenant
from psoup.events.webhooks import Webhook
from psoup.invariants import corrupt
from psoup.joins.pairs_store import NO_PAIRS, KeptPairs
from psoup.model import StreamSpec
from psoup.phrases import statement_start
from psoup.plan.inputs import Source
from psoup.plan.sides import FIRST_SIDE, side_id
from psoup.published.answer_room import AnswerRoom
from psoup.published.automatic import AutomaticAmounts
from psoup.published.departures import NOT_KNOWN, WhyGone
from psoup.published.eager_queries import EagerQueries
from psoup.published.followed_places import FollowedPlaces
from psoup.published.lifetimes import Lifetimes
from psoup.published.match_room import MatchRoom
from psoup.published.paged_map import PagedMap
from psoup.published.reader_notes import NoteKind, ReaderNotes
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.room_waits import RoomWaits
from psoup.published.tags import PublishedTags
from psoup.results.chunk_results import ChunkResults
from psoup.results.offers import OfferBox
from psoup.sql.source import nearest
from psoup.values.columns import Array
from psoup.work.runner import Runner, serial

Side = Literal["left", "right"]

_NAME_COMPARED = 256
"""The most characters of a name that are compared for a suggestion."""
_NAMES_COMPARED = 64
"""The most names that are compared for a suggestion; it takes some milliseconds at most."""


@dataclass(frozen=True, slots=True)
class ChunkEntry:
    """The tuples of a chunk, and its results at the time of the snapshot."""

    data: Chunk
    results: ChunkResults


@dataclass(frozen=True, slots=True)
class StreamView:
    """A published stream. `created`: microseconds. `late`, `ahead`: the refused tuples. `nbytes`: of the tuples in
    memory.

    The oldest `archived` of the `chunks` are on disk, where they take `archived_bytes`; the last chunk is open.
    """

    stream_id: int
    tenant: str
    spec: StreamSpec
    sql: str
    created: int
    watermark: int | None
    heard: int | None
    """The clock's time of the last push, heartbeat or batch of a job. None before the first one."""
    live: bool
    """Whether the watermark follows the clock: the last rows of a stream with WATERMARK BY CLOCK were recent."""
    last_time: int | None
    first_time: int | None
    dropped_time: int | None
    chunks: tuple[ChunkEntry, ...]
    archived: int
    archived_bytes: int
    waiting: tuple[Array, ...]
    """The times of tuples that wait for the watermark, in ascending runs."""
    arrivals: ArrivalView
    """The tuple IDs of the rows of recent pushes."""
    late: RefusedTimes
    ahead: RefusedTimes
    nbytes: int
    queries: int
    index: QuerySteM
    """The writer's index. It may be newer than the snapshot, so only figures are read from it (`costs`, `bill`)."""
    clauses: IndexView
    """The clauses in the index at the time of the snapshot."""
    room: MatchRoom
    """Scratch memory that a reader who matches rows leaves for the next one."""
    keys: KeyRoom
    """The key indexes of all streams, which readers make."""
    folds: FoldRoom
    """The folds of all streams, which readers make."""
    packs: PackRoom
    """The packs of folds of many clauses, of all streams, which readers make."""
    offers: OfferBox
    """The box of all streams into which readers put results that they offer to the writer."""
    outside: Outside = NONE_OUT
    """The clauses in quarantine, with the reasons."""
    at: int = LATEST
    """The time whose versions a reader of a table sees: LATEST for the present ones, or EVER for all of them."""
    turns: Turns = NO_TURNS
    """The thinnings of the stream, as folds and packs know them. `thinned`: whether a chunk is thinned."""
    thinned: bool = False
    left: RowsLeft = ALL_ROWS
    """The rows that have not left their chunks, as windows and retention by rows count them."""
    table_keys: TableKeys | None = None
    """The keys of a table. None in a stream."""
    lost_before: int = NOTHING_LOST
    """A reader of a table does not see the versions that ended before this time, because of HISTORY."""
    notes: ReaderNotes = field(init=False, default_factory=ReaderNotes, compare=False, repr=False)
    """Notes of readers about the chunks; see `psoup.execution.join.located_side`."""

    @property
    def first_id(self) -> int:
        """The oldest kept tuple ID."""
        return self.chunks[0].data.first_id

    @property
    def hot_id(self) -> int:
        """The oldest tuple ID in memory."""
        return self.chunks[self.archived].data.first_id

    @property
    def next_id(self) -> int:
        """The tuple ID after the newest."""
        return self.chunks[-1].data.end_id

    @property
    def pending(self) -> int:
        """The number of tuples that wait for the watermark."""
        return sum(map(len, self.waiting))

    def now(self, clock: int) -> int | None:
        """NOW of the stream's time domain. Returns None while a stream in event time has no watermark."""
        if self.spec.time_attribute is not None:
            return self.watermark
        return clock if self.last_time is None else max(clock, self.last_time)

    def as_of(self, time: int, lost_before: int = NOTHING_LOST) -> StreamView:
        """The view of a reader that sees the versions of a table that hold at `time`. The view itself for a stream.

        `lost_before`: the reader does not see the versions that ended before this time.
        """
        same = self.spec.table is None or (time, lost_before) == (self.at, self.lost_before)
        return self if same else replace(self, at=time, lost_before=lost_before)

    def for_source(self, source: Source) -> StreamView:
        """The view of a reader of a source in FROM: a table AS OF a stream has all its versions."""
        return self if source.as_of is None else self.as_of(EVER)

    def idle(self, clock: int) -> bool:
        """Whether the stream was silent for longer than its IDLE AFTER. False if the stream has no IDLE AFTER. O(1)."""
        after = self.spec.idle_after
        return after is not None and clock - (self.created if self.heard is None else self.heard) > after

    def timeline(self) -> Timeline:
        """The mapping from times to tuple IDs."""
        positions = self._before, self._through, self._time_of, self._after
        return Timeline(self.first_id, self.next_id, self.dropped_time, self.first_time, *positions, self.left)

    def chunk_of(self, tuple_id: int) -> ChunkEntry:
        """The chunk with `tuple_id`, which must be kept. O(log chunks)."""
        at = bisect_right(self.chunks, tuple_id, key=lambda entry: entry.data.first_id) - 1
        return self.chunks[at]

    def _before(self, time: int) -> int:
        return self._search(time, "left")

    def _through(self, time: int) -> int:
        if self.last_time is not None and time >= self.last_time:  # the usual case: NOW
            return self.next_id
        return self._search(time, "right")

    def _after(self, time: int) -> int:
        chunk = self._chunk_at(time, "left")
        return self.next_id if chunk is None else chunk.first_id if time <= chunk.first_time else chunk.end_id

    def _search(self, time: int, side: Side) -> int:
        chunk = self._chunk_at(time, side)
        if chunk is None:
            return self.next_id
        if time < chunk.first_time or (side == "left" and time == chunk.first_time):  # no archived chunk is read
            return chunk.first_id
        row = int(np.searchsorted(chunk.times, time, side=side))
        return chunk.places.id_of(row) if row < len(chunk) else chunk.end_id

    def _chunk_at(self, time: int, side: Side) -> Chunk | None:
        """The first chunk with a time at or after `time` (`side` "left"), or with a time after it ("right")."""
        find = bisect_left if side == "left" else bisect_right
        filled = len(self.chunks) - (not len(self.chunks[-1].data))
        at = find(self.chunks, time, 0, filled, key=lambda entry: entry.data.last_time)
        return None if at == filled else self.chunks[at].data

    def _time_of(self, tuple_id: int) -> int:
        chunk = self.chunk_of(tuple_id).data
        if chunk.places.left is None and tuple_id == chunk.first_id:
            return chunk.first_time
        if chunk.places.left is None and tuple_id == chunk.end_id - 1:
            return chunk.last_time
        return int(chunk.times[chunk.places.row_from(tuple_id)])


_SOURCES = NoteKind[int, list[tuple[StreamView, ClauseRecord]]](1_024)
"""The sources of joins, by query ID."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """The published root, after the event `sequence`."""

    sequence: int
    streams: Mapping[tuple[str, str], StreamView]
    by_id: Mapping[int, StreamView]
    queries: PagedMap[QueryRecord]
    clauses: PagedMap[ClauseRecord]
    tags: PublishedTags
    gone: Mapping[str, WhyGone]
    """Reasons of removed queries, by tenant."""
    config: EngineConfig
    run: Runner = serial
    """The runner of tasks: it lets a reader use further threads besides its own."""
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    """The queries that expire; readers record their use here. It belongs to the writer, and is not frozen."""
    sides: int = 0
    """The number of `queries` that are sides of joins."""
    pairs: KeptPairs = NO_PAIRS
    """The pairs of joins that the engine maintains."""
    tokens: Mapping[str, AccessToken] = field(default_factory=dict)
    tenants: Mapping[str, Tenant] = field(default_factory=lambda: {FIRST_TENANT.name: FIRST_TENANT})
    groups: Mapping[GroupKey, FollowerGroup] = field(default_factory=dict)
    """The groups of followers."""
    webhooks: Mapping[int, Webhook] = field(default_factory=dict)
    """The webhooks, by their IDs."""
    followed: FollowedPlaces = field(default_factory=lambda: FollowedPlaces(0))
    """The places of the followers of tables. Readers note them here; it is not frozen."""
    answers: AnswerRoom = field(default_factory=lambda: AnswerRoom(0))
    """The kept answers of COMPLETE queries. Readers put them here; it is not frozen."""
    automatic: AutomaticAmounts = field(default_factory=AutomaticAmounts)
    """The AUTO queries. Readers note invocations here; it is not frozen."""
    waits: RoomWaits = field(default_factory=RoomWaits)
    """The derived streams that wait for room in memory. Pumps note them here; it is not frozen."""
    alterations: int = 0
    """The number of changes of how queries are kept, or of the clauses of idle ones."""
    eager: EagerQueries = field(default_factory=EagerQueries)
    """The eager queries. Readers note here that one was asked. It belongs to the writer, and is not frozen."""
    notes: ReaderNotes = field(init=False, default_factory=ReaderNotes, compare=False, repr=False)
    """Notes of readers about joins; see `sources_of` and `psoup.answer.join_ranges`."""

    @property
    def count(self) -> int:
        """The number of queries, as clients count them. O(blocks)."""
        return len(self.queries) - self.sides

    def groups_of(self, tenant: str) -> GroupLimits:
        """The limits of the groups of a tenant's answer: the engine's, and the tenant's quota. O(1)."""
        owner, groups = self.tenants.get(tenant), self.config.groups
        if owner is None or not 0 < owner.quotas.group_keys < groups.keys:
            return groups
        return GroupLimits(GroupQuota.of(owner), groups.rows)

    def tenant(self, name: str) -> Tenant:
        """The tenant of this name; raises NotFound."""
        tenant = self.tenants.get(name)
        if tenant is None:
            raise no_tenant(name)
        return tenant

    def stream(self, name: str, tenant: str) -> StreamView:
        """The stream of this name, in upper or lower case. Raises NotFound, which suggests the most similar name."""
        view = self.streams.get((tenant, name.lower()))
        if view is None:
            name = name[:_NAME_COMPARED]
            hint = nearest(name, self.names(tenant)) or "create it with CREATE STREAM or CREATE TABLE"
            raise NotFound(f"there is no stream or table {name!r}; {hint}", reason="UNKNOWN_STREAM", stream=name)
        return view

    def names(self, tenant: str) -> list[str]:
        """The names of at most `_NAMES_COMPARED` streams of a tenant, for suggestions."""
        owned = (view.spec.name for (owner, _), view in self.streams.items() if owner == tenant)
        return list(islice(owned, _NAMES_COMPARED))

    def query(self, query_id: int, tenant: str) -> QueryRecord:
        """The query with this ID. Records its use. Raises NotFound if it is unknown, removed or another tenant's."""
        record = self.queries.get(query_id) if 0 <= query_id < FIRST_SIDE else None
        if record is None or record.tenant != tenant:
            raise self.gone.get(tenant, NOT_KNOWN).error(query_id)
        self._used(record)
        return record

    def _used(self, record: QueryRecord) -> None:
        if record.expires:
            self.lifetimes.note(record.query_id)
        if not record.keeping.active:
            self.lifetimes.asked.note(record.query_id)

    def selection(self, query_id: int, tenant: str) -> QueryRecord:
        """The query with this ID, which must be over one stream. Raises as `query`, and InvalidInput for a join."""
        return self._of_one_stream(self.query(query_id, tenant))

    def selection_with(self, key: str, tenant: str) -> QueryRecord:
        """The query with this key, over one stream. Raises as `query_with`, and InvalidInput for a join."""
        return self._of_one_stream(self.query_with(key, tenant))

    def _of_one_stream(self, record: QueryRecord) -> QueryRecord:
        if record.sqc_id != NO_CLAUSE:
            return record
        names = ", ".join(self.by_id[stream_id].spec.name for stream_id in self.streams_of(record))
        raise InvalidInput(
            f"{statement_start(record.query.text)!r} is a join ({names}); this call takes queries over one stream only",
            reason="JOIN_QUERY",
            query=record.query_id,
        )

    def side(self, query_id: int, place: int) -> QueryRecord:
        """The side of a registered join, at a place in FROM."""
        record = self.queries.get(side_id(query_id, place))
        if record is None:
            raise corrupt(self, "a join has no side", query=query_id, place=place)
        return record

    def sides_of(self, record: QueryRecord) -> list[QueryRecord]:
        """The sides of a join, in the order of FROM. For any other query, a list of the query itself."""
        if record.sqc_id != NO_CLAUSE:
            return [record]
        return [self.side(record.query_id, place) for place in range(len(record.side_ids))]

    def views_of(self, record: QueryRecord) -> list[StreamView]:
        """The view of each source of a query, in the order of FROM. A table AS OF a stream has all its versions."""
        sources = zip(self.sides_of(record), record.query.sources, strict=True)
        return [self.by_id[side.stream_id].for_source(source) for side, source in sources]

    def sources_of(self, record: QueryRecord) -> list[tuple[StreamView, ClauseRecord]]:
        """The stream of each source of a join, and the clause of its side. O(1) from the second call."""
        table = self.notes.table(_SOURCES)
        sources = table.get(record.query_id)
        if sources is None:
            views, sides = self.views_of(record), self.sides_of(record)
            sources = [(view, self.clause(side.sqc_id)) for view, side in zip(views, sides, strict=True)]
            table.note(record.query_id, sources)
        return sources

    def streams_of(self, record: QueryRecord) -> list[int]:
        """The stream IDs of a query, each once."""
        if record.sqc_id != NO_CLAUSE:
            return [record.stream_id]
        return list(dict.fromkeys(side.stream_id for side in self.sides_of(record)))

    def query_with(self, key: str, tenant: str) -> QueryRecord:
        """The query with this key. Records its use. Raises NotFound if there is none."""
        record = self.queries.get(max(self.tags.query_of(tenant, key), 0))
        if record is None or record.tenant != tenant or record.tag.key != key:
            raise NotFound(
                f"there is no query with key {key[:_NAME_COMPARED]!r}; it was never registered, or it was unregistered",
                reason="UNKNOWN_KEY",
                key=key[:_NAME_COMPARED],
            )
        self._used(record)
        return record

    def clause(self, sqc_id: int) -> ClauseRecord:
        """The clause of a query of this snapshot."""
        record = self.clauses.get(sqc_id)
        if record is None:
            raise corrupt(self, "a query has no clause", clause=sqc_id)
        return record
