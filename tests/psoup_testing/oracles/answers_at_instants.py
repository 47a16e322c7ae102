"""The answers of a SELECT at all instants of a small history, from DuckDB. Also the rows that enter and leave.

    template    SELECT DISTINCT a.k FROM {a} WHERE a.v > 2
    PSoup       SELECT DISTINCT a.k FROM r [BEGIN (NOW - 10 SECONDS) END (NOW - 3 SECONDS)] a WHERE a.v > 2
    DuckDB      SELECT DISTINCT a.k FROM (SELECT * FROM r WHERE its tuples are in the window at the instant) a WHERE …

The answer changes only at instants at which a tuple comes into a window or leaves one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

SECOND = 1_000_000
Row = tuple[object, ...]
Changes = list[tuple[int, Row]]
"""Rows with the instants at which they enter, or leave, in order."""


@dataclass(frozen=True)
class Windowed:
    """A source of a SELECT in a window: tuples come `late` seconds after their time, and stay for `width` seconds.

    `retention`: the seconds for which the stream keeps its tuples. They limit the window. `implied`: PSoup has no
    brackets.
    """

    stream: str
    late: int
    width: int
    retention: int
    implied: bool = False

    def in_psoup(self, alias: str) -> str:
        """The item of FROM of PSoup."""
        if self.implied:
            return f"{self.stream} {alias}"
        return f"{self.stream} [BEGIN (NOW - {self.width} SECONDS) END (NOW - {self.late} SECONDS)] {alias}"

    @property
    def stays(self) -> int:
        """For how long a tuple is in the window after its time, in microseconds."""
        return min(self.width, self.retention) * SECOND

    def in_duckdb(self, alias: str, at: int) -> str:
        """The item of FROM of DuckDB: the tuples in the window at an instant."""
        age = f"{at} - epoch_us(stamp)"
        return f"(SELECT * FROM {self.stream} WHERE {age} BETWEEN {self.late * SECOND} AND {self.stays}) {alias}"


@dataclass(frozen=True)
class Answers:
    """A SELECT with its sources by alias. `template`: names a source as {alias}, and has {of} after a table AS OF a."""

    template: str
    sources: Mapping[str, Windowed]

    @property
    def select(self) -> str:
        """The SELECT for PSoup."""
        items = {alias: source.in_psoup(alias) for alias, source in self.sources.items()}
        return self.template.format(**items, of=" AS OF a")

    def at(self, duck: duckdb.DuckDBPyConnection, at: int) -> Counter[Row]:
        """The rows of the answer at an instant, microseconds."""
        items = {alias: source.in_duckdb(alias, at) for alias, source in self.sources.items()}
        return Counter([clean(row) for row in duck.execute(self.template.format(**items, of="")).fetchall()])

    def instants(self, duck: duckdb.DuckDBPyConnection, last: int) -> list[int]:
        """The instants up to `last` at which tuples come into windows, or have left them."""
        instants = set[int]()
        for source in self.sources.values():
            times = [time for (time,) in duck.execute(f"SELECT epoch_us(stamp) FROM {source.stream}").fetchall()]
            instants.update([time + source.late * SECOND for time in times])
            instants.update([time + source.stays + 1 for time in times])
        return sorted(at for at in instants if at <= last)

    def changes(self, duck: duckdb.DuckDBPyConnection, last: int) -> tuple[Changes, Changes]:
        """The rows that enter up to the instant `last`, and those that leave. Rows of one instant are sorted."""
        before, entered, left = self.at(duck, -(2**62)), Changes(), Changes()
        for at in self.instants(duck, last):
            now = self.at(duck, at)
            entered += [(at, row) for row in in_order((now - before).elements())]
            left += [(at, row) for row in in_order((before - now).elements())]
            before = now
        return entered, left


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order of their values, NULL last."""
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


def clean(row: Row) -> Row:
    """A row whose floats have no negative zero."""
    return tuple([0.0 if isinstance(value, float) and not math.isnan(value) and not value else value for value in row])
