"""Definitions of streams: decisions on CREATE STREAM, ALTER STREAM and DROP STREAM.

The functions change nothing. They return events, which admission then adopts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from psoup.admission.attachment import check_not_fed
from psoup.admission.budget import MemoryBudget
from psoup.admission.catalog import KnownStream, KnownTenant, refuse_derived
from psoup.admission.derivations import (
    Streams,
    derived_from,
    first_instant,
    refuse_deriving,
    with_source_ids,
)
from psoup.admission.differences import differences
from psoup.admission.halts import decide_halt
from psoup.admission.rows.push_times import NONE_REFUSED, in_system_time
from psoup.admission.rows.table_rows import table_columns
from psoup.config import EngineConfig
from psoup.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound, ResourceExhausted
from psoup.events.acknowledgements import Prepared, StreamAcknowledgement
from psoup.events.commands import AlterStream, CreateStream, DropStream, TableContent
from psoup.events.events import Pushed, StreamAltered, StreamCreated, StreamDropped
from psoup.model import DEFAULT_AHEAD, Attribute, Kind, StreamSpec
from psoup.phrases import counted
from psoup.plan.canonical import describe_duration
from psoup.sql import MAX_ATTRIBUTES, Alteration, alter_statement, alter_stream, create_statement, create_stream
from psoup.sql.parser.guards import check_budget
from psoup.sql.table_spec import EVENT_TIME, NO_EVENT_TIME
from psoup.values.columns import Array

_EXAMPLES = 3


def decide_create(
    tenant: KnownTenant, command: CreateStream, stream_id: int, sequence: int, now: int, config: EngineConfig
) -> StreamCreated:
    """Decide on a new stream. Raises AlreadyExists. A fact of this error says whether the existing stream is identical.

    The event's definition has the default AHEAD of a statement without AHEAD. Its statement stays as it is.
    """
    check_budget(command.sql, defines=True)
    if command.content is None:
        spec, text = create_stream(command.sql, new=True, lookup=tenant.spec, names=tenant.names()), command.sql
    else:
        spec, text = command.content.spec, create_statement(command.content.spec)
    if spec.derived is not None:
        spec = replace(spec, derived=with_source_ids(spec.derived, tenant))
    stream = tenant.find(spec.name)
    if stream is not None:
        if spec.ahead is None:
            spec = replace(spec, ahead=stream.spec.ahead, ahead_stated=stream.spec.ahead_stated)
        differ = differences(stream.spec, spec)
        raise AlreadyExists(
            f"{stream.spec.noun} {stream.spec.name!r} exists{f', and differs: {differ}' if differ else ''}; drop it"
            " first or choose another name",
            reason="STREAM_EXISTS",
            stream=stream.spec.name,
            stream_id=stream.stream_id,
            identical="true" if stream.spec == spec else "false",
        )
    text = text if spec.derived is None else create_statement(spec)
    if spec.event_time and spec.ahead is None:
        ahead, stated = _default_ahead(config)
        spec = replace(spec, ahead=ahead, ahead_stated=stated)
        text = create_statement(spec) if stated else text
    _check_ahead(spec, config)
    if len(tenant.streams) >= config.streams:
        raise ResourceExhausted(
            f"there are {len(tenant.streams):,} streams, the most there may be; drop one, or serve with a greater"
            " --streams",
            reason="TOO_MANY_STREAMS",
            limit=config.streams,
        )
    return StreamCreated(sequence, command.tenant, stream_id, spec, text, now)


def _default_ahead(config: EngineConfig) -> tuple[int, bool]:
    """The AHEAD of streams that state none, and whether it counts as stated: the service's setting does."""
    ahead = DEFAULT_AHEAD if config.ahead is None else config.ahead
    return min(ahead, config.max_ahead), config.ahead is not None


def decide_alter(
    tenant: KnownTenant, command: AlterStream, alteration: Alteration, sequence: int, now: int, config: EngineConfig
) -> tuple[int, StreamAltered | None]:
    """Return the stream's ID and the event, or None for the event if nothing changes. `alteration`: of the statement.

    Raises NotFound for an unknown stream, and AlreadyExists with the name of a column that the stream has already. With
    IF NOT EXISTS, the column may exist with the same type.
    """
    stream = tenant.stream(alteration.stream)
    way = "drop it, and create it again with its columns in the SELECT"
    refuse_derived(stream.spec, "ALTER STREAM", way if alteration.attributes else "change its sources")
    _check_noun(stream.spec, "ALTER", alteration.table)
    alteration = replace(alteration, attributes=_missing_columns(stream.spec, alteration))
    if alteration.default_ahead:
        ahead, stated = _default_ahead(config)
        alteration = replace(alteration, ahead=ahead, default_ahead=not stated)
    spec = alteration.of(stream.spec)
    if spec.table is not None and stream.spec.table is not None:
        spec = replace(spec, table=spec.table.after(stream.spec.table, stream.watermark))
    if alteration.of_ahead:
        _check_ahead(spec, config)
    if alteration.lateness is not None:
        _check_lateness(stream)
    if alteration.by_clock:
        _check_by_clock(stream)
    if alteration.expires:
        _check_expires(stream.spec, alteration.expires)
    if spec == stream.spec:
        return stream.stream_id, None
    text = alter_statement(replace(alteration, stream=spec.name))
    event = StreamAltered(sequence, command.tenant, stream.stream_id, spec, create_statement(spec), text, now)
    return stream.stream_id, event


def prepare_create(
    tenant: KnownTenant,
    command: CreateStream,
    place: tuple[int, int, int],
    config: EngineConfig,
    budget: MemoryBudget,
    streams: Streams,
    *,
    archive: bool,
) -> Prepared:
    """Decide on a new stream, and whether it and its content have room.

    `place`: the stream's ID, the event's sequence, and the time.

    `archive`: whether the service stores chunks.
    """
    event = decide_create(tenant, command, *place, config)
    check_archive(event.spec, archive)
    budget.check_stream(command.tenant, event.spec)
    content = first_instant(event, streams) if command.content is None else _first_push(event, command.content)
    if content is None:
        return Prepared(StreamAcknowledgement(event.sequence, stream_id=event.stream_id), event)
    budget.check_batch(event.spec, content.batch.nbytes)
    return Prepared(StreamAcknowledgement(content.sequence, stream_id=event.stream_id), event, content)


def _first_push(event: StreamCreated, content: TableContent) -> Pushed | None:
    """The event of the first tuples of a new table. None without tuples, but in event time for a watermark.

    Raises InvalidBatch for a key that is too long, and FailedPrecondition if the tuples were not read. O(tuples).
    """
    assert event.spec.table is not None
    batch, watermark = content.batch, content.watermark
    if batch is None:
        raise FailedPrecondition(
            f"table {event.spec.name!r} was dropped at this moment; create it again", reason="DROPPED_MEANWHILE"
        )
    if not len(batch) and (watermark is None or not event.spec.event_time):
        return None
    table_columns(event.spec, event.spec.table, batch.columns, ())
    if not event.spec.event_time:
        batch, watermark = in_system_time(batch.columns, len(batch), None, event.time)
    place = event.sequence + 1, event.tenant, event.stream_id
    return Pushed(*place, batch, NONE_REFUSED, watermark, event.time, live=content.live)


def prepare_alter(
    tenant: KnownTenant,
    command: AlterStream,
    sequence: int,
    now: int,
    config: EngineConfig,
    budget: MemoryBudget,
    streams: Streams,
) -> Prepared:
    """Decide on a change of a stream, and whether it has room. `sequence`: the last event."""
    check_budget(command.sql, defines=True)
    alteration = alter_stream(command.sql, new=True)
    if alteration.pump:
        stream = tenant.stream(alteration.stream)
        _check_noun(stream.spec, "ALTER", False)
        return decide_halt(stream, alteration.pump, tenant, streams, sequence, now)
    stream_id, event = decide_alter(tenant, command, alteration, sequence + 1, now, config)
    if event is not None:
        budget.check_stream(command.tenant, event.spec, tenant.stream(event.spec.name).spec)
    last = sequence if event is None else event.sequence
    return Prepared(StreamAcknowledgement(last, event is None, stream_id), event)


def _check_noun(spec: StreamSpec, verb: str, table: bool | None) -> None:
    """Raise FailedPrecondition if a statement calls a table a stream, or a stream a table."""
    if table is None or table == (spec.table is not None):
        return
    other = "table" if table else "stream"
    raise FailedPrecondition(
        f"{spec.name!r} is a {spec.noun}, not a {other}; write {verb} {spec.noun.upper()} {spec.name}",
        reason="WRONG_KIND",
        stream=spec.name,
    )


def _missing_columns(spec: StreamSpec, alteration: Alteration) -> tuple[Attribute, ...]:
    """Return the columns that the stream lacks. Raises AlreadyExists, and InvalidInput for too many columns."""
    present = {attribute.name.lower(): attribute for attribute in spec.schema.attributes}
    missing = tuple(attribute for attribute in alteration.attributes if attribute.name.lower() not in present)
    for attribute in alteration.attributes:
        column, lenient = present.get(attribute.name.lower()), attribute.name in alteration.lenient
        if column is not None and not (lenient and column.type == attribute.type):
            raise AlreadyExists(
                f"{spec.noun} {spec.name!r} has a column {column.name!r} of type {column.type} already; choose another"
                " name" + ("" if lenient else ", or say IF NOT EXISTS"),
                reason="COLUMN_EXISTS",
                stream=spec.name,
                column=column.name,
            )
    if missing and len(present) + len(missing) > MAX_ATTRIBUTES:
        raise InvalidInput(
            f"{spec.noun} {spec.name!r} has {len(present):,} columns, and {MAX_ATTRIBUTES:,} is the most;"
            f" {len(missing)} more do not fit",
            reason="TOO_MANY_COLUMNS",
        )
    return missing


def _check_by_clock(stream: KnownStream) -> None:
    """Raise FailedPrecondition if the watermark of a stream cannot follow the clock."""
    name, noun = stream.spec.name, stream.spec.noun
    if not stream.spec.event_time:
        raise FailedPrecondition(
            f"{noun} {name!r} is in system time, where the clock is the watermark already; WATERMARK BY is for {noun}s"
            " with TIMESTAMP BY",
            reason="SYSTEM_TIME",
            stream=name,
        )
    if stream.spec.idle_after is not None:
        raise FailedPrecondition(
            f"{noun} {name!r} has IDLE AFTER, which excludes WATERMARK BY CLOCK; create another {noun} without IDLE"
            " AFTER",
            reason="IDLE_AFTER",
            stream=name,
        )
    way_out = "WATERMARK BY CLOCK would make rows late that the job holds; its rows move the watermark"
    check_not_fed(stream.spec, stream.past, way_out)


def _check_expires(spec: StreamSpec, column: str) -> None:
    """Raise an error if the rows of a table cannot expire by a column."""
    place = spec.schema.index(column)
    if place is None:
        names = ", ".join(spec.schema.names[:12])
        raise InvalidInput(
            f"EXPIRES BY: table {spec.name!r} has no column {column!r}; its columns are {names}",
            reason="UNKNOWN_COLUMN",
            stream=spec.name,
            column=column,
        )
    if spec.event_time:
        raise FailedPrecondition(
            f"table {spec.name!r} has TIMESTAMP BY, which excludes EXPIRES BY: {EVENT_TIME}; {NO_EVENT_TIME}",
            reason="EVENT_TIME",
            stream=spec.name,
        )
    attribute = spec.schema.attributes[place]
    if attribute.type.kind is not Kind.TIMESTAMP:
        raise InvalidInput(
            f"EXPIRES BY needs a TIMESTAMP, and {attribute.name!r} of table {spec.name!r} is {attribute.type}; name"
            " another column, or add one: ALTER TABLE … ADD COLUMN column TIMESTAMP",
            reason="TYPE_MISMATCH",
            stream=spec.name,
            column=attribute.name,
        )


def _check_lateness(stream: KnownStream) -> None:
    """Raise FailedPrecondition if the LATENESS of a stream cannot change."""
    if not stream.spec.event_time:
        raise FailedPrecondition(
            f"{stream.spec.noun} {stream.spec.name!r} is in system time, where no tuple is late; LATENESS is for"
            f" {stream.spec.noun}s with TIMESTAMP BY",
            reason="SYSTEM_TIME",
            stream=stream.spec.name,
        )
    check_not_fed(stream.spec, stream.past, "its job holds rows for the LATENESS that it began with")


def _check_ahead(spec: StreamSpec, config: EngineConfig) -> None:
    if spec.ahead is None:
        return
    if not spec.event_time:
        raise FailedPrecondition(
            f"{spec.noun} {spec.name!r} is in system time, where no tuple is ahead of the clock; AHEAD is for"
            f" {spec.noun}s with TIMESTAMP BY",
            reason="SYSTEM_TIME",
            stream=spec.name,
        )
    if spec.ahead > config.max_ahead:
        raise InvalidInput(
            f"AHEAD {describe_duration(spec.ahead)} is more than this service allows,"
            f" {describe_duration(config.max_ahead)}; say less, or serve with a greater max_ahead_s",
            reason="AHEAD_TOO_LONG",
            limit=config.max_ahead,
        )


def check_archive(spec: StreamSpec, stored: bool) -> None:
    """Raise FailedPrecondition if `spec` has an archive, but the service does not store chunks (`stored`)."""
    if spec.retention.archive and not stored:
        raise FailedPrecondition(
            f"{spec.noun} {spec.name!r} asks for an ARCHIVE, and nothing is kept on disk here; leave ARCHIVE out, or"
            " run the service with a data directory",
            reason="NO_ARCHIVE",
            stream=spec.name,
        )


def decide_drop(
    tenant: KnownTenant,
    stream: KnownStream,
    command: DropStream,
    users_of: Callable[[KnownStream], Array],
    sequence: int,
) -> Prepared:
    """Decide to drop a stream. Raises NotFound if the name now means another stream.

    `users_of`: the queries over a stream, int64[k]. If there are any, or if streams derive from the stream, raises
    FailedPrecondition. But with CASCADE, and if the command has the right number of queries, it drops them, too.
    """
    deriving = derived_from(stream, tenant)
    ids = [users_of(each) for each in (*deriving, stream)]
    users = np.unique(np.concatenate(ids))
    _check_noun(stream.spec, "DROP", command.table)
    if command.stream_id not in (None, stream.stream_id):
        raise NotFound(
            f"the name {command.name!r} has been given to another stream since; nothing was dropped",
            reason="OTHER_STREAM",
            stream=stream.spec.name,
        )
    queries = len(users)
    if command.cascade and command.queries not in (None, queries):
        raise FailedPrecondition(
            f"{stream.spec.noun} {stream.spec.name!r} is used by {counted(queries, 'query')} by now, and not by"
            f" {command.queries:,}; nothing was dropped: ask again",
            reason="OTHER_QUERIES",
            stream=stream.spec.name,
            queries=queries,
        )
    if not command.cascade:
        refuse_deriving(stream, deriving)
    if queries and not command.cascade:
        some = ", ".join(map(str, users[:_EXAMPLES].tolist()))
        more = ", …" if queries > _EXAMPLES else ""
        raise FailedPrecondition(
            f"{stream.spec.noun} {stream.spec.name!r} is used by {counted(queries, 'query')} ({some}{more});"
            f" unregister {'it' if queries == 1 else 'them'} first, or drop the {stream.spec.noun} with CASCADE"
            f" (--cascade in the shell, cascade=True in Python), which unregisters {'it' if queries == 1 else 'them'}",
            reason="STREAM_IN_USE",
            stream=stream.spec.name,
            kind=stream.spec.noun,
            queries=queries,
            examples=some,
        )
    *first, last = _drops((*deriving, stream), ids, command.tenant, sequence)
    return Prepared(StreamAcknowledgement(last.sequence, False, stream.stream_id, queries), last, first=tuple(first))


def _drops(streams: Sequence[KnownStream], ids: Sequence[Array], tenant: str, sequence: int) -> list[StreamDropped]:
    """The events that drop some streams. `ids`: the queries over each. A query leaves with the first of its streams."""
    events, gone = list[StreamDropped](), np.zeros(0, np.int64)
    for place, (stream, query_ids) in enumerate(zip(streams, ids, strict=True)):
        left = np.setdiff1d(query_ids, gone)
        events.append(StreamDropped(sequence + place, tenant, stream.stream_id, left))
        gone = np.union1d(gone, query_ids)
    return events
