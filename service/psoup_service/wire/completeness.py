"""The message of an answer's completeness: for each source, the tuples that it contains, and those that it lacks."""

from __future__ import annotations

from collections.abc import Callable

from psoup.answer.completeness import Completeness, SourcePart
from psoup.derivation import Gap
from psoup.plan.nodes import Source
from psoup.plan.standing_query import StandingQuery
from psoup.published.delays import WAITING
from psoup_proto.v1 import types_pb2
from psoup_service.wire.convert import WINDOW_KINDS, joint_kind, timestamp
from psoup_service.wire.json_messages import timestamp_text


def gap(left_out: Gap) -> types_pb2.Gap:
    """The message of instants that a derived stream has left out."""
    return types_pb2.Gap(begin=timestamp(left_out.begin), end=timestamp(left_out.end))


def _halt(part: SourcePart) -> str:
    return "" if part.delay is None else part.delay.state


def _delay(part: SourcePart) -> types_pb2.Delay | None:
    if part.delay is None:
        return None
    return types_pb2.Delay(stream=part.delay.stream, since=timestamp(part.delay.since), why=part.delay.why)


def completeness_message(contents: Completeness, query: StandingQuery | None = None) -> types_pb2.Completeness:
    """The message of an answer's completeness. `query`: the query, if it may be a join."""
    if query is not None and query.sides:
        return _of_join(contents, query)
    (source,) = contents.sources
    return types_pb2.Completeness(
        sequence=contents.sequence,
        now=timestamp(contents.now),
        watermark=timestamp(source.watermark),
        begin=timestamp(source.begin),
        end=timestamp(source.end),
        final=source.final,
        late=source.late,
        ahead=source.ahead,
        pending=source.pending,
        truncated=source.truncated,
        errors=contents.errors,
        window_kind=WINDOW_KINDS[source.window_kind],
        late_in_window=source.late_inside,
        ahead_in_window=source.ahead_inside,
        pending_in_window=source.pending_inside,
        halt=_halt(source),
        delay=_delay(source),
        gaps=map(gap, source.gaps),
    )


def _of_join(contents: Completeness, query: StandingQuery) -> types_pb2.Completeness:
    """The completeness of a join's answer: one part for each source, and figures combined over all sources."""
    parts = contents.sources
    return types_pb2.Completeness(
        sequence=contents.sequence,
        now=timestamp(contents.now),
        watermark=timestamp(_together(min, [part.watermark for part in parts])),
        begin=timestamp(_together(min, [part.begin for part in parts])),
        end=timestamp(_together(min, [part.end for part in parts])),
        final=contents.final,
        late=sum(part.late for part in parts),
        ahead=sum(part.ahead for part in parts),
        pending=sum(part.pending for part in parts),
        truncated=any(part.truncated for part in parts),
        errors=contents.errors,
        window_kind=joint_kind([WINDOW_KINDS[part.window_kind] for part in parts]),
        late_in_window=_together(sum, [part.late_inside for part in parts]),
        ahead_in_window=_together(sum, [part.ahead_inside for part in parts]),
        pending_in_window=sum(part.pending_inside for part in parts),
        sources=[_part(part, source) for part, source in zip(parts, query.sources, strict=True)],
        halt=next(filter(None, map(_halt, parts)), ""),
        delay=next(filter(None, map(_delay, parts)), None),
        gaps=[gap(each) for part in parts for each in part.gaps],
    )


def _together(combine: Callable[[list[int]], int], values: list[int | None]) -> int | None:
    """Combine the values of all sources. Returns None if a value is None."""
    given = [value for value in values if value is not None]
    return combine(given) if len(given) == len(values) else None


def _part(part: SourcePart, source: Source) -> types_pb2.SourceCompleteness:
    return types_pb2.SourceCompleteness(
        alias=source.alias,
        stream=source.spec.name,
        watermark=timestamp(part.watermark),
        begin=timestamp(part.begin),
        end=timestamp(part.end),
        final=part.final,
        late=part.late,
        ahead=part.ahead,
        pending=part.pending,
        truncated=part.truncated,
        window_kind=WINDOW_KINDS[part.window_kind],
        late_in_window=part.late_inside,
        ahead_in_window=part.ahead_inside,
        pending_in_window=part.pending_inside,
        idle=part.idle,
        may_take_away=part.may_take_away,
        older_dropped=part.older_dropped,
        halt=_halt(part),
        delay=_delay(part),
        gaps=map(gap, part.gaps),
    )


def derived_phrases(contents: types_pb2.Completeness) -> list[str]:
    """The phrases about derived streams that an answer lacks rows of: "the derived stream x is suspended since …"."""
    delay = contents.delay
    state = "waits for room in memory" if contents.halt == WAITING else f"is {contents.halt}"
    why = f": {delay.why}" if delay.why else ""
    halt = [f"the derived stream {delay.stream} {state} since {timestamp_text(delay.since)}{why}"]
    return [*(halt if contents.halt else ()), *(f"the derived stream lacks rows {_span(gap)}" for gap in contents.gaps)]


def _span(left_out: types_pb2.Gap) -> str:
    begin = timestamp_text(left_out.begin) if left_out.HasField("begin") else "the beginning"
    return f"from {begin} to {timestamp_text(left_out.end)}" if left_out.HasField("end") else f"from {begin} on"
