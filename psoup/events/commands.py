"""Commands: requests of clients. Admission turns each into an event, or refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from psoup.data.archived_chunk import ArchivedChunk
from psoup.events.access import IssueToken, RevokeToken
from psoup.events.tags import NO_TAG, Labels, Tag, TagColumns
from psoup.events.tenants import AlterTenant, CreateTenant, DropTenant
from psoup.model import DEFAULT_TENANT
from psoup.plan.standing_query import Parameter
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of an attachment: chunks, tuples, and the times of the first and the last tuple (microseconds)."""

    chunks: int
    rows: int
    first_time: int
    last_time: int


@dataclass(frozen=True, slots=True)
class CreateStream:
    """A CREATE STREAM statement."""

    sql: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class AlterStream:
    """An ALTER STREAM … ADD COLUMN statement."""

    sql: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class DropStream:
    """Drop a stream and its tuples; refused while queries use it, unless `cascade` drops these too.

    With a `stream_id`, only if the name still means that stream: a repeated call drops no other stream. With a number
    of `queries`, only if exactly so many use it, as the caller has confirmed.
    """

    name: str
    tenant: str = DEFAULT_TENANT
    stream_id: int | None = None
    cascade: bool = False
    queries: int | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """Tuples for a stream. With a `producer`, a batch is accepted exactly once for each (producer, epoch, number).

    `digest` identifies the payload, so that the same number with other rows is a conflict. `STAGED` is the digest of
    all batches that came in parts. Their rows are not compared, and may be more than in a push. `whole`: no single row
    is refused (`psoup.admission.together`). `since`: an event before number 0 was first sent, or 0.
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


STAGED = b"staged batch"
"""The digest of a batch that came in parts."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Ask whether a batch was accepted, by the rules of its Push."""

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
    """History for a stream; accepted once for each `job`, whatever a repeated call contains.

    With a number `batch`, tuples that come after all others; accepted once for each job and number, and numbers ascend.

    `chunks`: consecutive, oldest first, with numbers and IDs from 0 on. Without chunks the command only asks whether
    history of this extent would be accepted. Without chunks and `extent` it asks whether the job was
    accepted. `stream_id`: the required stream.
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
    """The promise that no tuple with a time below `time` (microseconds) will come."""

    stream: str
    time: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Register:
    """A SELECT statement; with a `request_id`, or a key in its `tag`, a retry returns the same query. A key takes
    precedence.

    `replace`: if another query has the key, the new one replaces it. `expires_after`: the time without use, such as "90
    days", after which it is unregistered. `keep_pairs`: keep the pairs of its join (`psoup.joins.pairs_store`).
    """

    sql: str
    request_id: str = ""
    tenant: str = DEFAULT_TENANT
    tag: Tag = NO_TAG
    replace: bool = False
    expires_after: str = ""
    keep_pairs: bool = False


@dataclass(frozen=True, slots=True)
class RegisterMany:
    """Several queries, all or none: `statements`; or one statement with parameters, and `rows` of their values.

    `rows` may be a table with a column for each parameter. `names`: of the values in each row, if parameters are given
    by name. A `request_id` covers the whole call. `number`: of the first query, in errors. `key`, `labels`: names of
    the columns of that table with keys and labels; `tags`: these columns themselves. Keys take precedence over the
    request ID. `replace`: the new queries replace different ones with their keys. `expires_after`, `keep_pairs`: for
    each query.
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

    They are given by their IDs (int64[k]), by `labels`, or by the `prefix` of their keys. A query must have all the
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


Command = (
    CreateStream
    | AlterStream
    | DropStream
    | Push
    | Recall
    | Locate
    | Attach
    | Heartbeat
    | Register
    | RegisterMany
    | Unregister
    | UnregisterMany
    | IssueToken
    | RevokeToken
    | CreateTenant
    | AlterTenant
    | DropTenant
)
