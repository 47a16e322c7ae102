"""The completeness of an answer, as fields and as a sentence: missing tuples, and whether the answer can change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psoup_client import html
from psoup_client.derivations import DelayInfo, GapInfo
from psoup_client.phrases import counted, verb
from psoup_client.schema import window_kind
from psoup_client.times import from_proto
from psoup_proto.v1 import types_pb2


@dataclass(frozen=True, slots=True)
class SourceCompleteness(html.Facts):
    """Completeness of one source of a join; the fields are those of `Completeness`.

    `alias`: the name of the source in the statement. `idle`: its stream has been silent for longer than its IDLE AFTER,
    so NOW does not wait for it. Then the answer is not final, and NOW may step back when the stream goes on.

    `may_take_away`: whether tuples of this source take rows away from the answer. This holds for NOT EXISTS, NOT IN,
    ANTI JOIN, EXCEPT, and for the optional side of an outer join. A tuple that the answer lacks may then be the reason
    for a row. `older_dropped`: such a source has the window BEGIN (START), and retention dropped older tuples.
    """

    alias: str
    stream: str
    watermark: dt.datetime | None
    begin: dt.datetime | None
    end: dt.datetime | None
    final: bool
    late: int
    ahead: int
    pending: int
    truncated: bool
    window_kind: str
    late_in_window: int | None = None
    ahead_in_window: int | None = None
    pending_in_window: int | None = None
    idle: bool = False
    may_take_away: bool = False
    older_dropped: bool = False
    halt: str = ""
    gaps: tuple[GapInfo, ...] = ()
    delay: DelayInfo | None = None

    @staticmethod
    def of(message: types_pb2.SourceCompleteness) -> SourceCompleteness:
        """Convert the message on the wire."""
        return SourceCompleteness(
            alias=message.alias,
            stream=message.stream,
            idle=message.idle,
            may_take_away=message.may_take_away,
            older_dropped=message.older_dropped,
            **_shared(message),
        )


@dataclass(frozen=True, slots=True)
class Completeness(html.Facts):
    """Completeness of an answer: the tuples that it contains, and the missing ones.

    `sequence`: the last event that the answer reflects. `begin`, `end`: the closed window; None is unbounded or, for a
    window of rows, empty. `final`: no tuple can come into the window any more. `late`, `ahead`: tuples of the stream
    that were refused so far, as too late or too far ahead of the clock. `late_in_window`, `ahead_in_window`: the
    refused tuples with times in the window, which the answer lacks; None if their number is not known any more.
    `pending`: tuples of the stream that still wait for the watermark; `pending_in_window`: the pending tuples in the
    window. `truncated`: the window begins before the oldest kept tuple. `errors`: tuples that are missing because a
    value in WHERE could not be computed, in the chunks that the window touches. Each tuple counts once, and only if the
    rest of WHERE does not exclude it. `select_errors`: values of the SELECT list, and keys of ORDER BY, that could not
    be computed and are NULL. `unknown`: rows of a join AS OF without a version of the table, for which a version
    may have held. They are older than its HISTORY. Or the table has TIMESTAMP BY, and no version of the key yet: its
    first version may come late. An answer in pieces has these two numbers when all pieces are read.

    `sources`: the same for each source of a join, in the order of FROM; () for a query over one stream. For a join,
    `watermark`, `begin` and `end` are the least of the sources' values, and the counts are sums.

    `halt`: "suspended", "stopped" or "waiting" (for room in memory) for a derived stream that gets no rows at present,
    else "". `delay`: the stream, the time and the reason. `gaps`: the instants of the window for which a derived stream
    may lack rows. For a join, `halt` and `delay` are of the first such source, and `gaps` of all sources.
    """

    sequence: int
    now: dt.datetime | None
    watermark: dt.datetime | None
    begin: dt.datetime | None
    end: dt.datetime | None
    final: bool
    late: int
    ahead: int
    pending: int
    truncated: bool
    errors: int
    window_kind: str
    late_in_window: int | None = None
    ahead_in_window: int | None = None
    pending_in_window: int | None = None
    select_errors: int = 0
    sources: tuple[SourceCompleteness, ...] = ()
    unknown: int = 0
    halt: str = ""
    gaps: tuple[GapInfo, ...] = ()
    delay: DelayInfo | None = None

    @staticmethod
    def of(message: types_pb2.Completeness) -> Completeness:
        """Convert the message on the wire."""
        return Completeness(
            sequence=message.sequence,
            now=_optional(message, "now"),
            errors=message.errors,
            select_errors=message.select_errors,
            sources=tuple(map(SourceCompleteness.of, message.sources)),
            unknown=message.unknown,
            **_shared(message),
        )

    def sentence(self) -> str:
        """Say the same in words: "May still grow; 3 tuples of the window still wait for the watermark."."""
        kinds = [source.window_kind for source in self.sources] or [self.window_kind]
        open_words = "rows may come and leave" if "table" in kinds else "may still grow"
        up_to = "" if self.end is None else f" up to {str(self.end).removesuffix('+00:00')}Z"
        parts = [f"final{up_to}: nothing can change it any more" if self.final else open_words]
        if self.sources:
            parts += _held(self.now, self.sources, self.final)
            for source in self.sources:
                parts += [f"{source.alias}: {text}" for text in _of_source(source, self.final)]
        else:
            parts += _of_source(self, self.final)
        if self.errors:
            missing = f"{counted(self.errors, 'tuple')} of the chunks that the window touches left out"
            parts.append(f"{missing}, as a value of WHERE could not be computed")
        if self.select_errors:
            values = counted(self.select_errors, "value")
            parts.append(f"{values} of the SELECT list could not be computed, NULL instead")
        if self.unknown:
            rows = f"{counted(self.unknown, 'row')} may lack a version of the table"
            parts.append(
                f"{rows}: {verb(self.unknown, 'it is', 'they are')} older than its HISTORY, or the key has none yet"
            )
        if len(parts) == 1:
            parts.append("nothing late, nothing pending")
        text = "; ".join(parts) + "."
        return text[0].upper() + text[1:]

    def __repr__(self) -> str:
        return f"<Completeness: {self.sentence()}>"

    def _repr_html_(self) -> str:
        """Show the sentence and its facts in a notebook, and for a join also the facts of each source."""
        facts = {name: value for name, value in self._facts().items() if name != "sources"}
        return html.paragraph(self.sentence()) + html.facts(facts) + html.items(self.sources)


def _held(now: dt.datetime | None, sources: Sequence[SourceCompleteness], final: bool) -> list[str]:
    """Name the sources whose watermarks hold back the NOW of a join.

    The list is empty if no source is further ahead.
    """
    if now is None:
        empty = [source.alias for source in sources if source.watermark is None]
        return [f"NOW begins when something comes to {' and to '.join(empty)}"] if empty else []
    within = dt.timedelta(microseconds=1)  # NOW of a join AS OF is just below the watermark of the table
    marks = [(source.alias, source.watermark) for source in sources if source.watermark is not None and not source.idle]
    behind = [alias for alias, watermark in marks if now <= watermark <= now + within]
    further = any(source.watermark is not None and source.watermark > now + within for source in sources)
    if final or not behind or not further:
        return []
    return [f"NOW waits at {now:%Y-%m-%d %H:%M:%S}Z for {' and '.join(behind)}"]


def _of_source(source: Completeness | SourceCompleteness, final: bool) -> list[str]:
    """Describe which tuples of a source are missing, and why. An answer over one stream is its own source."""
    parts = _waiting(source, final)
    parts += _refused(source.late, source.late_in_window, "came too late")
    parts += _refused(source.ahead, source.ahead_in_window, "lay too far ahead of the clock")
    if source.delay is not None:
        parts.append(source.delay.phrase(source.halt))
    if source.gaps:
        parts.append(f"the stream lacks rows {' and '.join(gap.phrase() for gap in source.gaps)}")
    if source.truncated:
        parts.append("it lacks tuples that are not kept any more")
    if isinstance(source, SourceCompleteness):
        if source.older_dropped:
            parts.append("older tuples are not kept any more")
        if source.idle:
            parts.append("the stream is idle, so NOW did not wait for it")
        if source.may_take_away and (parts or not source.final):
            parts.insert(0, "its tuples may take rows away")
    return parts


def _waiting(source: Completeness | SourceCompleteness, final: bool) -> list[str]:
    """Describe how many tuples wait for the watermark. They may still enter a window that is not final."""
    if not source.pending or final:
        return []
    if source.pending_in_window:
        count, where = source.pending_in_window, "window"
    else:
        count, where = source.pending, "stream"
    return [f"{counted(count, 'tuple')} of the {where} still {verb(count, 'waits', 'wait')} for the watermark"]


def _refused(count: int, inside: int | None, why: str) -> list[str]:
    """Describe how many tuples of the stream were refused, and how many of these are missing in the window."""
    if not count:
        return []
    text = f"{counted(count, 'tuple')} of the stream {why} and {verb(count, 'was', 'were')} refused"
    if inside is None:
        return [f"{text}, in this window or not"]
    if not inside:
        return [f"{text}, {verb(count, 'not', 'none')} in this window"]
    if inside == count:
        return [f"{text}, {verb(count, '', 'all ')}in this window"]
    return [f"{text}, {inside:,} in this window"]


def _shared(message: types_pb2.Completeness | types_pb2.SourceCompleteness) -> dict[str, Any]:
    """Read the fields that the message of an answer and the message of a source have in common."""
    return {
        "watermark": _optional(message, "watermark"),
        "begin": _optional(message, "begin"),
        "end": _optional(message, "end"),
        "final": message.final,
        "late": message.late,
        "ahead": message.ahead,
        "pending": message.pending,
        "truncated": message.truncated,
        "window_kind": window_kind(message.window_kind),
        "late_in_window": _count(message, "late_in_window"),
        "ahead_in_window": _count(message, "ahead_in_window"),
        "pending_in_window": _count(message, "pending_in_window"),
        "halt": message.halt,
        "gaps": tuple(map(GapInfo.of, message.gaps)),
        "delay": DelayInfo.of(message.delay) if message.HasField("delay") else None,
    }


def _count(message: types_pb2.Completeness | types_pb2.SourceCompleteness, field: Any) -> int | None:
    return int(getattr(message, field)) if message.HasField(field) else None


def _optional(message: types_pb2.Completeness | types_pb2.SourceCompleteness, field: Any) -> dt.datetime | None:
    return from_proto(getattr(message, field)) if message.HasField(field) else None
