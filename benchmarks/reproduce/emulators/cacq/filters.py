"""CACQ's eddy over grouped filters, emulated: pieces of tuples, each with the queries that it may still satisfy.

    tuples ─> policy ─> filter on a ─> queries that its predicates refuse leave ─> no query left: out
                 └────> filter on b …

A filter is a step as the product's policies know it, so these route here what they route in joins.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Query = dict[int, int]
"""The least value of each attribute that is in a predicate, not in the answer itself."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A grouped filter: all predicates on one attribute. The product's policies read these fields of a step."""

    source: int
    share: float = 1.0
    edges: tuple[str, ...] = ("filter",)

    @property
    def name(self) -> int:
        """The key of the statistics."""
        return self.source


class Random:
    """Steps by lot, whatever they do."""

    def __init__(self) -> None:
        self._random = random.Random(1)

    def choose(self, steps: Sequence[Any], rows: int) -> Any:
        """Any."""
        return self._random.choice(steps)

    def told(self, step: Any, rows_in: int, rows_out: int, cost: int) -> None:
        """Learn nothing."""


@dataclass
class Filters:
    """The filters of some queries. `visits`: tuples that went through a filter; `first`: those that began there."""

    queries: list[Query]
    policy: Any
    piece: int = 16
    visits: int = 0
    first: dict[int, int] = field(default_factory=dict)

    def route(self, tuples: npt.NDArray[np.int64]) -> None:
        """Let tuples (int64[attributes, n]) through, piece by piece."""
        needs = [
            sum(1 << number for number, filters in enumerate(self.queries) if at in filters)
            for at in range(len(tuples))
        ]
        for start in range(0, tuples.shape[1], self.piece):
            piece = tuples[:, start : start + self.piece]
            alive = np.full(piece.shape[1], (1 << len(self.queries)) - 1, np.int64)
            self._through(piece, alive, frozenset(at for at, need in enumerate(needs) if need), needs)

    def _through(
        self, piece: npt.NDArray[np.int64], alive: npt.NDArray[np.int64], left: frozenset[int], needs: list[int]
    ) -> None:
        """Filters, until none is left that a query of a tuple has a predicate in."""
        began = False
        while len(alive) and left:
            step = self.policy.choose([Filter(at) for at in sorted(left)], len(alive))
            at, left = step.source, left - {step.source}
            wanting = int(np.count_nonzero(alive & needs[at]))  # the rest has no query left that this filter is about
            if not began:
                self.first[at] = self.first.get(at, 0) + wanting
            began = True
            self.visits += wanting
            applied = passed = 0
            for number, query in enumerate(self.queries):
                if at not in query:
                    continue
                wanted = (alive >> number & 1) == 1
                refused = wanted & (piece[at] <= query[at])
                applied, passed = applied + int(wanted.sum()), passed + int((wanted & ~refused).sum())
                alive = alive & ~(refused.astype(np.int64) << number)
            self.policy.told(step, applied, passed, wanting)
            going = np.zeros(len(alive), np.bool_)
            for filters in left:
                going |= (alive & needs[filters]) != 0
            piece, alive = piece[:, going], alive[going]
