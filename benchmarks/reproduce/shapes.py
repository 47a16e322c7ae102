"""Predicates on series: each returns the number that it measured, and whether this number is as published.

    value       the figure at a point                       against an expected figure
    ratio       one series by another, at a point           against bounds
    order       the least ratio of neighbours, at a point   above 1: the series ascend as they are listed
    crossover   the place where two series are equal        against an interval of places
    monotone    the least step from a point to the next     above 1: the series rises; below 1: it falls somewhere
    flat        the greatest figure by the least            against a limit

A `Shape` is a published statement with its measurement. Where PSoup is known to differ, `Differs` states how, with a
figure that is tested as well. So a stated difference excuses itself, and no other one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

Series = Mapping[Any, float]
"""Figures by their points. Points are numbers in ascending order, or names."""

FACTOR = 2.0
"""A stated difference holds if the measured figure is within this factor of the stated one."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured number, and whether it is as published."""

    value: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Differs:
    """A stated difference from the paper: the number that PSoup has instead, and the reason. NaN: it has no number."""

    value: float
    why: str

    def covers(self, measured: float) -> bool:
        """Whether a measured number is the stated one, within a factor of two."""
        if math.isnan(self.value) or math.isnan(measured):
            return math.isnan(self.value) and math.isnan(measured)
        low, high = sorted((self.value / FACTOR, self.value * FACTOR))
        return low <= measured <= high


class State(Enum):
    """The state of a shape or of an experiment, the worst last."""

    AGREES = "agrees"
    WAITS = "waits"
    DIFFERS = "differs"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Shape:
    """A published statement, what was measured of it, and the stated difference if there is one."""

    text: str
    measured: Measured
    differs: Differs | None = None

    @property
    def state(self) -> State:
        """AGREES, DIFFERS in the stated way, or FAILED."""
        if self.measured.holds:
            return State.AGREES
        covered = self.differs is not None and self.differs.covers(self.measured.value)
        return State.DIFFERS if covered else State.FAILED

    @property
    def figure(self) -> str:
        """The measured number in four digits; `none` if there is no such number."""
        return _digits(self.measured.value)

    def reason(self) -> str:
        """The reason of the state; of a shape that agrees, that a difference was stated in vain."""
        if self.state is State.DIFFERS and self.differs is not None:
            return self.differs.why
        if self.state is State.AGREES:
            if self.differs is None:
                return ""
            return f"although {_digits(self.differs.value)} was expected, a difference from the paper"
        if self.differs is None:
            return "no difference is stated"
        return f"the stated difference is {_digits(self.differs.value)}"

    def verdict(self) -> str:
        """The state in words, with the measured number."""
        if self.state is State.AGREES:
            return ", ".join(filter(None, (f"agrees ({self.figure})", self.reason())))
        if self.state is State.DIFFERS:
            return f"differs ({self.figure}) because {self.reason()}"
        return f"FAILED ({self.figure}): {self.reason()}"

    def to_dict(self) -> dict[str, Any]:
        """The shape as it is in the JSON file. Numbers that JSON lacks are texts there: `nan`, `inf`."""
        differs = self.differs and {"value": _json(self.differs.value), "why": self.differs.why}
        state, measured = self.state.value, _json(self.measured.value)
        return {"text": self.text, "state": state, "measured": measured, "differs": differs}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Shape:
        """The shape of a row of the JSON file."""
        differs = row["differs"] and Differs(float(row["differs"]["value"]), row["differs"]["why"])
        return cls(row["text"], Measured(float(row["measured"]), row["state"] == State.AGREES.value), differs)


def _digits(figure: float) -> str:
    """A number in four digits; `none` for NaN."""
    return "none" if math.isnan(figure) else f"{figure:,.4g}"


def _json(figure: float) -> float | str:
    return float(f"{figure:.6g}") if math.isfinite(figure) else str(figure)


def value(series: Series, at: Any, expected: float, within: float = 1e-9) -> Measured:
    """The figure at a point; it holds if it is off by at most `within` (a share of the expected figure, or of 1)."""
    figure = series[at]
    return Measured(figure, abs(figure - expected) <= within * max(abs(expected), 1.0))


def ratio(over: Series, under: Series, at: Any, low: float = 0.0, high: float = math.inf) -> Measured:
    """`over` by `under` at a point; it holds if it is in [low, high]."""
    figure = over[at] / under[at] if under[at] else math.inf
    return Measured(figure, low <= figure <= high)


def order(at: Any, *ascending: Series) -> Measured:
    """The least ratio of a series to the one before it, at a point. It holds if it is above 1."""
    figure = min(after[at] / before[at] for before, after in pairwise(ascending))
    return Measured(figure, figure > 1)


def crossover(first: Series, second: Series, low: float, high: float) -> Measured:
    """The first place where two series are equal, on straight lines between points; NaN without one.

    It holds if it is in [low, high]. Points that one series lacks are left out.
    """
    points = [point for point in first if point in second]
    gaps = [first[point] - second[point] for point in points]
    for (x, gap), (next_x, next_gap) in pairwise(zip(points, gaps, strict=True)):
        if gap and gap * next_gap <= 0:
            place = x + (next_x - x) * gap / (gap - next_gap)
            return Measured(place, low <= place <= high)
    return Measured(math.nan, False)


def monotone(series: Series, *, rises: bool = True, slack: float = 0.0) -> Measured:
    """The least factor from a point to the next (of a series that falls: from a point to the one before).

    It holds if it is at least 1 - slack. `slack` is for noise of timed series.
    """
    steps = (after / before if rises else before / after for before, after in pairwise(series.values()))
    figure = min(steps)
    return Measured(figure, figure >= 1 - slack)


def flat(series: Series, within: float) -> Measured:
    """The greatest figure by the least; it holds if it is at most `within`."""
    figure = max(series.values()) / min(series.values())
    return Measured(figure, figure <= within)
