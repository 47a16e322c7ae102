"""Commands: requests of clients. Admission turns each into an event, or refuses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from psoup.data.archived_chunk import ArchivedChunk
from psoup.derivation import Halt
from psoup.events.lists import ListCommand
from psoup.events.tags import NO_TAG, Labels, Tag, TagColumns
from psoup.model import DEFAULT_TENANT, StreamSpec
from psoup.plan.amounts import AS_USUAL, NO_CHANGE, Keeping, KeepingChange
from psoup.plan.standing_query import Parameter
from psoup.values.columns import Array, Batch


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of an attachment: the number of its chunks and tuples, and the times of its first and last tuple.

    Times are in microseconds.
    """

    chunks: int
    rows: int
    first_time: int
    last_time: int


@dataclass(frozen=True, slots=True)
class TableContent:
    """A table that is made of a stream, with its first tuples (`psoup.answer.table_content`).

    `batch`: in the order of the stream, with hidden columns; None if a table of the name was there already. The times
    count only in event time. `watermark`, `live`: of the stream.
    """

    spec: StreamSpec
    batch: Batch | None
    watermark: int | None = None
    live: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes of the tuples."""
        return 0 if self.batch is None else self.batch.nbytes


@dataclass(frozen=True, slots=True)
class CreateStream:
    """A CREATE STREAM or CREATE TABLE statement. `content`: for FROM STREAM, the table and its first tuples."""

    sql: str
    tenant: str = DEFAULT_TENANT
    content: TableContent | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AlterStream:
    """An ALTER STREAM statement: it adds columns, changes an option, or suspends or resumes a derived stream."""

    sql: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class DropStream:
    """Drop a stream and its tuples. Admission refuses it while queries use the stream, unless `cascade` drops these
    too.

    `stream_id`: the ID that the name must mean, so that a repeated call drops no other stream. `queries`: the number of
    queries that must use the stream, as the caller has confirmed. `table`: whether the name must be of a table. None:
    it may be of either.
    """

    name: str
    tenant: str = DEFAULT_TENANT
    stream_id: int | None = None
    cascade: bool = False
    queries: int | None = None
    table: bool | None = None


class SharedBatch(NamedTuple):
    """A batch of a producer that shares a push with further batches: the digest of its payload, and its rows."""

    digest: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Push:
    """Tuples for a stream. With a `producer`, a batch is accepted exactly once for each (producer, epoch, number).

    `digest` identifies the payload, so that the same number with other rows is a conflict. `STAGED` is the digest of
    all batches that came in parts. Their rows are not compared, and may be more than in a push. `whole`: if one row is
    refused, or would be if it came alone, the whole push is refused. `since`: the sequence of an event that happened
    before the producer sent number 0, or 0. It proves that the producer is new. `all_or_none`: if some rows are too
    late or too far ahead, none is taken, and the error is RowsRefused. `source`: the producer's source position behind
    the batch, b"" without one. `after`: the source position that must be recorded before the batch, b"" for none. None
    is not compared. `shared`: the batches whose rows are in `table`, with the numbers from `number` on; empty for a
    single batch. Such a push is prepared as `psoup.admission.together` says.
    """

    stream: str
    table: pa.RecordBatch | pa.Table
    producer: str = ""
    epoch: int = 0
    number: int = 0
    digest: bytes = b""
    tenant: str = DEFAULT_TENANT
    whole: bool = False
    since: int = 0
    all_or_none: bool = False
    source: bytes = b""
    after: bytes | None = None
    shared: tuple[SharedBatch, ...] = ()


STAGED = b"staged batch"
"""The digest of a batch that came in parts."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Ask whether a batch was accepted. The fields are as for its Push."""

    stream: str
    producer: str
    epoch: int
    number: int
    digest: bytes = STAGED
    tenant: str = DEFAULT_TENANT
    since: int = 0


@dataclass(frozen=True, slots=True)
class Locate:
    """Ask for the place where a producer of a stream stopped."""

    stream: str
    producer: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Attach:
    """History for a stream, or with a number `batch` tuples that come after all earlier tuples.

    Each `job` is accepted once, whatever a repeated call contains. With `batch`, each pair of job and number is
    accepted once, and numbers ascend. `chunks`: consecutive, oldest first, with numbers and IDs from 0 on. Without
    chunks, the command only asks whether history of this `extent` would be accepted. Without chunks and `extent`, it
    asks whether the job was accepted. `stream_id`: the ID that the stream must have.
    """

    stream: str
    job: str
    extent: Extent | None = None
    chunks: tuple[ArchivedChunk, ...] = ()
    stream_id: int | None = None
    tenant: str = DEFAULT_TENANT
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The promise that no tuple with a time less than `time` (microseconds) will come."""

    stream: str
    time: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class RaiseWatermarks:
    """Let the watermarks of live streams follow the clock (WATERMARK BY CLOCK). The host commands it, not a client.

    `steady`: for how long, in microseconds, the service has taken pushes without an interruption. `unsteady`: the same
    for tenants whose pushes were refused or had to wait since then. `waiting`: the streams whose pushes are not decided
    yet. Each is a pair of a tenant and a name in lower case.
    """

    steady: int
    unsteady: Mapping[str, int] = field(default_factory=dict)
    waiting: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class ExpireRows:
    """Delete rows of a table that have expired (EXPIRES BY). The host commands it, not a client.

    `ids`: the tuple IDs of versions that seemed to be expired, int64[k], ascending. Admission looks again, and deletes
    only the rows that still have these versions (`psoup.admission.rows.expired_rows`).
    """

    stream_id: int
    ids: Array
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class CloseInstants:
    """Promise that no tuple of some streams in system time gets a time that has passed. The host commands it for a
    derived stream, not a client. It makes no event (`psoup.admission.derivations`)."""

    stream_ids: tuple[int, ...]
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class PushDerived:
    """The rows that a pump has derived for a stream from all instants after `before` up to `at`, microseconds.

    The host commands it, not a client. `before`: the stream's watermark when the rows were made; None at the beginning.
    `as_of`: the sequence of the snapshot that they were made from. `positions`: as in `Push.source`, for people.
    """

    stream_id: int
    batch: Batch
    before: int | None
    at: int
    as_of: int
    positions: bytes
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class StopPump:
    """Stop the pump of a derived stream whose steps have failed. The host commands it, not a client.

    `why`: the last failure, for people.
    """

    stream_id: int
    why: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class ReleasePins:
    """Let go what the sources keep for a derived stream whose pump has not run for too long. The host commands it, not
    a client.

    `at`: the host's time, in microseconds. It may be before the clock, which a host may distrust after a start. `halt`:
    why and since when a running pump finds no room in memory. The command stops it.
    """

    stream_id: int
    at: int
    tenant: str = DEFAULT_TENANT
    halt: Halt | None = None


PumpCommand = CloseInstants | PushDerived | StopPump | ReleasePins
"""A command of the host for a derived stream."""


@dataclass(frozen=True, slots=True)
class Register:
    """Register the query of a SELECT statement.

    With a `request_id`, or with a key in its `tag`, a retry returns the same query. The key decides if both are given.
    `replace`: if another query has the key, the new one replaces it. `expires_after`: a time, such as "90 days". A
    query without an invocation for so long is unregistered. `keep_pairs`: keep the pairs of its join
    (`psoup.joins.pairs_store`). `keeping`: the amount that is kept of its answer. It is not compared in a retry.
    """

    sql: str
    request_id: str = ""
    tenant: str = DEFAULT_TENANT
    tag: Tag = NO_TAG
    replace: bool = False
    expires_after: str = ""
    keep_pairs: bool = False
    keeping: Keeping = AS_USUAL


@dataclass(frozen=True, slots=True)
class RegisterMany:
    """Register several queries, all or none: many `statements`, or one statement with parameters and many `rows` of
    values.

    `rows` may be a table with a column for each parameter. `names`: the names of the values in each row, for parameters
    with names. `request_id`: recognises a retry of the whole call. `number`: the number of the first query in messages
    of errors. `key`, `labels`: names of the columns of the table with keys and labels. `tags`: these columns
    themselves. Keys take precedence over the request ID. `replace`: a new query replaces a different query with its
    key. `expires_after`, `keep_pairs`, `keeping`: as in `Register`, for each query.
    """

    statements: Sequence[str]
    rows: Sequence[Sequence[Parameter]] | pa.Table | None = None
    request_id: str = ""
    tenant: str = DEFAULT_TENANT
    names: tuple[str, ...] = ()
    number: int = 1
    tags: TagColumns | None = None
    key: str = ""
    labels: tuple[str, ...] = ()
    replace: bool = False
    expires_after: str = ""
    keep_pairs: bool = False
    keeping: Keeping = AS_USUAL

    @property
    def count(self) -> int:
        """The number of queries."""
        return len(self.statements) if self.rows is None else len(self.rows)

    @property
    def keyed(self) -> bool:
        """Whether the queries have keys."""
        return bool(self.key) or (self.tags is not None and self.tags.keys is not None)


@dataclass(frozen=True, slots=True)
class Unregister:
    """Remove a query."""

    query_id: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class UnregisterMany:
    """Remove several queries, all or none.

    The command selects them by IDs (int64[k]), by `labels`, or by the `prefix` of their keys. A query must have all the
    labels. A prefix may select no query. With a `request_id`, a retry gets the same answer. `dry_run`: only count them.
    `expired`: remove only queries among the IDs that still exist and have expired.
    """

    query_ids: Array | None = None
    labels: Labels = ()
    prefix: str = ""
    request_id: str = ""
    tenant: str = DEFAULT_TENANT
    dry_run: bool = False
    expired: bool = False


@dataclass(frozen=True, slots=True)
class AlterQueries:
    """Change how several queries are kept, all or none. The answers do not change.

    The queries are selected as in `UnregisterMany`. A query that is kept as asked already does not change. `dry_run`:
    only count the queries. `unused`: only change queries that are inactive and not parked, and skip missing ones.
    """

    query_ids: Array | None = None
    labels: Labels = ()
    prefix: str = ""
    change: KeepingChange = NO_CHANGE
    tenant: str = DEFAULT_TENANT
    dry_run: bool = False
    unused: bool = False


Command = (
    CreateStream
    | AlterStream
    | DropStream
    | Push
    | Recall
    | Locate
    | Attach
    | Heartbeat
    | RaiseWatermarks
    | ExpireRows
    | PumpCommand
    | Register
    | RegisterMany
    | Unregister
    | UnregisterMany
    | AlterQueries
    | ListCommand
)
