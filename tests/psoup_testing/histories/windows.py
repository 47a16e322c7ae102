"""Random BEGIN-END clauses: as text for PSoup, and as numbers for the naive model."""

from __future__ import annotations

from dataclasses import dataclass

from psoup_testing.histories.expressions import Maker
from psoup_testing.histories.values import iso_time

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Edge:
    """A bound: `start`, `now` minus microseconds, `rows` (NOW minus that many tuples) or `at` a time."""

    anchor: str
    amount: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """Both bounds; None where the clause is left out (START, NOW)."""

    begin: Edge | None = None
    end: Edge | None = None

    @property
    def lower(self) -> Edge:
        """The begin that holds."""
        return self.begin or Edge("start")

    @property
    def upper(self) -> Edge:
        """The end that holds."""
        return self.end or Edge("now")

    @property
    def kind(self) -> str:
        """Snapshot, landmark, sliding or rows."""
        if "rows" in (self.lower.anchor, self.upper.anchor):
            return "rows"
        if self.lower.anchor == "now":
            return "sliding"
        return "landmark" if self.upper.anchor == "now" else "snapshot"

    def sql(self) -> str:
        """The clauses as PSoup reads them; empty if both are left out."""
        parts = []
        if self.begin is not None:
            parts.append(f"BEGIN {self.begin.text}")
        if self.end is not None:
            parts.append(f"END {self.end.text}")
        return " ".join(parts)


WINDOW_KINDS = ("landmark", "sliding", "snapshot", "rows")
START = Edge("start", 0, "(START)")
NOW = Edge("now", 0, "(NOW)")


def ago(make: Maker, limit: int) -> Edge:
    """NOW minus up to `limit` seconds, in one of the ways to write it."""
    seconds = make.number(0, limit)
    form = make.pick(("(NOW - {n})", "(NOW - {n} SECONDS)", "NOW - INTERVAL '{n}' SECOND", "(NOW - {m} MINUTES)"))
    if "{m}" in form:
        return Edge("now", seconds // 60 * 60 * SECOND, form.format(m=seconds // 60))
    return Edge("now", seconds * SECOND, form.format(n=seconds))


def at(make: Maker, base: int, span: int) -> Edge:
    """A time within `span` seconds around `base` (microseconds)."""
    micros = base + make.number(-10, span) * SECOND
    if micros >= 0 and make.number(0, 1):
        return (
            Edge("at", micros, f"({micros // SECOND})") if micros % SECOND == 0 else Edge("at", micros, _stamp(micros))
        )
    return Edge("at", micros, _stamp(micros))


def _stamp(micros: int) -> str:
    return f"TIMESTAMP '{iso_time(micros)}'"


def rows(make: Maker, low: int, high: int) -> Edge:
    """NOW minus a number of tuples."""
    count = make.number(low, high)
    return Edge("rows", count, f"(NOW - {count} ROWS)")


def draw_window(make: Maker, kind: str, base: int, span: int) -> Window:
    """A window of one kind, about times from `base` on over `span` seconds."""
    if kind == "landmark":
        begin = make.pick((None, START, at(make, base, span)))
        return Window(begin, make.pick((None, NOW)))
    if kind == "sliding":
        begin = ago(make, span)
        tight = make.number(0, 3) == 0
        end = (
            Edge("now", begin.amount // 2, f"(NOW - {begin.amount // 2 // SECOND})")
            if tight
            else make.pick((None, NOW))
        )
        if end is not None and end.amount % SECOND:
            end = None
        return Window(begin, end)
    if kind == "snapshot":
        first, second = at(make, base, span), at(make, base, span)
        low, high = sorted((first, second), key=lambda edge: edge.amount)
        return Window(make.pick((low, START, None)), high)
    newest = rows(make, 1, 20)
    oldest = rows(make, newest.amount + 1, 200)
    return Window(oldest, make.pick((None, NOW, newest)))
