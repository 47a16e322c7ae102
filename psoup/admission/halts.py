"""Halts of derived streams: SUSPEND and RESUME, pumps that fail, and pins of pumps that do not run.

    running ── ALTER STREAM x SUSPEND ──> suspended ──┬── LAG AT MOST has passed ──> its pins are released
       │ │  └─ a step has failed three times ─> stopped ─┘                                │      ^
       │ └─ its rows wait for room in memory: for longer than LAG AT MOST ─> stopped ─────│──────┘
       └<────────── ALTER STREAM x RESUME ─────────┘<──────── RESUME FROM NOW ────────────┘

RESUME goes on with the first instant that is not derived. RESUME FROM NOW leaves out the instants up to the last closed
one: the gap. Streams over this stream lack the same instants, so they get a gap in the same transaction. The functions
change nothing. They return events, which admission adopts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psoup.admission.catalog import KnownStream, KnownTenant
from psoup.admission.derivations import (
    Streams,
    closed_instant,
    derived_from,
    known_stream,
    watermark_event,
)
from psoup.derivation import RESUME, RESUME_FROM_NOW, SUSPEND, Derivation, Gap, Halt, with_gap
from psoup.errors import FailedPrecondition
from psoup.events.acknowledgements import Prepared, StreamAcknowledgement
from psoup.events.commands import ReleasePins, StopPump
from psoup.events.events import StreamAltered
from psoup.model import time_text
from psoup.plan.canonical import describe_duration
from psoup.sql import Alteration, alter_statement, create_statement

MOST_REASON = 2_000
"""The most characters of a failure in the log."""


def decide_halt(
    stream: KnownStream, change: str, tenant: KnownTenant, streams: Streams, sequence: int, now: int
) -> Prepared:
    """The decision on SUSPEND, RESUME or RESUME FROM NOW. `sequence`: of the last event.

    It has no event if the pump is in that state already, so that a call can be repeated. Raises FailedPrecondition:
    reason NOT_DERIVED for a stream without a pump, PINS_RELEASED if the sources lack tuples that a RESUME needs.
    """
    derived = stream.spec.derived
    if derived is None:
        raise FailedPrecondition(
            f"stream {stream.spec.name!r} is not derived, and {change} is for streams of CREATE STREAM … AS (SELECT …):"
            " its clients stop pushing, or go on",
            reason="NOT_DERIVED",
            stream=stream.spec.name,
        )
    if (change == SUSPEND) == (derived.halt is not None):
        return _nothing(stream, sequence)
    if change == SUSPEND:
        return _only(stream, replace(derived, halt=Halt(now)), SUSPEND, sequence, now)
    if change == RESUME:
        _check_pinned(stream, derived)
        return _only(stream, replace(derived, halt=None), RESUME, sequence, now)
    return _from_now(stream, derived, tenant, streams, sequence, now)


def decide_stop(command: StopPump, streams: Streams, sequence: int, now: int) -> Prepared:
    """The decision to stop a pump, without an event if it does not run. `sequence`: of the last event.

    Raises NotFound if the stream was dropped.
    """
    stream = known_stream(streams, command.stream_id)
    derived = stream.spec.derived
    if derived is None or derived.halt is not None:
        return _nothing(stream, sequence)
    why = command.why[:MOST_REASON] or "its steps fail"
    return _only(stream, replace(derived, halt=Halt(now, why)), SUSPEND, sequence, now)


def decide_release(command: ReleasePins, streams: Streams, sequence: int, now: int) -> Prepared:
    """The decision to release the pins of a pump, without an event if they must stay. `sequence`: of the last event.

    A pump that waits for room in memory is stopped, too. Raises NotFound if the stream was dropped.
    """
    stream = known_stream(streams, command.stream_id)
    derived = stream.spec.derived
    halt = None if derived is None else derived.halt or command.halt
    if derived is None or halt is None or not replace(derived, halt=halt).pins_may_go(min(command.at, now)):
        return _nothing(stream, sequence)
    halt = halt._replace(why=halt.why[:MOST_REASON], released=True)
    return _only(stream, replace(derived, halt=halt), SUSPEND, sequence, now)


def _from_now(
    stream: KnownStream, derived: Derivation, tenant: KnownTenant, streams: Streams, sequence: int, now: int
) -> Prepared:
    """The events that let a stream go on with the instants after the present, and name the gap."""
    at = closed_instant(derived, streams, now)
    if at is None or (stream.watermark is not None and at <= stream.watermark):
        return _only(stream, replace(derived, halt=None), RESUME_FROM_NOW, sequence, now)
    gap = Gap(None if stream.watermark is None else stream.watermark + 1, at)
    further = _deriving(derived_from(stream, tenant), stream, gap, sequence, now)
    resumed = replace(derived, halt=None, gaps=with_gap(derived.gaps, gap))
    event = _altered(stream, resumed, RESUME_FROM_NOW, sequence + len(further) + 1, now)
    content = watermark_event(stream, event.sequence + 1, at, now)
    return Prepared(StreamAcknowledgement(content.sequence, False, stream.stream_id), event, content, first=further)


def _deriving(
    deriving: Sequence[KnownStream], stream: KnownStream, gap: Gap, sequence: int, now: int
) -> tuple[StreamAltered, ...]:
    """The events that give a gap to the streams that derive from a stream, sources before the streams over them."""
    gaps, events = {stream.stream_id: gap}, list[StreamAltered]()
    for other in reversed(deriving):
        derived = other.spec.derived
        assert derived is not None
        inherited = [_inherited(gaps[i], derived.width_of(i)) for i in derived.source_ids if i in gaps]
        gap = gaps[other.stream_id] = _around(inherited)
        after = replace(derived, gaps=with_gap(derived.gaps, gap))
        events.append(_altered(other, after, "" if derived.halt is None else SUSPEND, sequence + len(events) + 1, now))
    return tuple(events)


def _inherited(gap: Gap, width: int | None) -> Gap:
    """The gap of a stream whose source has a gap. `width`: the `DerivedSource.width` of the source."""
    return Gap(gap.begin, None if gap.end is None or width is None else gap.end + width)


def _around(gaps: Sequence[Gap]) -> Gap:
    """The smallest gap that contains all of some gaps, which begin at the same instant."""
    ends = [gap.end for gap in gaps]
    return Gap(gaps[0].begin, None if None in ends else max([end for end in ends if end is not None]))


def _check_pinned(stream: KnownStream, derived: Derivation) -> None:
    if derived.halt is None or not derived.halt.released:
        return
    raise FailedPrecondition(
        f"stream {stream.spec.name!r} was {derived.halt.word} at {time_text(derived.halt.since)}, for longer than its"
        f" LAG AT MOST {describe_duration(derived.most_lag)}: its sources no longer have all the tuples that it must"
        f" still read; write ALTER STREAM {stream.spec.name} RESUME FROM NOW, which leaves out the instants in between",
        reason="PINS_RELEASED",
        stream=stream.spec.name,
    )


def _nothing(stream: KnownStream, sequence: int) -> Prepared:
    return Prepared(StreamAcknowledgement(sequence, True, stream.stream_id))


def _only(stream: KnownStream, derived: Derivation, change: str, sequence: int, now: int) -> Prepared:
    event = _altered(stream, derived, change, sequence + 1, now)
    return Prepared(StreamAcknowledgement(event.sequence, False, stream.stream_id), event)


def _altered(stream: KnownStream, derived: Derivation, change: str, sequence: int, now: int) -> StreamAltered:
    """The event of a change. `change`: the change of its statement; "" for RESUME."""
    spec = replace(stream.spec, derived=derived)
    text = alter_statement(Alteration(spec.name, pump=change or RESUME))
    return StreamAltered(sequence, stream.tenant, stream.stream_id, spec, create_statement(spec), text, now)
