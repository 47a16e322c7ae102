"""Policies: the choice of the step that a hybrid takes next. They learn from numbers of rows, never from seconds.

    Fixed        the same order always
    Lottery      a step wins with its tickets: one for each tuple that it took, less one for each that it gave
    Greedy       the step with the least growth for its cost, by recent statistics; now and then another one
    InFromOrder  no routes where the order of FROM needs none (`psoup.joins.multiway`), else as Greedy: the default

A policy may outlive a join, because a step has the same name in every evaluation of a plan. `Learned` keeps the
statistics of Greedy with the plan. So a join of few pieces need not try every step first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from psoup.joins.steps import Step

_EXPLORE = 32
"""Of this many hybrids, one takes the step that was not taken for the longest time."""
_FEW = 1_024
"""The most tuples of a hybrid that may try a step without statistics."""
_NEAR = 0.1
"""The share of the best rank by which the next step in FROM may be worse and still win: its tuples need no sort."""
_SORTED = 0.05
"""The difference of ranks by which the next step in FROM may always be worse and still win."""
_FADE = 0.75
"""The weight of earlier statistics after each piece."""
_MAX_STEPS = 1_024
"""The most steps of a plan that are remembered. Eight sources have no more, unless factors name many operands."""


class Policy(Protocol):
    """Chooses steps. One object serves one join at a time."""

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """Choose one of the remaining steps (at least one) of a hybrid with `rows` tuples."""
        ...

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        """Record the result of a step: tuples in and out, and its cost in rows looked at."""
        ...


class Fixed:
    """Chooses steps by a given order of sources, which are places in FROM.

    Sources that the order lacks come last, in the order of FROM.
    """

    def __init__(self, order: Sequence[int] = ()) -> None:
        self._ranks = {source: rank for rank, source in enumerate(order)}

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """The first step in the order."""
        return min(steps, key=lambda step: (self._ranks.get(step.source, len(self._ranks)), step.source))

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        """Record no result."""


class Lottery:
    """CACQ's lottery: steps that drop tuples gain tickets. A seed makes it repeatable."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._tickets: dict[object, float] = {}

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """Draw a step by its tickets. Each step has at least one ticket."""
        tickets = [max(self._tickets.get(step.name, 0.0), 0.0) + 1.0 for step in steps]
        return self._random.choices(steps, tickets)[0]

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        """Add a ticket for each tuple in, and subtract one for each tuple out. Old tickets fade."""
        self._tickets[step.name] = _FADE * self._tickets.get(step.name, 0.0) + rows_in - rows_out


@dataclass(slots=True)
class _Seen:
    rows_in: float = 0.0
    rows_out: float = 0.0
    cost: float = 0.0
    last: int = 0

    def faded(self, weight: float) -> _Seen:
        """The same statistics with a lower weight."""
        return _Seen(weight * self.rows_in, weight * self.rows_out, weight * self.cost, self.last)


class Learned:
    """Step statistics of earlier joins of one plan. Any thread may use them.

    A join takes a copy and writes it back at its end. Of two joins at the same time, only one leaves its statistics.
    They decide the order of steps, never the tuples of the join.
    """

    def __init__(self) -> None:
        self._kept: tuple[dict[object, _Seen], int] = {}, 0

    def policy(self) -> InFromOrder:
        """A policy that starts with these statistics. They get the weight of `_FEW` tuples, as they may be old."""
        policy, (statistics, choices) = InFromOrder(), self._kept
        for name, seen in statistics.items():
            policy.seen[name] = seen.faded(min(1.0, _FEW / max(seen.rows_in, 1.0)))
        policy.choices = choices
        return policy

    def keep(self, policy: Greedy) -> None:
        """Keep the statistics of a policy at the end of its join, unless the kept ones have as many choices."""
        if policy.choices > self._kept[1] and len(policy.seen) <= _MAX_STEPS:
            self._kept = policy.seen, policy.choices


class Greedy:
    """Chooses the step with the least growth for its cost: (rows out / rows in - 1) / (cost / rows in).

    The rows and costs are those of recent pieces. A step that was never taken is ranked by the exact sizes of the
    sides, and small hybrids try it. `seen`: statistics by the names of steps. `choices`: the number of choices so far.
    """

    def __init__(self) -> None:
        self.seen: dict[object, _Seen] = {}
        self.choices = 0

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """The best step by the statistics."""
        if len(steps) == 1:
            return steps[0]
        self.choices += 1
        if rows <= _FEW:
            unknown = [step for step in steps if step.name not in self.seen and step.edges]
            if unknown:
                return min(unknown, key=lambda step: step.share)
        if self.choices % _EXPLORE == 0:
            return min(steps, key=lambda step: seen.last if (seen := self.seen.get(step.name)) else 0)
        ranks = [self._rank(step) for step in steps]
        best = min(ranks)
        first = min(range(len(steps)), key=lambda place: steps[place].source)
        near = ranks[first] <= best + max(_NEAR * abs(best), _SORTED)
        return steps[first if near else ranks.index(best)]

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        """Record the result of a step."""
        seen = self.seen.setdefault(step.name, _Seen())
        seen.rows_in = _FADE * seen.rows_in + rows_in
        seen.rows_out = _FADE * seen.rows_out + rows_out
        seen.cost = _FADE * seen.cost + cost
        seen.last = self.choices

    def _rank(self, step: Step) -> float:
        seen = self.seen.get(step.name)
        if seen is None or not seen.rows_in:
            return step.share - 1.0
        return (seen.rows_out - seen.rows_in) / max(seen.cost, 1.0)


class InFromOrder(Greedy):
    """The policy Greedy for joins that need routes. Other joins take their steps in the order of FROM."""
