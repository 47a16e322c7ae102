"""Derived streams, as the service describes them: their SELECT, the state of their pump, and their gaps."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from psoup_client import html
from psoup_client.times import from_proto
from psoup_proto.v1 import streams_pb2, types_pb2


@dataclass(frozen=True, slots=True)
class GapInfo(html.Facts):
    """Instants for which a derived stream may lack rows, both ends included.

    `begin`: None for the first instant of its sources. `end`: None if all later instants may lack rows.
    """

    begin: dt.datetime | None
    end: dt.datetime | None

    @staticmethod
    def of(message: types_pb2.Gap) -> GapInfo:
        """Convert the message on the wire."""
        begin = from_proto(message.begin) if message.HasField("begin") else None
        return GapInfo(begin, from_proto(message.end) if message.HasField("end") else None)

    def phrase(self) -> str:
        """The instants in words."""
        begin = "the beginning" if self.begin is None else _text(self.begin)
        return f"from {begin} on" if self.end is None else f"from {begin} to {_text(self.end)}"


@dataclass(frozen=True, slots=True)
class DelayInfo(html.Facts):
    """Why a derived stream gets no rows at present.

    `stream`: the stream that is suspended or stopped, or that waits for room in memory. It is the derived stream
    itself, or one from which it derives. `why`: the failure, or why there is no room; "" if it is suspended.
    """

    stream: str
    since: dt.datetime
    why: str

    @staticmethod
    def of(message: types_pb2.Delay) -> DelayInfo:
        """Convert the message on the wire."""
        return DelayInfo(message.stream, from_proto(message.since), message.why)

    def phrase(self, halt: str) -> str:
        """The same in words. `halt`: the state of the stream."""
        state = "waits for room in memory" if halt == "waiting" else f"is {halt}"
        why = f": {self.why}" if self.why else ""
        return f"stream {self.stream} {state} since {_text(self.since)}, so no rows come{why}"


@dataclass(frozen=True, slots=True)
class PinInfo(html.Facts):
    """The tuples that a source keeps for a derived stream, whatever its RETENTION.

    `time`: the least time of a tuple that it keeps, None for all tuples. `released`: it keeps none, as the stream has
    been suspended or stopped for longer than LAG AT MOST. `unread`: tuples that the stream has not read.
    """

    source: str
    time: dt.datetime | None
    released: bool
    unread: int

    @staticmethod
    def of(message: streams_pb2.SourcePin) -> PinInfo:
        """Convert the message on the wire."""
        time = from_proto(message.time) if message.HasField("time") else None
        return PinInfo(message.source, time, message.released, message.unread)


@dataclass(frozen=True, slots=True)
class DerivationInfo(html.Facts):
    """The SELECT of a derived stream, and how far it is. Counts are since the start of the service.

    `select`: the SELECT whose new rows are the tuples. `sources`: what it reads. `from_now`: the stream began at its
    CREATE. `reached`: the instant up to which it is derived, None if nothing is. `lag`: from there to the newest tuple
    of a source. `held_by`: the source that holds it back, "" if none does. `tuples`: tuples of the sources
    that were read. `rows`: rows that were derived. `errors`: values that could not be computed. `unknown`: rows without
    a version of a table, which is older than HISTORY. `failure`: why it is stopped, or why its rows find no room. Or
    why its last step failed, which is done again. "" without a failure.

    `operator`: ISTREAM, DSTREAM or RSTREAM. `every`: the time between two instants, None for all instants. `lag_limit`:
    LAG AT MOST, None without it, which means a day. `state_limit`: STATE AT MOST in bytes, 0 without it.

    `state`: "running", "rebuilding", "waiting" (for room in memory), "suspended" or "stopped". `since`: when it was
    suspended or stopped, or began to wait; None while it runs. `late`: its lag is more than LAG AT MOST. `gaps`:
    instants for which it may lack rows, as it was resumed from a later one. `pins`: what its sources keep for it.
    `state_rows`, `state_bytes`: what its operators keep. `state_bound`: the bound of that state in words, "" before the
    first step.
    """

    select: str
    sources: tuple[str, ...]
    from_now: bool
    reached: dt.datetime | None
    lag: dt.timedelta
    held_by: str
    tuples: int
    rows: int
    errors: int
    unknown: int
    failure: str
    operator: str = "ISTREAM"
    every: dt.timedelta | None = None
    lag_limit: dt.timedelta | None = None
    state_limit: int = 0
    state: str = "running"
    since: dt.datetime | None = None
    late: bool = False
    gaps: tuple[GapInfo, ...] = ()
    pins: tuple[PinInfo, ...] = ()
    state_rows: int = 0
    state_bytes: int = 0
    state_bound: str = ""

    @staticmethod
    def of(message: streams_pb2.Derivation) -> DerivationInfo:
        """Convert the message on the wire."""
        return DerivationInfo(
            message.select,
            tuple(message.sources),
            message.from_now,
            from_proto(message.reached) if message.HasField("reached") else None,
            message.lag.ToTimedelta(),
            message.held_by,
            message.tuples,
            message.rows,
            message.errors,
            message.unknown,
            message.failure,
            message.operator,
            message.every.ToTimedelta() if message.HasField("every") else None,
            message.lag_limit.ToTimedelta() if message.HasField("lag_limit") else None,
            message.state_limit,
            message.state,
            from_proto(message.since) if message.HasField("since") else None,
            message.late,
            tuple(map(GapInfo.of, message.gaps)),
            tuple(map(PinInfo.of, message.pins)),
            message.state_rows,
            message.state_bytes,
            message.state_bound,
        )


def _text(instant: dt.datetime) -> str:
    return f"{instant.replace(tzinfo=None)}Z"
