"""What changes the engine. A *command* is what somebody asks for; an *event* is a command that was accepted,
stamped with its sequence and with everything that apply needs to be a function of the event alone.

    command --prepare (psoup.admission: may refuse)--> event --log--> --apply (psoup.engine: cannot fail)--> effects

Replay is apply over the logged events; nothing is decided twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from psoup.archive import ArchivedChunk
from psoup.columns import Array, Batch
from psoup.history import Attach, Attached
from psoup.model import DEFAULT_TENANT, StreamSpec
from psoup.query import Parameter, StandingQuery

# Commands ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateStream:
    """CREATE STREAM …"""

    sql: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class AlterStream:
    """ALTER STREAM … ADD COLUMN …"""

    sql: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class DropStream:
    """Forget a stream and its tuples; refused while queries use it.

    With a `stream_id`, only if the name still means that stream: a repeated call drops no other one.
    """

    name: str
    tenant: str = DEFAULT_TENANT
    stream_id: int | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """Tuples for a stream. With a `producer`, the batch is taken exactly once per (producer, epoch, number).

    `digest` identifies the payload, so that the same number with other rows is found to be a conflict; `STAGED` is
    that of all batches that came in parts, whose rows are not compared and may be more than of a push. `whole`: no
    row is refused alone (`psoup.admission.together`). `since`: an event of before number 0 was first sent, or 0.
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
    """Asks whether a batch was taken, as its Push would find out."""

    stream: str
    producer: str
    epoch: int
    number: int
    digest: bytes = STAGED
    tenant: str = DEFAULT_TENANT
    since: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The promise that no tuple with a time below `time` (microseconds) will come."""

    stream: str
    time: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Register:
    """SELECT … ; with a `request_id` a retry gets the same query back."""

    sql: str
    request_id: str = ""
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class RegisterMany:
    """Some queries at once, all or none: `statements`; or one statement with parameters and `rows` of their values.

    `rows` may be a table with a column for each parameter. `names`: of the values in each row, if they are given to
    the parameters by name. A `request_id` covers the whole call. `number` is what errors call the first of the queries.
    """

    statements: Sequence[str]
    rows: Sequence[Sequence[Parameter]] | pa.Table | None = None
    request_id: str = ""
    tenant: str = DEFAULT_TENANT
    names: tuple[str, ...] = ()
    number: int = 1

    @property
    def count(self) -> int:
        """How many queries are asked for."""
        return len(self.statements) if self.rows is None else len(self.rows)


@dataclass(frozen=True, slots=True)
class Unregister:
    """Forget a query."""

    query_id: int
    tenant: str = DEFAULT_TENANT


Command = (
    CreateStream | AlterStream | DropStream | Push | Recall | Attach | Heartbeat | Register | RegisterMany | Unregister
)

# Events --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """Tuples in stream order whose events the log has forgotten; their IDs count up from `first_id`."""

    number: int
    first_id: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store knows of a stream beyond the events it still has. Only a replay has it.

    `chunks` are consecutive, the last one stored among them. `first_time`: of the first tuple released.
    `dropped_time`: of the last tuple of the chunks before these. `late`, `ahead`: refused by forgotten events, before
    the watermark was at `reached`.
    `archive`: of a stream with an archive, how to read each of its stored chunks; those before `chunks` are not there.
    """

    chunks: tuple[StoredChunk, ...]
    first_time: int | None
    dropped_time: int | None
    late: int
    ahead: int
    archive: tuple[ArchivedChunk, ...] = ()
    reached: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes charged for the tuples."""
        return sum(chunk.batch.nbytes for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class StreamCreated:
    """A stream exists from here on; in a replay with what is stored of it."""

    sequence: int
    tenant: str
    stream_id: int
    spec: StreamSpec
    sql: str
    time: int
    stored: Stored | None = None


@dataclass(frozen=True, slots=True)
class StreamAltered:
    """A stream has more columns from here on, NULL in the tuples of before; or another AHEAD.

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
    """A stream, its tuples and its producers are gone."""

    sequence: int
    tenant: str
    stream_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Tuples of a batch that were not taken, by their times (int64[k], microseconds)."""

    late: Array
    ahead: Array

    @property
    def count(self) -> int:
        """How many."""
        return len(self.late) + len(self.ahead)


@dataclass(frozen=True, slots=True)
class Pushed:
    """Accepted tuples in the order they were sent, their physical IDs set.

    `watermark`: the stream's after it (None: nothing seen yet). `time`: the clock at prepare. `stored` tuples are not
    in `batch`: a replay has them in chunks. `forgotten`: of producers, those without a batch after this event; or 0.
    """

    sequence: int
    tenant: str
    stream_id: int
    batch: Batch
    refused: Refused
    watermark: int | None
    time: int
    producer: str = ""
    epoch: int = 0
    number: int = 0
    digest: bytes = b""
    stored: int = 0
    forgotten: int = 0

    @property
    def accepted(self) -> int:
        """How many tuples were taken."""
        return len(self.batch) + self.stored


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
    """A query stands from here on."""

    sequence: int
    tenant: str
    stream_id: int
    query_id: int
    query: StandingQuery
    request_id: str
    time: int


@dataclass(frozen=True, slots=True)
class RegisteredMany:
    """Queries stand from here on, all at once: those with the IDs first_id, first_id + 1, ...

    `stream_ids`: of each query, or one for all. `digest` identifies the call, for retries. If all come from one
    `template`, `rows` are the values of its parameters: the short form of `queries`, for a log; () if these are a
    `BoundBlock`, which has its own. `gone`: positions of queries that were unregistered since; only a replay has them.
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


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A query is gone."""

    sequence: int
    tenant: str
    query_id: int


Event = (
    StreamCreated
    | StreamAltered
    | StreamDropped
    | Pushed
    | Attached
    | WatermarkRaised
    | Registered
    | RegisteredMany
    | Unregistered
)

# What the caller is told ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The outcome of a command. `sequence` is the event's; `duplicate` says that it had happened before."""

    sequence: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class StreamAcknowledgement(Acknowledgement):
    """Of CreateStream, AlterStream and DropStream."""

    stream_id: int = 0


@dataclass(frozen=True, slots=True)
class PushAcknowledgement(Acknowledgement):
    """Of Push: how many tuples were taken, and how many were refused as late or too far ahead."""

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class AttachAcknowledgement(Acknowledgement):
    """Of Attach: the least time there is, at or before which more history must end; None if there is no tuple.

    `batch`: the number of the job's last batch before it, None without one.
    """

    first_time: int | None = None
    watermark: int | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAcknowledgement(Acknowledgement):
    """Of Heartbeat: where the watermark is now."""

    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class QueryAcknowledgement(Acknowledgement):
    """Of Register and Unregister."""

    query_id: int = 0


@dataclass(frozen=True, slots=True)
class QueriesAcknowledgement(Acknowledgement):
    """Of RegisterMany: `count` queries with IDs from `first_id` on."""

    first_id: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What prepare returns: the acknowledgement to give once `event` is logged; no event, nothing to log."""

    acknowledgement: Acknowledgement
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Effects:
    """What apply did: the last sequence applied, and bytes of tuples given back to the memory budget."""

    sequence: int
    freed_bytes: int = 0
    released: dict[int, int] = field(default_factory=dict)
    """Tuples released, by stream ID."""
