"""HOP by plain Python and by DuckDB: the beginnings of all buckets that have a time.

    slide 5, size 12     time 7   ->   buckets 5, 0

Buckets count from Monday, 2000-01-03, like the buckets of time_bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

ORIGIN = 946_857_600_000_000
"""2000-01-03 in microseconds since 1970."""
FIRST = -9_223_372_022_400_000_000
"""The first TIMESTAMP."""
_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000


@dataclass(frozen=True, slots=True)
class HopKey:
    """The slide and the size of a HOP, in microseconds."""

    slide: int
    size: int

    def sql(self, time: str) -> str:
        """The key, as PSoup reads it."""
        return f"hop({time}, INTERVAL {self.slide} MICROSECONDS, INTERVAL {self.size} MICROSECONDS)"

    def buckets(self, time: int | None) -> list[int | None]:
        """The beginnings of the buckets that have a time, the last one first."""
        if time is None:
            return [None]
        last = (time - ORIGIN) // self.slide * self.slide + ORIGIN
        return [begin for begin in range(last, time - self.size, -self.slide) if begin >= FIRST]

    def duck_sql(self, micros: str) -> str:
        """The same as a list, as DuckDB reads it. `micros`: microseconds since 1970, as SQL."""
        time = f"({micros})::HUGEINT"
        into = f"((({time} - {ORIGIN}) % {self.slide}) + {self.slide}) % {self.slide}"
        count = f"(({self.size - 1} - {into}) // {self.slide} + 1)::BIGINT"
        begins = f"[{time} - {into} - i * {self.slide} for i in range({count})]"
        return f"CASE WHEN ({micros}) IS NULL THEN [NULL] ELSE [b for b in {begins} if b >= {FIRST}] END"


HOPS = (
    HopKey(_HOUR, 3 * _HOUR),
    HopKey(_DAY, _DAY),
    HopKey(2 * _DAY, 3 * _DAY),
    HopKey(5 * _SECOND, 60 * _SECOND),
    HopKey(7 * _SECOND, 30 * _SECOND),
    HopKey(7 * 60 * _SECOND, 60 * 60 * _SECOND),
    HopKey(13 * _HOUR, 13 * _HOUR + 1_000_000 * 13 * 60),
    HopKey(_SECOND, 100 * _SECOND),
    HopKey(9_000 * _DAY, 90_000 * _DAY),
)
"""Hops whose slides divide their sizes, or do not."""
