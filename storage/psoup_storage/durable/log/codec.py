"""Events as rows of the log, and back. No pickle: texts are JSON, tuples Arrow IPC, times plain int64.

    sequence  kind        stream  body (JSON)                    refused (int64 …)  tuples (Arrow IPC)  last_time
           1  stream           1  sql, tenant, time
           2  query            1  text, query, request, key, labels …      of a join 0, and streams: those of FROM
           3  push             1  watermark, producer, rows …    late, then ahead   the accepted rows   of the tuples
           4  queries          1  first, template, request …     what each replaces a block: see `blocks`
           5  replaced         0  tenant                         earlier, then later
           6  departure        0  count, request …                                  IDs of queries: see `departures`
           6  altered          0  the change, time: see `keepings`                  IDs of queries
           7  token            0  see `access`
           8  tenant           0  see `tenants`
           9  watermarks      -1  time                           IDs of streams, then their watermarks
          10  webhook          0  see `webhooks`

Statements are stored as they were sent, with the signatures of supplied functions, and bound again when they are read.
`checksum` covers everything but the tuples; their own checksum is in the body. So a row whose tuples have been dropped
can still be verified. Everything that a client can make large is in the column `tuples`, which `log` stores in slices.
A body has at most one statement. A change of this form is a new format of the directory (`schema.FORMAT`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import chain
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from psoup.data.stored_chunk import Stored
from psoup.errors import PSoupError
from psoup.events.commands import Extent, SharedBatch
from psoup.events.events import (
    Attached,
    Event,
    Pushed,
    QueriesAltered,
    RefusedTuples,
    Registered,
    RegisteredMany,
    Replaced,
    StreamAltered,
    StreamCreated,
    StreamDropped,
    Unregistered,
    UnregisteredMany,
    WatermarkRaised,
    WatermarksRaised,
)
from psoup.expressions.supplied_functions import declared, used_in
from psoup.model import StreamSpec
from psoup.sql import create_statement
from psoup.sql.templates.ladder import way_of
from psoup.values.columns import Array, Batch, empty_column
from psoup_storage.contract import Spooled
from psoup_storage.durable.log.blocks import encode_block, read_gone
from psoup_storage.durable.log.definitions import altered, created, definition_facts, definition_text
from psoup_storage.durable.log.keepings import decode_alteration, encode_alteration, keeping_facts
from psoup_storage.durable.log.lists import decode_list, encode_list
from psoup_storage.durable.log.parked_at_end import ParkedAtEnd
from psoup_storage.durable.log.registration_rows import RegistrationDecoder, parking_facts
from psoup_storage.durable.log.rows import (
    INT64,
    KINDS,
    OF_ALL_STREAMS,
    Kind,
    LogRow,
    checked_tuples,
    checksum_of,
    damaged,
    new_row,
)
from psoup_storage.durable.log.stream_names import LoggedStreams
from psoup_storage.durable.log.tuples import StoredEnd, decode_tuples, encode_tuples, times_of


def encode(event: Event, spooled: Spooled | None = None) -> LogRow:
    """The row of an event; `spooled`: the tuples of a push, if they are written already. O(bytes to write)."""
    match event:
        case Pushed():
            return _encode_push(event, spooled)
        case StreamCreated():
            facts = {"sql": definition_text(event), "tenant": event.tenant, "time": event.time}
            facts |= definition_facts(event)
            return new_row(event.sequence, "stream", event.stream_id, **facts)
        case StreamAltered():
            facts = {"sql": event.added, "tenant": event.tenant, "time": event.time, **definition_facts(event)}
            return new_row(event.sequence, "alter", event.stream_id, **facts)
        case StreamDropped() | UnregisteredMany():
            return _encode_departure(event)
        case Attached():
            facts = {name: getattr(event, name) for name in ("job", "watermark", "time", "tenant")}
            facts |= {} if event.batch is None else {"batch": event.batch}
            return new_row(event.sequence, "attach", event.stream_id, **facts, extent=asdict(event.extent))
        case WatermarkRaised() | WatermarksRaised():
            return _encode_watermarks(event)
        case Registered():
            streams, tag = list(dict.fromkeys(event.side_streams)), event.tag
            facts = {"text": event.query.text, "query": event.query_id, "request": event.request_id}
            facts |= {"tenant": event.tenant, "time": event.time, **_some(next=event.next_id)}
            facts |= _some(functions=used_in([event.query.text]), key=tag.key, labels=dict(tag.labels))
            facts |= _some(replaced=event.replaced, expires=event.expires, streams=streams, pairs=event.keep_pairs)
            facts |= keeping_facts(event.keeping) | parking_facts(event)
            return new_row(event.sequence, "query", event.stream_id if len(streams) < 2 else 0, **facts)
        case RegisteredMany():
            return _encode_many(event)
        case Replaced():
            pairs = np.concatenate([event.earlier, event.later]).astype(INT64).tobytes()
            return new_row(event.sequence, "replaced", 0, pairs, tenant=event.tenant)
        case QueriesAltered():
            return encode_alteration(event)
        case Unregistered():
            return new_row(event.sequence, "unregister", 0, query=event.query_id, tenant=event.tenant)
        case _:
            return encode_list(event)


def _encode_watermarks(event: WatermarkRaised | WatermarksRaised) -> LogRow:
    if isinstance(event, WatermarksRaised):
        both = np.concatenate([event.stream_ids, event.watermarks]).astype(INT64).tobytes()
        return new_row(event.sequence, "watermarks", OF_ALL_STREAMS, both, time=event.time)
    facts = {"tenant": event.tenant, "watermark": event.watermark, "time": event.time}
    return new_row(event.sequence, "watermark", event.stream_id, **facts, **_some(live=event.live))


def _encode_departure(event: StreamDropped | UnregisteredMany) -> LogRow:
    """The row of an event by which some queries leave. Its column `tuples` has their IDs."""
    kind: Kind = "drop"
    stream, facts, ids = 0, dict[str, Any](tenant=event.tenant), None
    if isinstance(event, StreamDropped):
        stream = event.stream_id
    else:
        kind = "departure"
        call = {"count": event.count, "request": event.request_id, "digest": event.digest.hex()}
        facts |= call | _some(expired=event.expired)
    if len(event.query_ids):
        ids = event.query_ids.astype(INT64).tobytes()
        facts |= {"ids": len(event.query_ids), "crc": zlib.crc32(ids)}
    return new_row(event.sequence, kind, stream, None, ids, **facts)


def _some(**facts: Any) -> dict[str, Any]:
    """The facts that are neither empty nor 0."""
    return {name: value for name, value in facts.items() if value}


def _encode_push(event: Pushed, spooled: Spooled | None) -> LogRow:
    batch, refused = event.batch, event.refused
    tuples: bytes | memoryview | None = None
    checksum = 0
    if spooled is not None:
        tuples, checksum = b"", spooled.checksum
    elif len(batch):
        tuples = encode_tuples(batch)
        checksum = zlib.crc32(tuples)
    times = None
    if refused.count:
        times = np.concatenate([refused.late, refused.ahead]).astype(INT64).tobytes()
    row = new_row(
        event.sequence,
        "push",
        event.stream_id,
        times,
        tuples,
        int(batch.times.max()) if len(batch) else None,
        rows=len(batch),
        crc=checksum,
        late=len(refused.late),
        watermark=event.watermark,
        time=event.time,
        producer=event.producer,
        epoch=event.epoch,
        number=event.number,
        digest=event.digest.hex(),
        tenant=event.tenant,
        **_some(forgotten=event.forgotten, live=event.live, source=event.source.hex()),
        **_some(given=event.given, room=event.room, shared=[(each.digest.hex(), each.rows) for each in event.shared]),
        **({"before": event.before} if event.number and event.before is not None else {}),
        **({} if event.floor is None else {"floor": event.floor}),
    )
    return row if spooled is None else row._replace(spool=spooled.key)


def _encode_many(event: RegisteredMany) -> LogRow:
    form, content = encode_block(event)
    way = ({"way": way_of(event.queries)} if event.template else {}) | _some(expires=event.expires)
    way |= _some(pairs=event.keep_pairs, next=event.next_ids) | keeping_facts(event.keeping) | parking_facts(event)
    texts = [event.template] if event.template else (query.text for query in event.queries)
    way |= _some(functions=used_in(texts))
    if event.tags is not None:
        way |= {"keyed": event.tags.keys is not None, "labels": event.tags.names}
    streams = list(event.stream_ids)
    if event.side_streams:  # the decoder finds them by the names in the texts
        way |= {"joins": True}
        streams = list(dict.fromkeys([*streams, *chain.from_iterable(event.side_streams)]))
    elif len(set(streams)) == 1:
        del streams[1:]
    return new_row(
        event.sequence,
        "queries",
        streams[0] if len(streams) == 1 else 0,
        None if event.replaced is None else event.replaced.astype(INT64).tobytes(),
        content,
        first=event.first_id,
        count=len(event.queries),
        streams=streams,
        form=form,
        crc=zlib.crc32(content),
        template=event.template,
        request=event.request_id,
        digest=event.digest.hex(),
        tenant=event.tenant,
        time=event.time,
        **way,
    )


# Reading -------------------------------------------------------------------------------------------------------


Restore = Callable[[int, StreamSpec], Stored | None]
"""Returns the stored part of a stream, for the event of its creation; None if it has no stored chunk."""
_UNREADABLE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, pa.ArrowException)
"""Errors that a row of another form raises."""


class Decoder:
    """Turns rows into events, in the order of the log: a row needs the stream that an earlier row created.

    Tuples before the `edges` of their streams are left out: `restore` returns them as chunks, with the stream. Queries
    that are `parked` at the end of the log are parked in all events; None to bind all queries.
    """

    def __init__(
        self,
        edges: dict[int, StoredEnd],
        restore: Restore,
        parked: ParkedAtEnd | None = None,
        streams: LoggedStreams | None = None,
    ) -> None:
        self._edges = edges
        self._restore = restore
        self._streams = streams or LoggedStreams()
        self._parked = parked
        self._registrations = RegistrationDecoder(self._streams, parked)

    def following(self) -> Decoder:
        """The decoder of later rows, which come one by one from another service: all their tuples are in them."""
        return Decoder({}, lambda *_: None, streams=self._streams)

    def decode(self, row: LogRow) -> Event:
        """The event of `row`; raises Internal, reason DATA_DAMAGED, if the row has changed since it was written."""
        if row.checksum != checksum_of(row):
            raise damaged(row.sequence, "its checksum is wrong")
        try:
            facts = json.loads(row.body)
            with declared(facts.get("functions", ())):
                return self._decode(row, facts)
        except PSoupError as problem:
            if problem.reason == "DATA_DAMAGED":
                raise
            raise damaged(row.sequence, f"it cannot be bound any more: {problem.message}") from problem
        except _UNREADABLE as problem:
            raise damaged(row.sequence, f"{type(problem).__name__}: {problem}") from problem

    def _decode(self, row: LogRow, facts: dict[str, Any]) -> Event:
        if row.kind not in KINDS:
            raise ValueError(f"no event is of the kind {row.kind!r}")
        match row.kind:
            case "push":
                return self._push(row, facts)
            case "stream":
                spec = self._streams.specs[row.stream] = created(facts)
                place, stored = (row.sequence, facts["tenant"], row.stream), self._restore(row.stream, spec)
                text = facts["sql"] if spec.derived is None else create_statement(spec)
                return StreamCreated(*place, spec, text, facts["time"], stored)
            case "alter":
                before = self._streams.specs[row.stream]
                spec = self._streams.specs[row.stream] = altered(before, facts["sql"], facts)
                text = create_statement(spec)
                return StreamAltered(row.sequence, facts["tenant"], row.stream, spec, text, facts["sql"], facts["time"])
            case "drop":
                return StreamDropped(row.sequence, facts["tenant"], row.stream, _departed(row, facts))
            case "attach":
                extent = Extent(**facts.pop("extent"))
                return Attached(row.sequence, stream_id=row.stream, extent=extent, **facts)
            case "watermark" | "watermarks":
                return _raised(row, facts)
            case "query" | "queries":
                decoder = self._registrations
                return decoder.query(row, facts) if row.kind == "query" else decoder.queries(row, facts)
            case "replaced":
                earlier, later = np.frombuffer(row.refused or b"", INT64).reshape(2, -1)
                return Replaced(row.sequence, facts["tenant"], earlier, later)
            case "altered":
                return self._alteration(row, facts)
            case "unregister":
                return Unregistered(row.sequence, facts["tenant"], facts["query"])
            case "departure":
                departure = facts["tenant"], _departed(row, facts), facts["count"]
                call = facts["request"], bytes.fromhex(facts["digest"])
                return UnregisteredMany(row.sequence, *departure, *call, facts.get("expired", False))
            case "token" | "revoke" | "tenant" | "vacate" | "group" | "ungroup" | "webhook" | "unhook":
                return decode_list(row, facts)
            case _:
                assert_never(row.kind)

    def _alteration(self, row: LogRow, facts: dict[str, Any]) -> QueriesAltered:
        event = decode_alteration(row, facts)
        if self._parked is None:
            return event
        change = event.change if event.change.parked is None else replace(event.change, parked=None)
        change = replace(change, active=False) if event.change.parked else change
        return replace(event, change=change, parked=self._parked.among(event.query_ids))

    def _push(self, row: LogRow, facts: dict[str, Any]) -> Pushed:
        batch = self._batch(row, facts, self._streams.specs[row.stream])
        refused = np.frombuffer(row.refused or b"", INT64)
        return Pushed(
            row.sequence,
            facts["tenant"],
            row.stream,
            batch,
            RefusedTuples(refused[: facts["late"]], refused[facts["late"] :]),
            facts["watermark"],
            facts["time"],
            facts["producer"],
            facts["epoch"],
            facts["number"],
            bytes.fromhex(facts["digest"]),
            facts["rows"] - len(batch),
            facts.get("forgotten", 0),
            facts.get("before", 0 if facts["producer"] and not facts["number"] else None),
            facts.get("live", False),
            bytes.fromhex(facts.get("source", "")),
            tuple(facts.get("given", ())),
            facts.get("room", 0),
            facts.get("floor"),
            tuple(SharedBatch(bytes.fromhex(digest), rows) for digest, rows in facts.get("shared", ())),
        )

    def _batch(self, row: LogRow, facts: dict[str, Any], spec: StreamSpec) -> Batch:
        edge = self._edges.get(row.stream)
        all_stored = edge is not None and row.last_time is not None and row.last_time < edge.time
        if all_stored or not facts["rows"]:
            columns = tuple(empty_column(attribute.type) for attribute in spec.schema.attributes)
            return Batch(columns, np.zeros(0, np.int64))
        if row.last_time is None:
            raise ValueError("it has tuples, and no time")
        batch = decode_tuples(spec, checked_tuples(row, facts), row.last_time)
        times = times_of(spec, batch.columns)
        floor = facts.get("floor")
        if times is not None:
            batch = replace(batch, times=times if floor is None else np.maximum(times, floor))
        behind = None if edge is None else edge.split(batch.times, times if floor is not None else None)
        return batch if behind is None or len(behind) == len(batch) else batch.take(behind)


def _raised(row: LogRow, facts: dict[str, Any]) -> WatermarkRaised | WatermarksRaised:
    if row.kind == "watermarks":
        ids, watermarks = np.frombuffer(row.refused or b"", INT64).reshape(2, -1)
        return WatermarksRaised(row.sequence, ids, watermarks, facts["time"])
    place = row.sequence, facts["tenant"], row.stream
    return WatermarkRaised(*place, facts["watermark"], facts["time"], facts.get("live", False))


def _departed(row: LogRow, facts: dict[str, Any]) -> Array:
    """The IDs of the queries that leave by a row's event, except queries that the log has forgotten."""
    if "ids" not in facts:
        return np.zeros(0, np.int64)
    forgotten = np.zeros(0, np.int64) if row.gone is None else read_gone(row.sequence, facts["ids"], row.gone)
    if len(forgotten) == facts["ids"]:
        return np.zeros(0, np.int64)
    ids: Array = np.frombuffer(checked_tuples(row, facts), INT64)
    return np.delete(ids, forgotten)
