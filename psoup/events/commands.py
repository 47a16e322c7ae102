"""Commands: requests of clients. Admission turns each into an event, or refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from psoup.columns import Array
from psoup.data.archived import ArchivedChunk
from psoup.events.access import IssueToken, RevokeToken
from psoup.events.tags import NO_TAG, Labels, Tag, TagColumns
from psoup.events.tenants import AlterTenant, CreateTenant, DropTenant
from psoup.model import DEFAULT_TENANT
from psoup.plan.standing import Parameter


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of what is attached: chunks, tuples, and the times of the first and the last tuple (microseconds)."""

    chunks: int
    rows: int
    first_time: int
    last_time: int


@dataclass(frozen=True, slots=True)
class CreateStream:
    """The statement CREATE STREAM …"""

    sql: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class AlterStream:
    """The statement ALTER STREAM … ADD COLUMN …"""

    sql: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class DropStream:
    """Forget a stream and its tuples; refused while queries use it, unless `cascade` forgets these, too.

    With a `stream_id`, only if the name still means that stream: a repeated call drops no other stream. With a number
    of `queries`, only if so many use it: what was confirmed is what is done.
    """

    name: str
    tenant: str = DEFAULT_TENANT
    stream_id: int | None = None
    cascade: bool = False
    queries: int | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """Tuples for a stream. With a `producer`, the batch is taken exactly once per (producer, epoch, number).

    `digest` identifies the payload, so that the same number with other rows is found to be a conflict; `STAGED` is
    that of all batches that came in parts, whose rows are not compared and may be more than of a push. `whole`: no
    row is refused alone (`psoup.admission.together`). `since`: an event before number 0 was first sent, or 0.
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
    """Ask whether a batch was taken, as its Push would find out."""

    stream: str
    producer: str
    epoch: int
    number: int
    digest: bytes = STAGED
    tenant: str = DEFAULT_TENANT
    since: int = 0


@dataclass(frozen=True, slots=True)
class Locate:
    """Ask where a producer of a stream stopped."""

    stream: str
    producer: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Attach:
    """History for a stream; once for each `job`, whatever it holds when the job asks again.

    With a number `batch`, tuples that come after all others; once for each job and number, and numbers ascend.

    `chunks` are consecutive, oldest first, with numbers and IDs from 0 on. Without them, asks only whether history of
    this extent would be taken, and without an `extent` only whether the job was. `stream_id`: it must be that stream.
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
    """SELECT … ; with a `request_id`, or a key in its `tag`, a retry gets the same query back. The key goes first.

    `replace`: if another query has the key, the new one takes its place. `expires_after`: as in "90 days", the time
    without being asked after which it is unregistered. `keep_pairs`: keep the pairs of its join
    (`psoup.joins.pairs_store`).
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
    """Some queries at once, all or none: `statements`; or one statement with parameters and `rows` of their values.

    `rows` may be a table with a column for each parameter. `names`: of the values in each row, if they are given to
    the parameters by name. A `request_id` covers the whole call. `number`: that of the first query in errors.
    `key`, `labels`: names of columns of that table with keys, which go before the request ID, and with labels; or
    `tags`, which are these columns. `replace`: queries with these keys that are others give way to the new ones.
    `expires_after`, `keep_pairs`: of each query.
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
        """The number of queries that are asked for."""
        return len(self.statements) if self.rows is None else len(self.rows)

    @property
    def keyed(self) -> bool:
        """Whether the queries have keys."""
        return bool(self.key) or (self.tags is not None and self.tags.keys is not None)


@dataclass(frozen=True, slots=True)
class Unregister:
    """Forget a query."""

    query_id: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class UnregisterMany:
    """Forget some queries at once, all or none: by their IDs (int64[k]); or those that have all of some `labels`, or
    a key that begins with `prefix`, which may be none. With a `request_id`, a retry gets the same answer. `dry_run`:
    only count them. `expired`: those of the IDs that still stand and were not asked for as long as they had said.
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
