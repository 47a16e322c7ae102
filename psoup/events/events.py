"""Events: commands that were accepted, each stamped with its sequence and with everything that `apply` needs.

Replay is `apply` over the logged events; nothing is decided twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.columns import Array, Batch
from psoup.data.archived import ArchivedChunk
from psoup.data.stored import Stored
from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.commands import Extent
from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup.model import StreamSpec
from psoup.plan.standing import Parameter, StandingQuery


def no_queries() -> Array:
    """The IDs of no query."""
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
    """A stream has more columns from here on, NULL in its old tuples; or another AHEAD.

    `spec` and `sql` are the stream's as a whole, `added` is the statement that says just what is new.
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
    """A stream, its tuples and its producers are gone, and `query_ids`: the queries that were on it (int64[k]).

    A replay has only those that the log still registers.
    """

    sequence: int
    tenant: str
    stream_id: int
    query_ids: Array = field(default_factory=no_queries)


@dataclass(frozen=True, slots=True)
class RefusedTuples:
    """Tuples of a batch that were not taken, by their times (int64[k], microseconds)."""

    late: Array
    ahead: Array

    @property
    def count(self) -> int:
        """The number of tuples that were refused."""
        return len(self.late) + len(self.ahead)


@dataclass(frozen=True, slots=True)
class Pushed:
    """Accepted tuples in the order they were sent, their physical IDs set.

    `watermark`: the stream's after it (None: nothing seen yet). `time`: the clock at prepare. `stored` tuples are not
    in `batch`: a replay has them in chunks. `forgotten`: of producers, those without a batch after this event; or 0.
    `before`: how many rows the producer had sent in its epoch before, None if that is not known.
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
        """The number of tuples that were taken."""
        return len(self.batch) + self.stored


@dataclass(frozen=True, slots=True)
class Attached:
    """History, or a `batch`, is part of the stream from here on.

    `watermark` is the stream's after it, `time` the clock at prepare. `chunks` have their numbers and IDs, below those
    of all there were, or above if it is a batch; a replay has none, as they come back with the stream.
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
    """A heartbeat moved the watermark."""

    sequence: int
    tenant: str
    stream_id: int
    watermark: int
    time: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A query stands from here on; with `replaced`, that query is gone. In a replay it may have been gone before."""

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
    """Days without being asked after which it is unregistered; 0: never."""
    side_streams: tuple[int, ...] = ()
    """Of a join the stream of each of its sides; `stream_id` is the first of them."""
    keep_pairs: bool = False
    """Whether the pairs of its join are kept (`psoup.joins.pairs_store`)."""


@dataclass(frozen=True, slots=True)
class RegisteredMany:
    """Queries stand from here on, all at once: those with the IDs first_id, first_id + 1, ...

    `stream_ids`: of each query, or one for all. `digest` identifies the call, for retries. If all come from one
    `template`, `rows` are the values of its parameters: the short form of `queries`, for a log; () if these are a
    `BoundBlock`, which has its own. `gone`: positions of queries that were unregistered since; only a replay has them.
    `replaced`: the query that each of them replaces, or -1 (int64[n]): they are gone, as with `Registered`.
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
    """Of each of them, as with `Registered`."""
    side_streams: Sequence[tuple[int, ...]] = ()
    """Of each query, or one for all, the streams of its sides, () if it has none; () without a join."""
    keep_pairs: bool = False
    """Of all of them, as with `Registered`."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Queries took the place of others: `later` that of `earlier` (int64[n] each), and are gone, too.

    What is left of a registration: only a replay has it.
    """

    sequence: int
    tenant: str
    earlier: Array
    later: Array


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A query is gone."""

    sequence: int
    tenant: str
    query_id: int


@dataclass(frozen=True, slots=True)
class UnregisteredMany:
    """Some queries (int64[k], ascending) are gone, all at once. `count`: how many they were.

    A replay has only those that the log still registers. `digest` identifies the call, for retries. `expired`: they
    were not asked for as long as they had said.
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
