"""Derived streams in admission: rows that pumps push, instants that are closed, and changes of their sources.

    CloseInstants ──> closed = max(clock, last times): later tuples of these streams get greater times
    PushDerived ────> an ordinary push of the producer derived:<stream ID>, with the watermark of the pump's position
                      refused if the stream, or the past of a source, has changed since the rows were made

A promise is not logged, but the watermark of the derived stream is, which rests on it. So after a restart the sources
keep these promises, whatever the clock says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from psoup.admission.budget import MemoryBudget
from psoup.admission.catalog import KnownStream, KnownTenant
from psoup.admission.rows.push_times import NONE_REFUSED
from psoup.derivation import Derivation, DerivedSource, producer_of
from psoup.errors import FailedPrecondition, NotFound
from psoup.events.acknowledgements import Acknowledgement, ClosedAcknowledgement, Prepared, PushAcknowledgement
from psoup.events.commands import CloseInstants, Command, PushDerived
from psoup.events.events import Pushed, StreamCreated
from psoup.model import StreamSpec
from psoup.values.columns import Batch, empty_column

Streams = Mapping[int, KnownStream]

_SHOWN = 8
"""The most derived streams that a message names."""


def with_source_ids(derived: Derivation, tenant: KnownTenant) -> Derivation:
    """The derivation with the stream IDs of its sources. All sources must exist."""
    ids = [(source, tenant.stream(source.name).stream_id) for source in derived.sources]
    sources = tuple([DerivedSource(each.name, stream_id, each.columns, each.width) for each, stream_id in ids])
    return replace(derived, sources=sources)


def first_instant(event: StreamCreated, streams: Streams) -> Pushed | None:
    """The event that begins a stream FROM NOW: its watermark is the last instant that is closed already.

    None for FROM START, and while a source in event time has no watermark: no instant is closed then.
    """
    derived = event.spec.derived
    if derived is None or not derived.from_now:
        return None
    at = closed_instant(derived, streams, event.time)
    if at is None:
        return None
    return _event(event.sequence + 1, event.tenant, event.stream_id, event.spec, at, event.time)


def watermark_event(stream: KnownStream, sequence: int, at: int, now: int) -> Pushed:
    """The event that moves the watermark of a derived stream to the instant `at`, without rows."""
    number, rows = stream.producers.of_pump(producer_of(stream.stream_id))
    place = sequence, stream.tenant, stream.stream_id, stream.spec, at, now
    return _event(*place, number=number, rows=rows)


def closed_instant(derived: Derivation, streams: Streams, now: int) -> int | None:
    """The last instant that is closed in all sources, if sources in system time were promised the present.

    None if there is none yet.
    """
    closed = list[int]()
    for stream_id in derived.source_ids:
        stream = streams[stream_id]
        if not stream.spec.event_time:
            closed.append(now if stream.watermark is None else max(now, stream.watermark))
        elif stream.watermark is None:
            return None
        else:
            closed.append(stream.watermark - (stream.spec.derived is None))
    return min(closed)


def decide_close(command: CloseInstants, streams: Streams, sequence: int, now: int) -> Prepared:
    """Find the instant to promise for some streams in system time. `sequence`: of the last event. Changes nothing.

    Raises NotFound for a stream that was dropped.
    """
    sources = [known_stream(streams, stream_id) for stream_id in command.stream_ids]
    at = max([now, *(stream.watermark for stream in sources if stream.watermark is not None)])
    return Prepared(ClosedAcknowledgement(sequence, at=at))


def promise(acknowledgement: Acknowledgement, command: Command, streams: Streams) -> None:
    """Note the promise of an accepted CloseInstants in its streams. Does nothing for other commands."""
    if isinstance(command, CloseInstants) and isinstance(acknowledgement, ClosedAcknowledgement):
        for stream_id in command.stream_ids:
            streams[stream_id].close(acknowledgement.at)


def decide_derived_push(
    command: PushDerived, streams: Streams, budget: MemoryBudget, sequence: int, now: int
) -> Prepared:
    """Decide on the rows of a pump. `sequence`: of the last event.

    Raises NotFound if the stream was dropped. Raises FailedPrecondition, reason STEP_OUTDATED, if the rows must be made
    again. Raises ResourceExhausted if they do not fit into memory.
    """
    stream = known_stream(streams, command.stream_id)
    derived = stream.spec.derived
    if derived is None or stream.watermark != command.before:
        raise _outdated(stream.spec, "its rows go on from another instant")
    if derived.halt is not None:
        raise _outdated(stream.spec, f"the stream is {derived.halt.word}")
    for stream_id in derived.source_ids:
        source = streams[stream_id]
        if source.attached_at > command.as_of:
            raise _outdated(stream.spec, f"history was attached to {source.spec.name!r} meanwhile")
        if not source.spec.event_time and (source.closed is None or source.closed < command.at):
            raise _outdated(stream.spec, f"{source.spec.name!r} was not promised that instant")
    producer = producer_of(stream.stream_id)
    number, rows = stream.producers.of_pump(producer)
    event = _event(
        sequence + 1,
        stream.tenant,
        stream.stream_id,
        stream.spec,
        command.at,
        now,
        command=command,
        number=number,
        rows=rows,
    )
    if len(event.batch):
        budget.check_batch(stream.spec, stream.producers.needed(event) + event.batch.nbytes)
    return Prepared(PushAcknowledgement(event.sequence, False, len(event.batch), watermark=command.at), event)


def _event(
    sequence: int,
    tenant: str,
    stream_id: int,
    spec: StreamSpec,
    at: int,
    now: int,
    *,
    command: PushDerived | None = None,
    number: int = 0,
    rows: int | None = 0,
) -> Pushed:
    """The event of a step. Without rows it only moves the watermark, and has no number of the producer."""
    place = sequence, tenant, stream_id
    if command is None or not len(command.batch):
        empty = tuple([empty_column(attribute.type) for attribute in spec.schema.attributes])
        return Pushed(*place, Batch(empty, np.zeros(0, np.int64)), NONE_REFUSED, at, now)
    batch, name = command.batch, producer_of(stream_id)
    return Pushed(*place, batch, NONE_REFUSED, at, now, name, 1, number, before=rows, source=command.positions)


def close_sources(stream: KnownStream, streams: Mapping[int, KnownStream]) -> None:
    """Close the instants that the watermark of a derived stream has passed, in its sources. Ignores other streams.

    In a replay, a source that is dropped later may be missing.
    """
    if stream.spec.derived is not None and stream.watermark is not None:
        for stream_id in stream.spec.derived.source_ids:
            if stream_id in streams:
                streams[stream_id].close(stream.watermark)


def pin_of(stream: KnownStream, tenant: KnownTenant) -> int | None:
    """The least time of a tuple of the stream that derived streams still need. None if none needs one.

    O(streams of the tenant).
    """
    derived = [(other.spec.derived, other.watermark) for other in tenant.streams.values()]
    pins = [
        each.pin_of(stream.stream_id, watermark)
        for each, watermark in derived
        if each is not None and stream.stream_id in each.source_ids
    ]
    return min([pin for pin in pins if pin is not None], default=None)


def derived_from(stream: KnownStream, tenant: KnownTenant) -> list[KnownStream]:
    """The streams that derive from a stream, directly or not, each before those that it derives from.

    O(streams of the tenant).
    """
    by_source = dict[int, list[KnownStream]]()
    for other in tenant.streams.values():
        for stream_id in () if other.spec.derived is None else other.spec.derived.source_ids:
            by_source.setdefault(stream_id, []).append(other)
    deriving, ahead = dict[int, KnownStream](), [stream.stream_id]
    while ahead:
        for other in by_source.get(ahead.pop(), ()):
            if other.stream_id not in deriving:
                deriving[other.stream_id] = other
                ahead.append(other.stream_id)
    return [deriving[stream_id] for stream_id in sorted(deriving, reverse=True)]  # a source has a lesser ID


def refuse_deriving(stream: KnownStream, deriving: list[KnownStream]) -> None:
    """Raise FailedPrecondition if streams derive from a stream that is to be dropped."""
    if not deriving:
        return
    names = ", ".join(other.spec.name for other in deriving[:_SHOWN]) + ", …" * (len(deriving) > _SHOWN)
    raise FailedPrecondition(
        f"streams derive from {stream.spec.noun} {stream.spec.name!r}: {names}; drop them first, or drop the"
        f" {stream.spec.noun} with CASCADE (--cascade in the shell, cascade=True in Python), which drops them, too",
        reason="STREAM_DERIVES",
        stream=stream.spec.name,
        derived=names,
    )


def known_stream(streams: Streams, stream_id: int) -> KnownStream:
    """The stream with this ID. Raises NotFound if it was dropped."""
    stream = streams.get(stream_id)
    if stream is None:
        raise NotFound(f"stream {stream_id} was dropped", reason="UNKNOWN_STREAM")
    return stream


def _outdated(spec: StreamSpec, why: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"the rows for stream {spec.name!r} are outdated, as {why}; make them again",
        reason="STEP_OUTDATED",
        stream=spec.name,
    )
