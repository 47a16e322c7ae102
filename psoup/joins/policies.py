"""Policies: which step a hybrid takes next. Each is told what its steps did, in numbers of rows, never in seconds.

    Fixed     the same order always
    Lottery   a step wins with the tickets it has: one for each tuple it was given, one less for each it made of them
    Greedy    the step that leaves the fewest tuples for its cost, by what was seen lately; sometimes another one
    InFromOrder  none where the order of FROM needs no routes (`psoup.joins.multiway`), else as Greedy: the default

A policy may outlive a join: it knows steps by their names, which are the same in every evaluation of a plan. What
Greedy saw is kept with the plan (`Learned`), so that a join of few pieces need not try every step first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from psoup.joins.steps import Step

_EXPLORE = 32
"""The interval, in hybrids, at which the step that was not taken for longest is taken."""
_FEW = 1_024
"""Tuples of a hybrid that may try a step of which nothing is known."""
_NEAR, _SORTED = 0.1, 0.05
"""How much worse the step in the order of FROM may be, of the best or of all: what it makes need not be sorted."""
_FADE = 0.75
"""The weight that what was seen has after one more piece."""
_MOST = 1_024
"""Steps of a plan that are kept: eight sources have no more, unless their factors name many operands."""


class Policy(Protocol):
    """Chooses steps. One object serves one join at a time."""

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """The step that a hybrid of so many tuples takes, of some that it has left: at least one."""
        ...

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        """Learn what a step did: tuples in and out, and its cost in rows looked at."""
        ...


class Fixed:
    """Steps in a given order of sources (places in FROM); others after these, in the order of FROM."""

    def __init__(self, order: Sequence[int] = ()) -> None:
        self._ranks = {source: rank for rank, source in enumerate(order)}

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """The first in the order."""
        return min(steps, key=lambda step: (self._ranks.get(step.source, len(self._ranks)), step.source))

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        """Learn nothing."""


class Lottery:
    """CACQ's lottery: steps that drop tuples gain tickets. The seed makes it repeat itself."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._tickets: dict[object, float] = {}

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """A step drawn by tickets, of which each has one at least."""
        tickets = [max(self._tickets.get(step.name, 0.0), 0.0) + 1.0 for step in steps]
        return self._random.choices(steps, tickets)[0]

    def told(self, step: Step, rows_in: int, rows_out: int, cost: int) -> None:
        """Give tickets for tuples taken, take them for tuples given back; old ones fade."""
        self._tickets[step.name] = _FADE * self._tickets.get(step.name, 0.0) + rows_in - rows_out


@dataclass(slots=True)
class _Seen:
    rows_in: float = 0.0
    rows_out: float = 0.0
    cost: float = 0.0
    last: int = 0

    def faded(self, weight: float) -> _Seen:
        """The same with a part of its weight."""
        return _Seen(weight * self.rows_in, weight * self.rows_out, weight * self.cost, self.last)


class Learned:
    """What the joins of one plan saw of their steps, for the next one; at most of so many steps. Of any thread.

    A join takes a copy and leaves one in place of what is here: of two at a time the one that ends last. It decides in
    which order steps are taken, never what they find.
    """

    def __init__(self) -> None:
        self._kept: tuple[dict[object, _Seen], int] = {}, 0

    def policy(self) -> InFromOrder:
        """A policy that knows it: with the weight of few tuples, as it may be of long ago."""
        policy, (kept, choices) = InFromOrder(), self._kept
        for name, seen in kept.items():
            policy.seen[name] = seen.faded(min(1.0, _FEW / max(seen.rows_in, 1.0)))
        policy.choices = choices
        return policy

    def keep(self, policy: Greedy) -> None:
        """Keep what a policy knows at the end of its join."""
        if policy.choices > self._kept[1] and len(policy.seen) <= _MOST:
            self._kept = policy.seen, policy.choices


class Greedy:
    """Least growth for its cost first: (rows out / rows in - 1) / (cost / rows in), as seen in the last pieces.

    Of steps that were never taken the exact sizes of the sides decide; small hybrids try them. `seen`: by the names of
    steps; `choices`: how many it had.
    """

    def __init__(self) -> None:
        self.seen: dict[object, _Seen] = {}
        self.choices = 0

    def choose(self, steps: Sequence[Step], rows: int) -> Step:
        """The best by what is known."""
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
        """Learn what a step did."""
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
    """Greedy, for joins that need routes: others take their steps in the order of FROM."""
