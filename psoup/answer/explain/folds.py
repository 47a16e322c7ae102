"""Folds that an invocation would use now, for EXPLAIN: folds in memory, and folds on disk.

window    …|··mmm|mmmmm|mmmmm|mmmmm|mm
              └ end    └ folded, or not yet: an invocation reads and folds such a chunk first
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from psoup.aggregates.measures import states_for
from psoup.aggregates.recipes import Recipe
from psoup.aggregates.spans import Span, cover, lacking
from psoup.aggregates.stored_folds import name_of, shelf_of
from psoup.config import EngineConfig, TextLimits
from psoup.execution.aggregate.single_row import folding_of
from psoup.execution.aggregate.window_case import inner_of, middle_of
from psoup.execution.select.clause_matches import Side
from psoup.plan.nodes import Node
from psoup.results.chunk_results import ALL


class Reuse(NamedTuple):
    """The folds that an invocation would combine now. `nodes`: folds of many chunks. `leaves`: folds of one chunk.

    `unfolded`: chunks that the invocation must fold first. `ends`: tuples of the window outside of all these chunks.
    `whole`: True if one stored fold combines all these chunks. `tails`: tuples of the window outside of a stored fold
    of its middle (`psoup.execution.aggregate.window_middle`); None if there is no such fold.
    """

    nodes: int
    leaves: int
    unfolded: int
    ends: int
    whole: bool
    tails: int | None


def reuse_of(side: Side, recipe: Recipe, config: EngineConfig) -> Reuse | None:
    """The folds for a window. Returns None if no chunk lies wholly in the window. May wait for the disk. O(spans)."""
    view, clause, low, high = side
    inner = inner_of(view, low, high)
    if inner is None or view.folds.fan < 2:
        return None
    base, fan = view.chunks[inner.first].data.number, view.folds.fan
    stop = base + inner.stop - inner.first
    spans = list(cover(base, stop, fan))
    leaves = sum(not level for level, _ in spans)
    _, windows = view.folds.kept_of(clause.sqc_id, recipe, view.turns[0])
    unfolded = sum(map(len, lacking(_known(side, recipe, base, stop, config.texts), base, stop, fan)))
    whole, middle = (base, stop) in windows, middle_of(low, high, config.chunk_rows)
    middle_fold = None if middle is None else view.folds.middle(clause.sqc_id, recipe, middle, view.turns[0])
    tails = None if middle is None or middle_fold is None else middle.low - low + high - middle.high
    return Reuse(len(spans) - leaves, leaves, unfolded, inner.low - low + high - inner.high, whole, tails)


def refused_ahead(side: Side, recipe: Recipe) -> str:
    """The reason why the engine does not fold the aggregates of a clause ahead of invocations; "" if it does. O(1)."""
    view, clause, *_ = side
    refusal = view.folds.refusals.of((clause.sqc_id, recipe))
    if refusal is None:
        refusal = view.packs.refusals.of((view.stream_id, tuple(states_for(recipe.measures))))
    return "" if refusal is None else refusal.why


def folded_of(side: Side, plan: Node, texts: TextLimits) -> frozenset[int]:
    """The places of the folded chunks in the middle of a window: an invocation reads none of their tuples.

    May wait for the disk. O(chunks).
    """
    view, clause, low, high = side
    folding = folding_of(plan) if view.folds.fan > 1 and clause.sqc_id < ALL else None
    recipe = None if folding is None else folding.recipe
    inner = None if recipe is None else inner_of(view, low, high)
    if inner is None or recipe is None:
        return frozenset()
    base, oldest = view.chunks[inner.first].data.number, view.chunks[0].data.number
    stop = base + inner.stop - inner.first
    _, windows = view.folds.kept_of(clause.sqc_id, recipe, view.turns[0])
    folded_spans: Set[Span] = set() if (base, stop) in windows else _known(side, recipe, base, stop, texts)
    runs = [] if (base, stop) in windows else lacking(folded_spans, base, stop, view.folds.fan)
    return frozenset(range(inner.first, inner.stop)).difference(number - oldest for run in runs for number in run)


def _known(side: Side, recipe: Recipe, base: int, stop: int, texts: TextLimits) -> Set[Span]:
    """The folded spans of the chunks [base, stop), in memory and on disk. No fold is loaded from disk."""
    view, clause, *_ = side
    spans, _ = view.folds.kept_of(clause.sqc_id, recipe, view.turns[0])
    shelf = shelf_of(view.stream_id, view.chunks, view.archived)
    if shelf is None:
        return spans.keys()
    name = name_of(view.stream_id, clause.factors, recipe, texts.value)
    return spans.keys() | shelf.spans(name, spans.keys(), base, stop, view.folds.fan)
