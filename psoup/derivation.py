"""The derivation of a stream: the SELECT that the service runs for it, and the streams and tables that it reads.

    CREATE STREAM big AS (SELECT sym, price FROM trades WHERE price > 100)
           Derivation ─ select ─┘                 └─ DerivedSource

A derivation belongs to the definition of its stream (`psoup.model.StreamSpec`). It has no bound query: the pump binds
the SELECT (`psoup.pumps`), so that a log can be read without the definitions of other streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

INSTANT = "_instant"
"""The name of the hidden last column of a derived stream: the instant at which the row entered the answer."""
PRODUCER_PREFIX = "derived:"
"""The beginning of the names of producers that only the service may use."""
EVERYTHING = -(2**63)
"""The pin of a stream that needs all tuples of a source."""


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

    `columns`: the number of its columns at CREATE, with hidden ones. The SELECT sees no later column. `width`: a tuple
    meets no tuple that comes more than so many microseconds later. None without a bound.
    """

    name: str
    stream_id: int
    columns: int
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Derivation:
    """The text of the SELECT, its sources in the order of FROM, and the time domain of the stream.

    `event_time`: whether the instants are times of an event-time source. False if they are of the service's clock.
    `from_now`: whether the stream began at its CREATE (FROM NOW), not with all tuples that its sources kept.
    `every`: the instants are the multiples of so many microseconds; None for all instants. `lag_limit`: LAG AT MOST, in
    microseconds. `state_limit`: STATE AT MOST, in bytes. None if the statement does not say it.
    """

    select: str
    sources: tuple[DerivedSource, ...]
    event_time: bool
    from_now: bool = False
    operator: StreamOperator = StreamOperator.ISTREAM
    every: int | None = None
    lag_limit: int | None = None
    state_limit: int | None = None

    @property
    def source_ids(self) -> tuple[int, ...]:
        """The stream IDs of the sources, each once."""
        return tuple(dict.fromkeys(source.stream_id for source in self.sources))

    def pin_of(self, stream_id: int, watermark: int | None) -> int:
        """The least time of a tuple of a source that the stream still needs; `EVERYTHING` if it needs all of them.

        `watermark`: of the stream.
        """
        width = self.width_of(stream_id)
        return EVERYTHING if watermark is None or width is None else watermark - width + 1

    def width_of(self, stream_id: int) -> int | None:
        """The greatest `width` of the sources that are this stream. None if one of them has no bound."""
        widths = [source.width for source in self.sources if source.stream_id == stream_id]
        return None if None in widths else max([width for width in widths if width is not None], default=0)


def producer_of(stream_id: int) -> str:
    """The producer whose batches are the rows of a derived stream."""
    return f"{PRODUCER_PREFIX}{stream_id}"
