"""The eddy: a loop that takes partial tuples from the first source through one step for each other source.

    stack   hybrid {r}, rows 0..8191        a hybrid: partial tuples, the sources they have, and the steps left
            hybrid {r, t}   next of these   a step gives hybrids piece by piece; each is completed before the next
            hybrid {r, t, s} complete       last in, first out: a piece for each level is all that is in memory

The eddy knows only the steps that are left; the policy chooses the next one. A step is left if a key or a band connects
its source with a source of the hybrid. Without such a step the next one is a product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.joins.key_columns import Edge
from psoup.joins.policies import Policy
from psoup.joins.sort_builds import Builds
from psoup.joins.steps import Places, Step, StepFigures
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Hybrid:
    """`count` partial tuples. `places`: their rows of each source, or None for a source that is not joined yet.

    `done`: a bit for each joined source.
    """

    places: tuple[Places | None, ...]
    count: int
    done: int


class Routes:
    """The steps from sets of sources to a further source. Each step is made on first use."""

    def __init__(self, edges: Sequence[Edge], builds: Builds) -> None:
        self._edges = edges
        self._builds = builds
        self._largest = max(len(rows) for rows in builds.rows)
        self._steps: dict[tuple[int, int], Step] = {}
        self._left: dict[int, list[Step]] = {}

    @property
    def figures(self) -> list[StepFigures]:
        """Statistics of each step, in the order of first use."""
        return [step.figures for step in self._steps.values()]

    def left(self, done: int) -> list[Step]:
        """The steps that can come after `done`: to connected sources, or to all if no source is connected."""
        steps = self._left.get(done)
        if steps is None:
            all_left = [self.step(s, done) for s in range(len(self._builds.rows)) if not done >> s & 1]
            steps = self._left[done] = [step for step in all_left if step.edges] or all_left
        return steps

    def step(self, source: int, done: int) -> Step:
        """The step to a source from the sources of `done`."""
        step = self._steps.get((source, done))
        if step is None:
            towards = [edge.towards(source) for edge in self._edges if source in (edge.left, edge.right)]
            edges = [edge for edge in towards if done >> edge.left & 1]
            share = len(self._builds.rows[source]) / self._largest
            step = self._steps[source, done] = Step(source, edges, self._builds, share)
        return step

    def next_in_from(self, done: int) -> Step:
        """The step to the first source in FROM that is not in `done`, whether it is connected or not."""
        source = 0
        while done >> source & 1:
            source += 1
        return self.step(source, done)


class Eddy:
    """An evaluation of the join for some rows of the first source.

    `in_order`: whether all steps so far followed the order of FROM, so that tuples come in that order. `forced`:
    whether the next steps must follow it.
    """

    def __init__(self, routes: Routes, policy: Policy, piece: int, sources: int) -> None:
        self._routes = routes
        self._policy = policy
        self._piece = piece
        self._sources = sources
        self.in_order = True
        self.forced = False

    def complete(self, rows: Places, count: int) -> Iterator[list[Array]]:
        """Yield the complete tuples, a piece at a time: int64 rows of each source."""
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
        """Choose the next step of a hybrid, and yield the hybrids that the step makes from it."""
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
    """The rows of a source in some tuples (int64[n])."""
    if isinstance(places, slice):
        return tuples + places.start if places.start else tuples
    return places.take(tuples)
