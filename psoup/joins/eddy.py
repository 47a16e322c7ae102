"""The eddy: one loop that takes partial tuples from the first source through a step for each other one.

    stack   hybrid {r}, rows 0..8191        a hybrid: partial tuples, the sources they have, and the steps left
            hybrid {r, t}   next of these   a step gives hybrids piece by piece; each goes on before the next is made
            hybrid {r, t, s} complete       last in, first out: a piece for each level is all that is in memory

The eddy knows only which steps are left; the policy says which of them is next. A step is left if a key or a band
connects its source with those that the hybrid has; if none does, it is a product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.columns import Array
from psoup.joins.key_columns import Edge
from psoup.joins.policies import Policy
from psoup.joins.sort_builds import Builds
from psoup.joins.steps import Places, Step, StepFigures


@dataclass(frozen=True, slots=True)
class Hybrid:
    """`count` partial tuples: their rows of each source, None of those they lack; `done`: a bit for each they have."""

    places: tuple[Places | None, ...]
    count: int
    done: int


class Routes:
    """The steps between sets of sources, each made when it is first asked for. `figures`: what they did."""

    def __init__(self, edges: Sequence[Edge], builds: Builds) -> None:
        self._edges, self._builds = edges, builds
        self._largest = max(len(rows) for rows in builds.rows)
        self._steps: dict[tuple[int, int], Step] = {}
        self._left: dict[int, list[Step]] = {}

    @property
    def figures(self) -> list[StepFigures]:
        """What each step did, in the order in which they were first considered."""
        return [step.figures for step in self._steps.values()]

    def left(self, done: int) -> list[Step]:
        """The steps of the interest list that can be taken: connected ones, or all if there is none."""
        steps = self._left.get(done)
        if steps is None:
            all_left = [self.step(s, done) for s in range(len(self._builds.rows)) if not done >> s & 1]
            steps = self._left[done] = [step for step in all_left if step.edges] or all_left
        return steps

    def step(self, source: int, done: int) -> Step:
        """The step to a source from those that are done."""
        step = self._steps.get((source, done))
        if step is None:
            towards = [edge.towards(source) for edge in self._edges if source in (edge.left, edge.right)]
            edges = [edge for edge in towards if done >> edge.left & 1]
            share = len(self._builds.rows[source]) / self._largest
            step = self._steps[source, done] = Step(source, edges, self._builds, share)
        return step

    def next_in_from(self, done: int) -> Step:
        """The step to the first source in FROM that is left, connected or not."""
        source = 0
        while done >> source & 1:
            source += 1
        return self.step(source, done)


class Eddy:
    """A run over some rows of the first source. `in_order`: whether all steps so far were taken in the order of FROM,
    so that its tuples are in that order; `forced`: whether the next ones have to be."""

    def __init__(self, routes: Routes, policy: Policy, piece: int, sources: int) -> None:
        self._routes, self._policy, self._piece = routes, policy, piece
        self._sources = sources
        self.in_order = True
        self.forced = False

    def complete(self, rows: Places, count: int) -> Iterator[list[Array]]:
        """Complete tuples, at most a piece at a time: int64 rows of each source."""
        places = (rows, *[None] * (self._sources - 1))
        stack = [self._stepped(Hybrid(places, count, 1))]
        whole = (1 << self._sources) - 1
        while stack:
            hybrid = next(stack[-1], None)
            if hybrid is None:
                stack.pop()
            elif hybrid.done == whole:
                yield [place for place in hybrid.places if isinstance(place, np.ndarray)]
            else:
                stack.append(self._stepped(hybrid))

    def _stepped(self, hybrid: Hybrid) -> Iterator[Hybrid]:
        """The hybrids that the next step makes of a hybrid."""
        first = self._routes.next_in_from(hybrid.done)
        step = first if self.forced else self._policy.choose(self._routes.left(hybrid.done), hybrid.count)
        self.in_order &= step is first
        source, done, out, before = step.source, hybrid.done | 1 << step.source, 0, step.figures.candidates
        for tuples, rows in step.pairs(hybrid.places, hybrid.count, self._piece):
            places = [None if place is None else taken(place, tuples) for place in hybrid.places]
            places[source] = rows
            out += len(rows)
            yield Hybrid(tuple(places), len(rows), done)
        self._policy.told(step, hybrid.count, out, hybrid.count + step.figures.candidates - before)


def taken(places: Places, tuples: Array) -> Array:
    """The rows that some tuples (int64[n]) have of a source."""
    if isinstance(places, slice):
        return tuples + places.start if places.start else tuples
    return places.take(tuples)
