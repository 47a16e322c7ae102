"""Descriptions of streams and the server: frozen dataclasses, converted from the messages on the wire.

Nothing here calls the service.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from psoup_client import html
from psoup_client.derivations import DerivationInfo
from psoup_client.phrases import counted
from psoup_client.service_clock import ServiceClock
from psoup_client.times import from_proto
from psoup_proto.v1 import server_pb2, streams_pb2, types_pb2

_PLAIN: dict[int, pa.DataType] = {
    types_pb2.KIND_BOOLEAN: pa.bool_(),
    types_pb2.KIND_BIGINT: pa.int64(),
    types_pb2.KIND_DOUBLE: pa.float64(),
    types_pb2.KIND_TEXT: pa.string(),
    types_pb2.KIND_TIMESTAMP: pa.timestamp("us", tz="UTC"),
    types_pb2.KIND_DATE: pa.date32(),
}


@dataclass(frozen=True, slots=True)
class ColumnInfo(html.Facts):
    """A column: its name, its type as written in SQL and as in Arrow, and whether it may be NULL."""

    name: str
    type: str
    arrow: pa.DataType
    nullable: bool

    @staticmethod
    def of(message: types_pb2.Column) -> ColumnInfo:
        """Convert the message on the wire."""
        data_type = message.type
        if data_type.kind == types_pb2.KIND_DECIMAL:
            text = f"DECIMAL({data_type.precision},{data_type.scale})"
            arrow = pa.decimal128(data_type.precision, data_type.scale)
        else:
            text = types_pb2.Kind.Name(data_type.kind).removeprefix("KIND_")
            arrow = _PLAIN[data_type.kind]
        return ColumnInfo(message.name, text, arrow, message.nullable)


@dataclass(frozen=True, slots=True)
class StreamInfo(html.Facts):
    """A stream and its state at the time of the call. Times are UTC; None for a missing time.

    `archive` and `archive_rows`: the older part of `retention` and `retention_rows`, which is only on disk.
    `archived_tuples`, `archived_chunks`, `archived_bytes`: its size there. `bytes`: bytes in memory. `max_ahead`: how
    far past the clock times may lie; None if the stream does not set it. `first_time`: time of the oldest kept tuple.
    `first_time_in_memory`: time of the oldest tuple in memory. `watermark_by_clock`: whether the watermark follows the
    clock less `lateness` while the stream is `live`: its last tuple was within `lateness` and `max_ahead` of the clock
    when it came. `next_tuple_id`: the ID that the next released tuple will get.

    A table has a `primary_key`, the columns of its key. `history`: how long it keeps versions that have ended.
    `deleted_for`: how long it remembers deletions. `expires_by`: the column with the time at which the clock deletes a
    row, "" without EXPIRES BY.

    `derived`: the derivation of a stream of CREATE STREAM … AS; None for every other stream.
    """

    name: str
    stream_id: str
    sql: str
    columns: tuple[ColumnInfo, ...]
    time_column: str
    lateness: dt.timedelta
    idle_after: dt.timedelta | None
    retention: dt.timedelta | None
    retention_rows: int | None
    created: dt.datetime
    watermark: dt.datetime | None
    now: dt.datetime | None
    tuples: int
    first_tuple_id: int
    next_tuple_id: int
    pending: int
    late: int
    ahead: int
    chunks: int
    bytes: int
    queries: int
    archive: dt.timedelta | None = None
    archive_rows: int | None = None
    archived_tuples: int = 0
    archived_chunks: int = 0
    archived_bytes: int = 0
    max_ahead: dt.timedelta | None = None
    first_time: dt.datetime | None = None
    first_time_in_memory: dt.datetime | None = None
    watermark_by_clock: bool = False
    live: bool = False
    primary_key: tuple[str, ...] = ()
    history: dt.timedelta | None = None
    deleted_for: dt.timedelta | None = None
    expires_by: str = ""
    derived: DerivationInfo | None = None

    @property
    def kind(self) -> str:
        """`table`, or `stream`."""
        return "table" if self.primary_key else "stream"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the stream's tuples."""
        return pa.schema([pa.field(c.name, c.arrow, c.nullable) for c in self.columns])

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        sizes = f"{counted(self.tuples, 'tuple')}, {counted(self.queries, 'query')}"
        watermark = "no watermark" if self.watermark is None else f"watermark {self.watermark.isoformat(' ')}"
        return (
            f"<{self.kind.title()} {self.name} ({columns}): {sizes}, next tuple ID {self.next_tuple_id}, {watermark}>"
        )

    def _repr_html_(self) -> str:
        """Show the columns and the state of the stream in a notebook."""
        columns = [(c.name, c.type, "" if c.nullable else "NOT NULL") for c in self.columns]
        state = {name: value for name, value in self._facts().items() if name != self.kind}
        shown = html.counted_table(("column", "type", ""), columns, len(columns), "column")
        return html.paragraph(f"{self.kind.title()} {self.name}") + shown + html.facts(state)

    def _listed(self) -> dict[str, Any]:
        """Return the facts that a list of streams and tables shows."""
        return {"name": self.name, "kind": self.kind} | {k: v for k, v in self._facts().items() if k != self.kind}

    def _facts(self) -> dict[str, Any]:
        return {
            self.kind: self.name,
            "tuples": self.tuples,
            "waiting": self.pending,
            "queries": self.queries,
            "next tuple ID": self.next_tuple_id,
            "watermark": self.watermark,
            "bytes": self.bytes,
        }

    @staticmethod
    def of(message: streams_pb2.Stream) -> StreamInfo:
        """Convert the message on the wire."""
        return StreamInfo(
            name=message.name,
            stream_id=message.stream_id,
            sql=message.statement,
            columns=columns_of(message.columns),
            time_column=message.time_column,
            lateness=message.lateness.ToTimedelta(),
            idle_after=message.idle_after.ToTimedelta() if message.HasField("idle_after") else None,
            retention=message.retention.ToTimedelta() if message.HasField("retention") else None,
            retention_rows=message.retention_rows if message.HasField("retention_rows") else None,
            created=from_proto(message.create_time),
            watermark=from_proto(message.watermark) if message.HasField("watermark") else None,
            now=from_proto(message.now) if message.HasField("now") else None,
            tuples=message.tuples,
            first_tuple_id=message.first_tuple_id,
            next_tuple_id=message.next_tuple_id,
            pending=message.pending,
            late=message.late,
            ahead=message.ahead,
            chunks=message.chunks,
            bytes=message.bytes,
            queries=message.queries,
            archive=message.archive.ToTimedelta() if message.HasField("archive") else None,
            archive_rows=message.archive_rows if message.HasField("archive_rows") else None,
            archived_tuples=message.archived_tuples,
            archived_chunks=message.archived_chunks,
            archived_bytes=message.archived_bytes,
            watermark_by_clock=message.watermark_by_clock,
            live=message.live,
            primary_key=tuple(message.primary_key),
            history=message.history.ToTimedelta() if message.HasField("history") else None,
            deleted_for=message.deleted_for.ToTimedelta() if message.HasField("deleted_for") else None,
            expires_by=message.expires_by,
            derived=DerivationInfo.of(message.derived) if message.HasField("derived") else None,
            max_ahead=message.max_ahead.ToTimedelta() if message.HasField("max_ahead") else None,
            first_time=from_proto(message.first_time) if message.HasField("first_time") else None,
            first_time_in_memory=(
                from_proto(message.first_time_in_memory) if message.HasField("first_time_in_memory") else None
            ),
        )


@dataclass(frozen=True, slots=True)
class SuppliedFunction(html.Facts):
    """A function that the operator of the service supplied, and its types.

    `nulls`: whether it is called for rows with a NULL argument; otherwise the result is NULL there. `cost`: the cost of
    a call, in calls of simple functions. `about`: its purpose, in a line.
    """

    name: str
    arguments: tuple[str, ...]
    result: str
    nulls: bool
    version: int
    cost: int
    about: str

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)}) -> {self.result}"

    @staticmethod
    def of(message: server_pb2.SuppliedFunction) -> SuppliedFunction:
        """Convert the message on the wire."""
        return SuppliedFunction(
            message.name,
            tuple(message.arguments),
            message.result,
            message.nulls,
            message.version,
            message.cost,
            message.about,
        )


@dataclass(frozen=True, slots=True)
class QueryCounts(html.Facts):
    """The standing queries of a tenant by how they are kept (docs/amounts.md).

    `none`, `partial`, `complete`: active queries by the amount in force. `eager`: of these, the eager ones. `auto`:
    queries whose amount the service chooses, inactive ones among them. `parked`: of the inactive ones.
    """

    none: int
    partial: int
    complete: int
    eager: int
    auto: int
    inactive: int
    parked: int

    @staticmethod
    def of(message: server_pb2.QueryCounts) -> QueryCounts:
        """Convert the message on the wire."""
        return QueryCounts(
            message.none,
            message.partial,
            message.complete,
            message.eager,
            message.auto,
            message.inactive,
            message.parked,
        )


@dataclass(frozen=True, slots=True)
class CopyState(html.Facts):
    """The copy of a service's events in object storage, or in a directory.

    `lag_events`: the events that it lacks. `lag`: how long it has lacked the oldest of them. `problem`: why; "" if
    nothing is wrong.
    """

    place: str
    lag_events: int
    lag: dt.timedelta
    problem: str = ""

    @staticmethod
    def of(message: server_pb2.CopyState) -> CopyState:
        """Convert the message on the wire."""
        return CopyState(message.place, message.lag_events, message.lag.ToTimedelta(), message.problem)


@dataclass(frozen=True, slots=True)
class ServerInfo(html.Facts):
    """A service and its state. `memory`: bytes by structure. `durable`: whether pushes survive a restart.

    `text_bytes`: most bytes of one text of a row; 0 if the service does not say. `web_address`: the address of its
    page, as the service sees it; "" without a page. `calls`: open calls without watches. `watchers`: open watches.
    """

    version: str
    incarnation: str
    store: str
    durable: bool
    state: str
    started: dt.datetime
    sequence: int
    ingest_message_bytes: int
    batch_rows: int
    features: tuple[str, ...]
    memory: dict[str, int]
    text_bytes: int = 0
    functions: tuple[SuppliedFunction, ...] = ()
    """The functions that the operator supplied; statements may call them."""
    watchers: int = 0
    calls: int = 0
    web_address: str = ""
    clock: ServiceClock | None = None
    """The service's clock; None if the service does not report it."""
    acknowledged: int = 0
    """The last event that was acknowledged; answers show events up to `sequence`. 0: the service does not report it."""
    refusing: str = ""
    """The reason why changes are refused at present: a full disk, or the copy. "" if they are taken."""
    queries: QueryCounts | None = None
    """The numbers of queries; None if the service does not report them, and from `wait_ready`."""
    copy: CopyState | None = None
    """The copy of the events; None without one, and for a tenant other than `default`."""

    @property
    def not_visible(self) -> int:
        """The number of acknowledged events that answers do not show yet."""
        return max(0, self.acknowledged - self.sequence)

    def __repr__(self) -> str:
        return f"<Service of version {self.version}, {self.state}: {self.store} store, event {self.sequence:,}>"

    def _repr_html_(self) -> str:
        """Show the facts of the service in a notebook, and the bytes of its structures."""
        state = {name: value for name, value in self._facts().items() if name != "memory"}
        sizes = sorted(self.memory.items(), key=lambda item: -item[1])
        return html.facts(state) + html.counted_table(("memory", "bytes"), sizes, len(sizes), "structure")

    @staticmethod
    def of(message: server_pb2.GetServerInfoResponse) -> ServerInfo:
        """Convert the message on the wire."""
        return ServerInfo(
            version=message.version,
            incarnation=message.incarnation,
            store=message.store,
            durable=message.durable,
            state=message.state,
            started=from_proto(message.start_time),
            sequence=message.sequence,
            ingest_message_bytes=message.limits.ingest_message_bytes,
            batch_rows=message.limits.batch_rows,
            features=tuple(message.features),
            memory=dict(message.memory),
            text_bytes=message.limits.text_bytes,
            functions=tuple(map(SuppliedFunction.of, message.functions)),
            watchers=message.watchers,
            calls=message.calls,
            web_address=message.web_address,
            clock=ServiceClock.of(message.clock) if message.HasField("clock") else None,
            acknowledged=message.acknowledged,
            refusing=message.refusing,
            queries=QueryCounts.of(message.queries) if message.HasField("queries") else None,
            copy=CopyState.of(message.copy) if message.HasField("copy") else None,
        )


def columns_of(messages: Sequence[types_pb2.Column]) -> tuple[ColumnInfo, ...]:
    """Convert the columns on the wire, in order."""
    return tuple(ColumnInfo.of(message) for message in messages)


def window_kind(kind: int) -> str:
    """Return the name of a window's kind: `snapshot`, `landmark` or `sliding`, or `table` for the rows of a table."""
    return types_pb2.WindowKind.Name(kind).removeprefix("WINDOW_KIND_").lower()  # type: ignore[arg-type]
