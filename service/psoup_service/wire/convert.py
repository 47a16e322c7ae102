"""Conversion between the contract's messages and the engine's values. It raises errors only for values out of range.

microseconds since 1970  <──>  Timestamp, Duration         (exact, also outside the years 1 to 9999)
StreamDescription, QueryRecord  ──>  Stream, Query
Arrow record batch  ──>  rows of Values
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf import duration_pb2, timestamp_pb2
from google.rpc import error_details_pb2

from psoup.answer.describe import StreamDescription
from psoup.answer.plan_nodes import PlanNode
from psoup.errors import InvalidInput, PSoupError
from psoup.model import SECOND, STREAMED, DataType, Kind, StreamSpec, WindowClause
from psoup.plan.canonical import exact_name
from psoup.plan.nodes import Filter, Join, PartnerJoin, SetOperation, walk
from psoup.plan.patterns import Pattern
from psoup.plan.sides import is_side, query_of
from psoup.plan.source_roles import SourceRole, source_roles
from psoup.plan.standing_query import StandingQuery
from psoup.published.lifetimes import DAY
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.sql import window_clause
from psoup.values.kinds import arrow_type
from psoup_proto.v1 import ingest_pb2, queries_pb2, server_pb2, streams_pb2, types_pb2
from psoup_service.host.ids import Ids
from psoup_service.process.clock import GuardedTime
from psoup_service.wire.amounts import write_keeping
from psoup_service.wire.status import status_of

_MAX_WINDOW = 1_000
"""The most characters of a window's text."""

KINDS: dict[Kind, types_pb2.Kind.ValueType] = {
    **{kind: types_pb2.Kind.Value(f"KIND_{kind.name}") for kind in STREAMED},
    Kind.WIDE: types_pb2.KIND_DECIMAL,
}

WINDOW_KINDS: dict[str, types_pb2.WindowKind.ValueType] = {
    "snapshot": types_pb2.WINDOW_KIND_SNAPSHOT,
    "landmark": types_pb2.WINDOW_KIND_LANDMARK,
    "sliding": types_pb2.WINDOW_KIND_SLIDING,
    "table": types_pb2.WINDOW_KIND_TABLE,
}

_PATTERNS: dict[str, queries_pb2.UpdatePattern.ValueType] = {
    pattern.name.lower(): queries_pb2.UpdatePattern.Value(f"UPDATE_PATTERN_{pattern.name}") for pattern in Pattern
}

_ROLES: dict[SourceRole, queries_pb2.SourceRole.ValueType] = {
    role: queries_pb2.SourceRole.Value(f"SOURCE_ROLE_{role.name}") for role in SourceRole
}

_OVER_SOURCES = (Join, PartnerJoin, Filter, SetOperation)
"""The nodes with conditions over several sources, and set operations: their labels are part of a join's clause."""

_MAX_SECONDS = (2**63 - 1) // SECOND


def timestamp(time: int | None) -> timestamp_pb2.Timestamp | None:
    """Microseconds since 1970 as a Timestamp; None stays None, which leaves a field unset."""
    if time is None:
        return None
    seconds, micros = divmod(time, SECOND)
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=micros * 1_000)


def clock_state(guarded: GuardedTime) -> server_pb2.ClockState:
    """The state of a service's clock as a message."""
    pending = guarded.pending is not None
    return server_pb2.ClockState(
        wall_time=timestamp(guarded.wall),
        service_time=timestamp(guarded.time),
        pending_since=timestamp(guarded.pending),
        followed_in=duration(guarded.followed_in if pending else None),
        steps=guarded.steps,
        last_time=timestamp(guarded.last),
    )


def microseconds(field: str, time: timestamp_pb2.Timestamp) -> int:
    """A Timestamp as microseconds since 1970; finer parts are cut off.

    Raises InvalidInput if it is not a time in int64.
    """
    if not 0 <= time.nanos < 1_000_000_000:
        raise InvalidInput(f"{field}.nanos is {time.nanos}; it must be from 0 to 999999999", field=field)
    if not -_MAX_SECONDS <= time.seconds < _MAX_SECONDS:
        raise InvalidInput(f"{field}.seconds is {time.seconds}, which is not a time in int64 microseconds", field=field)
    return time.seconds * SECOND + time.nanos // 1_000


def all_or_none(refused: ingest_pb2.Refused.ValueType, *, numbered: bool) -> bool:
    """Whether a batch with refused rows is refused as a whole. Raises InvalidInput for an unknown value.

    `numbered`: whether the batch has a producer, so that the default is to take the other rows.
    """
    if refused == ingest_pb2.REFUSED_UNSPECIFIED:
        return not numbered
    if refused not in (ingest_pb2.REFUSED_COUNT, ingest_pb2.REFUSED_RAISE):
        raise InvalidInput(f"refused is {refused}; it must be COUNT (1) or RAISE (2), or unset", field="refused")
    return refused == ingest_pb2.REFUSED_RAISE


def duration(span: int | None) -> duration_pb2.Duration | None:
    """Microseconds as a Duration; None stays None."""
    if span is None:
        return None
    seconds, micros = divmod(span, SECOND)
    return duration_pb2.Duration(seconds=seconds, nanos=micros * 1_000)


def data_type(kind: DataType) -> types_pb2.DataType:
    """The message of an engine type."""
    return types_pb2.DataType(kind=KINDS[kind.kind], precision=kind.precision, scale=kind.scale)


def stream_columns(spec: StreamSpec) -> list[types_pb2.Column]:
    """The columns of a stream, or of a table as its statement declares them."""
    return [types_pb2.Column(name=a.name, type=data_type(a.type), nullable=a.nullable) for a in spec.declared]


def query_columns(record: QueryRecord) -> list[types_pb2.Column]:
    """The columns of a query's answers; any may be NULL."""
    return _columns_of(record.query)


def _columns_of(query: StandingQuery) -> list[types_pb2.Column]:
    named = zip(query.names, query.select, strict=True)
    return [types_pb2.Column(name=name, type=data_type(output.type), nullable=True) for name, output in named]


def stream(description: StreamDescription, ids: Ids) -> streams_pb2.Stream:
    """A stream and its state."""
    spec = description.spec
    at, retention = None if spec.derived is not None else spec.time_attribute, spec.retention
    return streams_pb2.Stream(
        stream_id=ids.stream(description.stream_id),
        name=spec.name,
        statement=description.sql,
        columns=stream_columns(spec),
        time_column="" if at is None else spec.schema.attributes[at].name,
        lateness=duration(spec.lateness) if spec.event_time else None,
        idle_after=duration(spec.idle_after),
        max_ahead=duration(spec.ahead),
        watermark_by_clock=spec.by_clock,
        live=description.live,
        primary_key=spec.primary_key,
        history=None if spec.table is None else duration(spec.table.history),
        deleted_for=None if spec.table is None else duration(spec.table.deleted_for),
        expires_by=spec.expires_by,
        retention=duration(retention.duration),
        retention_rows=retention.rows,
        create_time=timestamp(description.created),
        watermark=timestamp(description.watermark),
        now=timestamp(description.now),
        tuples=description.tuples,
        first_tuple_id=description.first_id,
        next_tuple_id=description.next_id,
        pending=description.pending,
        late=description.late,
        ahead=description.ahead,
        chunks=description.chunks,
        bytes=description.bytes,
        queries=description.queries,
        archive=None if retention.duration is None else duration(retention.archive or None),
        archive_rows=None if retention.rows is None else retention.archive or None,
        archived_tuples=description.archived_tuples,
        archived_chunks=description.archived_chunks,
        archived_bytes=description.archived_bytes,
        first_time=timestamp(description.first_time),
        first_time_in_memory=timestamp(description.first_time_in_memory),
    )


def query(record: QueryRecord, ids: Ids, snapshot: Snapshot) -> queries_pb2.Query:
    """The message of a standing query. For a side of a join, `side_of` names the join."""
    message = queries_pb2.Query(
        query_id=ids.query(record.query_id),
        register_time=timestamp(record.registered),
        sequence=record.sequence,
        key=record.tag.key,
        labels=dict(record.tag.labels),
        expires_after=duration(record.expires * DAY) if record.expires else None,
        expire_time=timestamp(snapshot.lifetimes.end(record.query_id)),
        side_of=ids.query(query_of(record.query_id)) if is_side(record.query_id) else "",
        keep_pairs=bool(record.query.sides) and snapshot.pairs.keeps(record.query_id),
        outside=_outside(record, snapshot),
    )
    message.MergeFrom(standing(record.query))
    write_keeping(record.keeping, message)
    return message


def _outside(record: QueryRecord, snapshot: Snapshot) -> list[str]:
    """The reasons for which a query's clauses are not in the predicate index. For a join, the reasons of its sides."""
    reasons = list[str]()
    for stream_id in {*snapshot.streams_of(record)}:
        if len((outside := snapshot.by_id[stream_id].outside).ids):
            clauses = [
                snapshot.clause(side.sqc_id) for side in snapshot.sides_of(record) if side.stream_id == stream_id
            ]
            reasons += [
                str(reason) for clause in clauses for reason in outside.reasons(clause.sqc_id, clause.attributes)
            ]
    return [*dict.fromkeys(reasons)]


def standing(query: StandingQuery) -> queries_pb2.Query:
    """The message of a query with the facts that follow from its statement."""
    message = queries_pb2.Query(statement=query.text, streams=query.streams, columns=_columns_of(query))
    message.stream = message.streams[0]
    if query.sides:
        _describe_join(query, message)
        return message
    (source,) = query.sources
    message.clause, message.window = query.written, source.window_text
    message.window_kind = WINDOW_KINDS[source.window_kind]
    return message


def _describe_join(standing: StandingQuery, message: queries_pb2.Query) -> None:
    """Fill in the sources of a join, and its combined clause, window and window kind."""
    roles = source_roles(standing.plan)
    for selection in standing.selections:
        source = selection.source
        message.sources.add(
            alias=source.alias,
            stream=source.spec.name,
            clause=selection.written,
            window=source.window_text,
            window_kind=WINDOW_KINDS[source.window_kind],
            role=_ROLES[roles[source.place]],
        )
    joins = [node.label for _, node in walk(standing.plan) if isinstance(node, _OVER_SOURCES)]
    message.clause = "; ".join([*(source.clause for source in message.sources), *joins])
    windows = [source.window for source in message.sources]
    named = [f"{exact_name(source.alias)} {source.window}" for source in message.sources]
    message.window = windows[0] if len(set(windows)) == 1 else ", ".join(named)
    message.window_kind = joint_kind([source.window_kind for source in message.sources])


def joint_kind(kinds: list[types_pb2.WindowKind.ValueType]) -> types_pb2.WindowKind.ValueType:
    """The window kind of a join: the greatest kind of its streams. Tables have no window."""
    streams = [kind for kind in kinds if kind != types_pb2.WINDOW_KIND_TABLE]
    return max(streams) if streams else types_pb2.WINDOW_KIND_TABLE


def plan_step(node: PlanNode) -> queries_pb2.PlanStep:
    """A node of a plan as a step at its depth."""
    return queries_pb2.PlanStep(depth=node.depth, text=node.text, update_pattern=_PATTERNS[node.pattern])


def plan_node(node: PlanNode) -> queries_pb2.PlanNode:
    """A node of a plan."""
    return queries_pb2.PlanNode(
        id=node.id,
        operator=node.operator,
        inputs=node.inputs,
        text=node.text,
        figures=node.figures,
        facts=node.facts,
        update_pattern=_PATTERNS[node.pattern],
        clocks=node.clocks,
        settled_pattern=_PATTERNS[node.settled] if node.settled else queries_pb2.UPDATE_PATTERN_UNSPECIFIED,
        settled_after=duration(node.settled_after if node.settled else None),
        state=queries_pb2.StateBound(**node.state.facts),
    )


def failure(error: PSoupError) -> queries_pb2.Failure:
    """The failure of one query among many: the error of a call for this query alone."""
    status = status_of(error)
    info = error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
    return queries_pb2.Failure(code=status.code, message=status.message, reason=info.reason, facts=info.metadata)


def rows(batch: pa.RecordBatch, record: QueryRecord) -> list[types_pb2.Row]:
    """The rows of a batch of `record`'s answer. O(values), in Python: for pages, not for bulk."""
    columns = [_values(output.type, column) for output, column in zip(record.query.select, batch.columns, strict=True)]
    return [types_pb2.Row(values=values) for values in zip(*columns, strict=True)]


def _values(kind: DataType, column: pa.Array) -> list[types_pb2.Value]:
    column = column.cast(arrow_type(kind))
    if kind.kind in (Kind.TIMESTAMP, Kind.DATE):  # Python's own types end at the years 1 and 9999
        column = column.view(pa.int64() if kind.kind is Kind.TIMESTAMP else pa.int32())
    make = _MAKERS[kind.kind]
    return [types_pb2.Value() if value is None else make(value) for value in column.to_pylist()]


_MAKERS: dict[Kind, Callable[[Any], types_pb2.Value]] = {
    Kind.BOOLEAN: lambda value: types_pb2.Value(boolean_value=value),
    Kind.BIGINT: lambda value: types_pb2.Value(bigint_value=value),
    Kind.DOUBLE: lambda value: types_pb2.Value(double_value=value),
    **dict.fromkeys((Kind.DECIMAL, Kind.WIDE), lambda value: types_pb2.Value(decimal_value=f"{value:f}")),
    Kind.TEXT: lambda value: types_pb2.Value(text_value=value),
    Kind.TIMESTAMP: lambda value: types_pb2.Value(timestamp_value=timestamp(value)),
    Kind.DATE: lambda value: types_pb2.Value(date_value=value),
}


def one_window(text: str, field: str = "window") -> WindowClause:
    """Parse the text of a window. Raises InvalidInput if it is too long."""
    if len(text) > _MAX_WINDOW:  # it is parsed on the loop
        raise InvalidInput(f"{field} has {len(text):,} characters; {_MAX_WINDOW:,} is the most", field=field)
    return window_clause(text)
