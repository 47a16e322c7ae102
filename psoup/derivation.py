"""The derivation of a stream: the SELECT that the service runs for it, and the streams and tables that it reads.

    CREATE STREAM big AS (SELECT sym, price FROM trades WHERE price > 100)
           Derivation ─ select ─┘                 └─ DerivedSource

A derivation belongs to the definition of its stream (`psoup.model.StreamSpec`). It has no bound query: the pump binds
the SELECT (`psoup.pumps`), so that a log can be read without the definitions of other streams.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

INSTANT = "_instant"
"""The name of the hidden last column of a derived stream: the instant at which the row entered the answer."""
PRODUCER_PREFIX = "derived:"
"""The beginning of the names of producers that only the service may use."""
SUSPEND, RESUME, RESUME_FROM_NOW = "SUSPEND", "RESUME", "RESUME FROM NOW"
"""The changes that ALTER STREAM makes of a derived stream."""


class StreamOperator(Enum):
    """Which rows of the answers R of a SELECT are pushed at an instant t. The differences are of multisets."""

    ISTREAM = "ISTREAM"
    """The rows of R(t) that R did not have at the instant before."""
    DSTREAM = "DSTREAM"
    """The rows that R had at the instant before, and R(t) does not have."""
    RSTREAM = "RSTREAM"
    """All rows of R(t)."""


@dataclass(frozen=True, slots=True)
class DerivedSource:
    """A stream or table that a derived stream reads. Sources with equal names are one stream.

    `columns`: the number of its columns at CREATE, with hidden ones. The SELECT sees no later column. `width`: for how
    many microseconds after its time a tuple is needed. None if it is needed for ever.
    """

    name: str
    stream_id: int
    columns: int
    width: int | None = None


class Halt(NamedTuple):
    """A pump that does not run: it is suspended (ALTER STREAM x SUSPEND), or stopped because its steps failed.

    `since`: the time of the event, in microseconds. If it is stopped because it found no room in memory: the
    time of the first step without room. `why`: the failure that stopped it; "" if it is suspended.
    `released`: whether its pins are released, so that the stream can only RESUME FROM NOW.
    """

    since: int
    why: str = ""
    released: bool = False

    @property
    def word(self) -> str:
        """The state of the pump in one word."""
        return "stopped" if self.why else "suspended"


class Gap(NamedTuple):
    """Instants for which a derived stream may lack rows, both ends included, in microseconds.

    `begin`: None for the first instant of the sources. `end`: None if all later instants may lack rows.
    """

    begin: int | None
    end: int | None

    def meets(self, begin: int | None, end: int | None) -> bool:
        """Whether an instant of the gap is in a window. `begin`: None without a first time. `end`: None for an empty
        window."""
        if end is None or (self.begin is not None and self.begin > end):
            return False
        return begin is None or self.end is None or self.end >= begin


EVERYTHING = -(2**63)
"""The time of a pin that keeps all tuples of a source."""
DEFAULT_LAG = 86_400_000_000
"""LAG AT MOST of a stream without it: a day, in microseconds."""
MOST_GAPS = 64
"""The most gaps that a stream remembers. The two oldest ones become one that contains both."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The text of the SELECT, its sources in the order of FROM, and the time domain of the stream.

    `event_time`: whether the instants are times of an event-time source. False if they are of the service's clock.
    `from_now`: whether the stream began at its CREATE (FROM NOW), not with all tuples that its sources kept. `every`:
    the microseconds between two instants, which are its multiples; None for all instants. `lag_limit`: LAG AT MOST, in
    microseconds. `state_limit`: STATE AT MOST, in bytes. Both are None if the statement has no such clause.

    Events change `halt` and `gaps`. Derivations that differ only in these two are equal. `halt`: why the pump does not
    run; None if it runs. `gaps`: the instants that the stream may lack, the oldest gap first.
    """

    select: str
    sources: tuple[DerivedSource, ...]
    event_time: bool
    from_now: bool = False
    operator: StreamOperator = StreamOperator.ISTREAM
    every: int | None = None
    lag_limit: int | None = None
    state_limit: int | None = None
    halt: Halt | None = field(default=None, compare=False)
    gaps: tuple[Gap, ...] = field(default=(), compare=False)

    @property
    def source_ids(self) -> tuple[int, ...]:
        """The stream IDs of the sources, each once."""
        return tuple(dict.fromkeys(source.stream_id for source in self.sources))

    @property
    def most_lag(self) -> int:
        """The value of LAG AT MOST in microseconds: a stream with a greater lag is late. The default is a day."""
        return DEFAULT_LAG if self.lag_limit is None else self.lag_limit

    def pin_of(self, stream_id: int, watermark: int | None) -> int | None:
        """The least time of a source's tuple that the stream still needs; `EVERYTHING` if it needs all tuples.

        None if the pins are released. `watermark`: of the stream.
        """
        if self.halt is not None and self.halt.released:
            return None
        width = self.width_of(stream_id)
        return EVERYTHING if watermark is None or width is None else max(watermark - width + 1, EVERYTHING)

    def pins_may_go(self, now: int) -> bool:
        """Whether the pump has pins, but has not run for longer than LAG AT MOST. `now`: in microseconds."""
        return self.halt is not None and not self.halt.released and now - self.halt.since > self.most_lag

    def width_of(self, stream_id: int) -> int | None:
        """The greatest `width` of the sources that are this stream. None if one of them has no bound."""
        widths = [source.width for source in self.sources if source.stream_id == stream_id]
        return None if None in widths else max([width for width in widths if width is not None], default=0)


def with_gap(gaps: tuple[Gap, ...], gap: Gap) -> tuple[Gap, ...]:
    """The gaps after a new one, which is the latest. At most `MOST_GAPS`."""
    more = (*gaps, gap)
    if len(more) <= MOST_GAPS:
        return more
    first, second = more[0].end, more[1].end
    return (Gap(more[0].begin, None if first is None or second is None else max(first, second)), *more[2:])


def producer_of(stream_id: int) -> str:
    """The name of the producer as which the service pushes the rows of a derived stream."""
    return f"{PRODUCER_PREFIX}{stream_id}"
