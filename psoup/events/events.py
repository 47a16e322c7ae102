"""Events: accepted commands, each with its sequence and with all data that `apply` needs.

Admission decides about a command once. A replay applies the logged events, and decides nothing again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.stored_chunk import Stored
from psoup.events.commands import Extent, SharedBatch
from psoup.events.lists import ListEvent
from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.model import StreamSpec
from psoup.plan.amounts import AS_USUAL, Keeping, KeepingChange, with_places_of
from psoup.plan.standing_query import Parameter, StandingQuery
from psoup.values.columns import Array, Batch


def no_queries() -> Array:
    """An empty array of query IDs."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class StreamCreated:
    """A stream exists from this event on. `stored`: in a replay, the part of the stream that is in files."""

    sequence: int
    tenant: str
    stream_id: int
    spec: StreamSpec
    sql: str
    time: int
    stored: Stored | None = None


@dataclass(frozen=True, slots=True)
class StreamAltered:
    """A stream has new columns from this event on, with NULL in its old tuples, or another option.

    `spec` and `sql` define the whole stream. `added` is the statement of the change.
    """

    sequence: int
    tenant: str
    stream_id: int
    spec: StreamSpec
    sql: str
    added: str
    time: int


@dataclass(frozen=True, slots=True)
class StreamDropped:
    """A stream is dropped with its tuples, its producers, and the queries on it: `query_ids` (int64[k]).

    A replay has only queries that the log still registers.
    """

    sequence: int
    tenant: str
    stream_id: int
    query_ids: Array = field(default_factory=no_queries)


@dataclass(frozen=True, slots=True)
class RefusedTuples:
    """The times (int64[k], microseconds) of the tuples of a batch that were refused as late, and as too far ahead."""

    late: Array
    ahead: Array

    @property
    def count(self) -> int:
        """The number of refused tuples."""
        return len(self.late) + len(self.ahead)


@dataclass(frozen=True, slots=True)
class Pushed:
    """Accepted tuples with their physical IDs, in the order in which the client sent them.

    `watermark`: the stream's watermark after the event, None while the stream has no tuple. `time`: the clock at
    prepare. `stored`: in a replay, the number of tuples that are in stored chunks and not in `batch`. `forgotten`: a
    sequence, or 0. Producers whose last batch is not after it are forgotten. `before`: the number of rows that the
    producer had sent in its epoch before this batch, None if not known. `live`: whether the stream is live after the
    event, so that its watermark may follow the clock (`psoup.admission.clock_heartbeats`). `source`: the producer's
    source position after the event, b"" without one. A batch without one repeats the recorded one, so that the log may
    forget earlier batches. `given`: the positions of the columns that the batch gives, if it has patches of a table
    (`psoup.data.patches`); else empty. `room`: the bytes that are reserved for the texts that patches keep, until the
    patches are released (`psoup.admission.rows.patch_room`). `floor`: the watermark before the event, if rows of a
    table lie below it; else None. These rows are first versions of their keys, and have the physical ID `floor`.
    `shared`: if the tuples are of several batches of the producer, these batches, with the numbers from `number` on.
    None of their tuples was refused. `digest` is the digest of the first one.
    """

    sequence: int
    tenant: str
    stream_id: int
    batch: Batch
    refused: RefusedTuples
    watermark: int | None
    time: int
    producer: str = ""
    epoch: int = 0
    number: int = 0
    digest: bytes = b""
    stored: int = 0
    forgotten: int = 0
    before: int | None = None
    live: bool = False
    source: bytes = b""
    given: tuple[int, ...] = ()
    room: int = 0
    floor: int | None = None
    shared: tuple[SharedBatch, ...] = ()

    @property
    def batches(self) -> tuple[SharedBatch, ...]:
        """The producer's batches, with the numbers of their accepted tuples."""
        return self.shared or (SharedBatch(self.digest, self.accepted),)

    @property
    def accepted(self) -> int:
        """The number of accepted tuples."""
        return len(self.batch) + self.stored

    @property
    def charged(self) -> int:
        """The bytes that the memory budget charges for the event."""
        return self.batch.nbytes + self.room if len(self.batch) else 0


@dataclass(frozen=True, slots=True)
class Attached:
    """History, or a `batch`, is part of the stream from this event on.

    `watermark`: the stream's watermark after the event. `time`: the clock at prepare. `chunks`: their numbers and IDs
    are less than all earlier ones, or for a batch greater. A replay has no chunks here, because the store has them.

    `pin`: the store keeps the stream's tuples from this time on, whatever their retention, because derived streams need
    them. None if they need none, and in a replay.
    """

    sequence: int
    tenant: str
    stream_id: int
    job: str
    extent: Extent
    watermark: int | None
    time: int
    chunks: tuple[ArchivedChunk, ...] = ()
    batch: int | None = None
    pin: int | None = None


@dataclass(frozen=True, slots=True)
class WatermarkRaised:
    """A heartbeat has moved the watermark. `live`: as in `Pushed`; a heartbeat does not change it."""

    sequence: int
    tenant: str
    stream_id: int
    watermark: int
    time: int
    live: bool = False


@dataclass(frozen=True, slots=True)
class WatermarksRaised:
    """The clock has moved the watermarks of some live streams, of any tenants.

    `stream_ids`, `watermarks`: int64[k] each. They list every stream whose watermark an event of this kind has moved,
    and that is not dropped. So the last such event replaces all earlier ones. A replay may lack some of the streams.
    `time`: the clock at prepare.
    """

    sequence: int
    stream_ids: Array
    watermarks: Array
    time: int

    def of_streams(self) -> list[tuple[int, int]]:
        """The ID and the watermark of each stream."""
        return list(zip(self.stream_ids.tolist(), self.watermarks.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Registered:
    """A query is registered. `replaced`: the ID of the query that it replaces, or 0. A replay may have removed that
    query earlier."""

    sequence: int
    tenant: str
    stream_id: int
    query_id: int
    query: StandingQuery
    request_id: str
    time: int
    tag: Tag = NO_TAG
    replaced: int = 0
    expires: int = 0
    """The days without an invocation after which the query is unregistered. 0: never."""
    side_streams: tuple[int, ...] = ()
    """For a join, the stream ID of each side. `stream_id` is the first of them."""
    keep_pairs: bool = False
    """Whether to keep the pairs of its join (`psoup.joins.pairs_store`)."""
    next_id: int = 0
    """The ID of the next tuple of its stream: the first for which followers are told the query. 0 in events of older
    versions."""
    keeping: Keeping = AS_USUAL
    charge: int = 0
    """In a replay of a query that is parked, the bytes that admission charges for it. `query` has only its text then.
    """


@dataclass(frozen=True, slots=True)
class RegisteredMany:
    """Several queries are registered, with the IDs first_id, first_id + 1, and so on.

    `stream_ids`: the stream of each query, or one stream for all. `digest` identifies the call, for retries.
    `template`: the statement with parameters that all queries come from, or "". `rows`: the values of its parameters,
    as the short form of `queries` for a log. They are () if `queries` is a `BoundBlock`, which has the values. `gone`:
    in a replay, positions of queries that were unregistered later. `replaced`: the query that each query replaces, or
    -1 (int64[n]). Replaced queries are removed.
    """

    sequence: int
    tenant: str
    first_id: int
    stream_ids: Sequence[int]
    queries: Sequence[StandingQuery]
    request_id: str
    digest: bytes
    time: int
    template: str = ""
    rows: Sequence[Sequence[Parameter]] = ()
    gone: Sequence[int] = ()
    tags: TagColumns | None = None
    replaced: Array | None = None
    expires: int = 0
    """The days of each query, as in `Registered`."""
    side_streams: Sequence[tuple[int, ...]] = ()
    """The stream IDs of the sides of each query, or one tuple for all queries. () for a query over one stream."""
    keep_pairs: bool = False
    """Whether to keep the pairs of all joins, as in `Registered`."""
    next_ids: tuple[tuple[int, int], ...] = ()
    """The ID of the next tuple of each stream, as in `Registered`: pairs of stream ID and tuple ID."""
    keeping: Keeping = AS_USUAL
    """The keeping of each query."""
    parked: Sequence[int] = ()
    """In a replay, the positions of queries that a later event parks, ascending. They are parked from the start."""
    charge: int = 0
    """In a replay of queries that are all parked, the bytes that admission charges for each."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Queries that replaced earlier queries, and were removed later: `later` replaced those in `earlier` (int64[n]
    each).

    Only a replay has this event. It is what the log keeps of such a registration.
    """

    sequence: int
    tenant: str
    earlier: Array
    later: Array


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A query is removed."""

    sequence: int
    tenant: str
    query_id: int


@dataclass(frozen=True, slots=True)
class UnregisteredMany:
    """Several queries (int64[k], ascending) are removed. `count`: their number.

    In a replay, `query_ids` has only queries that the log still registers. `digest` identifies the call, for retries.
    `expired`: whether they were removed because they had expired.
    """

    sequence: int
    tenant: str
    query_ids: Array
    count: int
    request_id: str = ""
    digest: bytes = b""
    expired: bool = False


@dataclass(frozen=True, slots=True)
class QueriesAltered:
    """Several queries (int64[k], ascending) are kept in another way. A replay may no longer know some of them.

    `parked`: in a replay, those that a later event parks, int64[m] ascending. They stay parked.
    """

    sequence: int
    tenant: str
    query_ids: Array
    change: KeepingChange
    time: int
    parked: Array = field(default_factory=no_queries)

    def codes_after(self, query_ids: Array, codes: Array) -> Array:
        """The codes (uint8[k]) of some of the queries after the event. O(k log m)."""
        after = self.change.of(codes)
        if not len(self.parked):
            return after
        return np.where(np.isin(query_ids, self.parked), with_places_of(after, codes), after)


QueryEvent = Registered | RegisteredMany | Replaced | Unregistered | UnregisteredMany | QueriesAltered
"""An event that changes queries."""

Event = (
    StreamCreated
    | StreamAltered
    | StreamDropped
    | Pushed
    | Attached
    | WatermarkRaised
    | WatermarksRaised
    | QueryEvent
    | ListEvent
)
