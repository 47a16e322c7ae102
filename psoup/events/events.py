"""Events: accepted commands, each stamped with its sequence and with everything that `apply` needs.

A replay applies the logged events; nothing is decided twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.stored_chunk import Stored
from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.commands import Extent
from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup.model import StreamSpec
from psoup.plan.standing_query import Parameter, StandingQuery
from psoup.values.columns import Array, Batch


def no_queries() -> Array:
    """An empty array of query IDs."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class StreamCreated:
    """A stream exists from here on; in a replay with its stored part."""

    sequence: int
    tenant: str
    stream_id: int
    spec: StreamSpec
    sql: str
    time: int
    stored: Stored | None = None


@dataclass(frozen=True, slots=True)
class StreamAltered:
    """A stream has new columns from here on, with NULL in its old tuples; or another AHEAD.

    `spec` and `sql` define the whole stream, `added` is the statement of the change.
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
    """Refused tuples of a batch, by their times (int64[k], microseconds)."""

    late: Array
    ahead: Array

    @property
    def count(self) -> int:
        """The number of refused tuples."""
        return len(self.late) + len(self.ahead)


@dataclass(frozen=True, slots=True)
class Pushed:
    """Accepted tuples in the order they were sent, with their physical IDs.

    `watermark`: the stream's after it (None: no tuple yet). `time`: the clock at prepare. `stored`: tuples that are not
    in `batch`, as a replay has them in chunks. `forgotten`: an event, or 0; producers without a batch after it are
    forgotten. `before`: the rows that the producer had sent in its epoch before; None if not known.
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

    @property
    def accepted(self) -> int:
        """The number of accepted tuples."""
        return len(self.batch) + self.stored


@dataclass(frozen=True, slots=True)
class Attached:
    """History, or a `batch`, is part of the stream from here on.

    `watermark`: the stream's after it; `time`: the clock at prepare. `chunks` have their numbers and IDs, below all
    earlier ones, or above them for a batch. A replay has no chunks, as they come back with the stream.
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


@dataclass(frozen=True, slots=True)
class WatermarkRaised:
    """A heartbeat has moved the watermark."""

    sequence: int
    tenant: str
    stream_id: int
    watermark: int
    time: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A query is registered; with `replaced`, that query is removed. In a replay it may have been removed before."""

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
    """Days without use after which it is unregistered; 0: never."""
    side_streams: tuple[int, ...] = ()
    """For a join the stream of each side; `stream_id` is the first of them."""
    keep_pairs: bool = False
    """Whether to keep the pairs of its join (`psoup.joins.pairs_store`)."""


@dataclass(frozen=True, slots=True)
class RegisteredMany:
    """Queries are registered together: with the IDs first_id, first_id + 1, ...

    `stream_ids`: of each query, or one for all. `digest` identifies the call, for retries. If all queries come from one
    `template`, `rows` are the values of its parameters, as the short form of `queries` for a log. They are () if
    `queries` is a `BoundBlock`, which has the values. `gone`: positions of queries that were unregistered since; only a
    replay has them. `replaced`: the query that each of them replaces, or -1 (int64[n]); replaced queries are removed.
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
    """For each query, as in `Registered`."""
    side_streams: Sequence[tuple[int, ...]] = ()
    """For each query, or one for all, the streams of its sides, () if it has none. () without a join."""
    keep_pairs: bool = False
    """For all queries, as in `Registered`."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Queries have replaced others, `later` those in `earlier` (int64[n] each), and were removed later.

    Only a replay has it, as the rest of a registration.
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
    """Several queries (int64[k], ascending) are removed together. `count`: their number.

    A replay has only queries that the log still registers. `digest` identifies the call, for retries. `expired`:
    whether they were removed because they had expired.
    """

    sequence: int
    tenant: str
    query_ids: Array
    count: int
    request_id: str = ""
    digest: bytes = b""
    expired: bool = False


Event = (
    StreamCreated
    | StreamAltered
    | StreamDropped
    | Pushed
    | Attached
    | WatermarkRaised
    | Registered
    | RegisteredMany
    | Replaced
    | Unregistered
    | UnregisteredMany
    | TokenIssued
    | TokenRevoked
    | TenantCreated
    | TenantAltered
    | TenantDropped
)
