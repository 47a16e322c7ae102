"""The case of a window that a way reads for an aggregate. The result is all matches, or the two ends and a fold.

    window    ··mm|mmmm|mmmmmm|mmmmmm|mmmm|mm
              └ middle: from one step of tuple IDs to another   └─ Ends: the matches that are left, and what is between
                  └ inner: chunks that lie in it as a whole

A full chunk has 16 steps. A step boundary is a tuple ID that is a multiple of a step's length. `psoup.execution.ways`
lists the ways.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from psoup.aggregates.measures import counts_rows
from psoup.aggregates.recipes import Between, Fold, Recipe
from psoup.execution.aggregate.single_row import StreamAggregate, folding_of
from psoup.execution.select import many_matches
from psoup.execution.select.clause_matches import Side, known_matches
from psoup.execution.select.match_bits_at_ends import EndBits, end_bits
from psoup.execution.select.match_forms import ChunkMatches
from psoup.plan.nodes import Aggregate, Node
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.chunk_results import ALL
from psoup.work.read_budget import ReadBudget

STEPS = 16
"""The number of steps in a full chunk."""

Found = ChunkMatches | EndBits


class Inner(NamedTuple):
    """The inner chunks of a window, view.chunks[first:stop]. The window contains all their tuple IDs, [low, high)."""

    first: int
    stop: int
    low: int
    high: int


class Middle(NamedTuple):
    """The middle of a window: the tuple IDs [low, high) from its first step boundary to its last one."""

    low: int
    high: int


class Ends(NamedTuple):
    """The matches of a window, and the fold `between` its two ends.

    With a fold, the matches are only those at the two ends. Without one, they are all matches of the window.
    """

    matches: Sequence[Found]
    between: Between | None = None


@dataclass(slots=True)
class WindowCase:
    """The case of a window, the tuple IDs [low, high), that a way reads for a query over one stream."""

    view: StreamView
    clause: ClauseRecord
    low: int
    high: int
    plan: Node
    snapshot: Snapshot
    budget: ReadBudget
    folding: StreamAggregate | None = field(init=False)
    """The Aggregate of the plan and its recipe. None if the plan has no aggregates that can be folded."""
    keeps_folds: bool = field(init=False)
    """Whether the service keeps folds of chunks for the clause."""
    middle: Middle | None = field(init=False, default=None)
    """The middle of the window. None if it has none, or if the service keeps no folds."""
    folded_middle: Fold | None = field(init=False, default=None)
    """The kept fold of the middle. None if there is none."""
    _inner: Inner | None = field(init=False, default=None)
    _is_inner_unknown: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        """Look up the kept fold of the window's middle, if the plan has aggregates. O(1)."""
        self.folding = folding = None if self.view.spec.table is not None else folding_of(self.plan)
        sqc_id = self.clause.sqc_id
        self.keeps_folds = folding is not None and sqc_id < ALL and self.view.folds.fan > 1
        if folding is not None and self.keeps_folds:
            self.middle = middle_of(self.low, self.high, self.snapshot.config.chunk_rows)
            if self.middle is not None:
                self.folded_middle = self.view.folds.middle(sqc_id, folding.recipe, self.middle, self.view.turns[0])

    @property
    def side(self) -> Side:
        """The stream, the clause and the tuple IDs of the window, as `clause_matches` takes them."""
        return self.view, self.clause, self.low, self.high

    @property
    def recipe(self) -> Recipe:
        """The recipe of the folds, of a plan with aggregates."""
        assert self.folding is not None
        return self.folding.recipe

    @property
    def aggregate(self) -> Aggregate:
        """The Aggregate of the plan, of a plan with aggregates."""
        assert self.folding is not None
        return self.folding.node

    @property
    def inner(self) -> Inner | None:
        """The inner chunks of the window. None if it has none, or if the service keeps no folds. O(log chunks)."""
        if self._is_inner_unknown:
            self._is_inner_unknown = False
            self._inner = inner_of(self.view, self.low, self.high) if self.keeps_folds else None
        return self._inner


def serves(plan: Node) -> bool:
    """Whether a plan has aggregates over one stream whose states can be kept and combined exactly."""
    return folding_of(plan) is not None


def accepts_rows(case: WindowCase) -> bool:
    """Whether the service keeps folds that later invocations may use."""
    return case.folding is not None and case.view.folds.fan > 1


def inner_of(view: StreamView, low: int, high: int) -> Inner | None:
    """The closed chunks that a window contains as a whole. None if there are none. O(log chunks)."""
    chunks = view.chunks
    first = bisect_left(chunks, low, key=lambda entry: entry.data.first_id)
    stop = bisect_right(chunks, high, 0, len(chunks) - 1, key=lambda entry: entry.data.end_id)
    if first >= stop:
        return None
    return Inner(first, stop, chunks[first].data.first_id, chunks[stop - 1].data.end_id)


def middle_of(low: int, high: int, chunk_rows: int) -> Middle | None:
    """Compute the middle of a window. None if it has none. O(1)."""
    step = chunk_rows // STEPS
    first, stop = -(-low // step) * step, high // step * step
    return Middle(first, stop) if first < stop else None


def only_counts(recipe: Recipe) -> bool:
    """Whether all measures are count(*) and there is no GROUP BY. Then the ways count bits and list no matches."""
    return not recipe.keys and all(map(counts_rows, recipe.measures))


def known_in(clause: ClauseRecord, recipe: Recipe, parts: Iterable[many_matches.Part]) -> list[Found] | None:
    """The stored matches in parts of chunks. None if a part has no stored result for the clause. O(matches)."""
    matches, as_bits = list[Found](), not recipe.keys and recipe.plain is not None
    for entry, start, stop in parts:
        match = (end_bits(entry, clause, start, stop) if as_bits else None) or known_matches(entry, clause, start, stop)
        if match is None:
            return None
        if match.count or match.errors:
            matches.append(match)
    return matches
