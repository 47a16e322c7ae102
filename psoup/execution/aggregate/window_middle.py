"""The middle of a window, folded: what lies between its first and its last step is kept for the next invocation.

    window    ··mm|mmmm|mmmmmm|mmmmmm|mmmm|mm        steps |   of tuple IDs, 16 of them as long as a full chunk
              tail └ middle: one fold      └ tail

A window moves with each tuple, its middle with one of 4,096. What is between two steps never changes, not even in the
open chunk, as tuples only come behind it. The first invocation that needs a middle notes it, the second one folds it:
so an answer to be had once costs what it did. Of many groups the fold of the inner chunks stays as it is: to join it
with those of two ends takes longer than to read these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from psoup.aggregates.folds import FoldRoom, Folds
from psoup.aggregates.recipes import Between, Fold, Recipe
from psoup.data.chunk import ChunkView
from psoup.execution.aggregate.window_ends import MOST_MATCHES
from psoup.execution.select import many_matches
from psoup.execution.select.clause_matches import ChunkMatches, known_matches
from psoup.execution.select.match_bits_at_ends import EndBits, end_bits
from psoup.kernels.columns import count_bits
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import StreamView

STEPS = 16
"""Steps in a full chunk."""
_ROWS = 32
"""Rows of the two ends for each group of the inner chunks, from which on these are joined."""

Found = ChunkMatches | EndBits


class Middle(NamedTuple):
    """The tuple IDs [low, high) of a window that are between two steps."""

    low: int
    high: int


def middle_of(low: int, high: int, chunk_rows: int) -> Middle | None:
    """The middle of a window; None if it has none. O(1)."""
    step = chunk_rows // STEPS
    first, stop = -(-low // step) * step, high // step * step
    return Middle(first, stop) if first < stop else None


def tails_of(
    view: StreamView, clause: ClauseRecord, recipe: Recipe, low: int, high: int, middle: Middle
) -> list[Found] | None:
    """The matches of a window outside its middle; None if they are not known, or have errors. O(tails)."""
    tails, as_bits = list[Found](), not recipe.keys and recipe.plain is not None
    for ids in ((low, middle.low), (middle.high, high)):
        for entry, start, stop in many_matches.parts_of(view, *ids):
            bits = end_bits(entry, clause, start, stop) if as_bits and isinstance(entry.data, ChunkView) else None
            match = bits or known_matches(entry, clause, start, stop)
            if match is None or match.errors:
                return None
            if match.count:
                tails.append(match)
    return tails if len(tails) <= MOST_MATCHES else None


def folded(
    room: FoldRoom,
    folds: Folds,
    middle: Middle,
    between: Between,
    matches: Sequence[Found],
    fold_of: Callable[[Sequence[Found]], Fold],
) -> tuple[list[Found], Between] | None:
    """Fold the middle of a window, if it was noted before and that pays; returns what is left of its matches, and what
    is between them. O(matches)."""
    if not room.noted(folds, middle) or any(match.errors for match in matches):
        return None
    tails, left, right = list[Found](), list[Found](), list[Found]()
    for match in matches:
        before, within, after = _cut(match, middle)
        tails += [tail for tail in (before, after) if tail.count]
        (left if match.data.first_id < between.begins else right).append(within)
    recipe, fold = between.recipe, between.fold
    if recipe.keys and (fold is None or _ROWS * fold.groups > sum([match.count for match in (*left, *right)])):
        return None
    if len(tails) > MOST_MATCHES:
        return None
    whole = recipe.joined([fold_of(left), *([] if fold is None else [fold]), fold_of(right)])
    if recipe.keys:
        whole = folds.tables.numbered(recipe.keys, whole)
    room.keep_middle(folds, middle, whole)
    return tails, Between(recipe, between.window, whole, middle.low)


def _cut(match: Found, middle: Middle) -> list[Found]:
    """The matches before the middle, those in it, and those behind it."""
    edges = [at - match.data.first_id for at in middle]
    if isinstance(match, EndBits):
        first, last = [min(max(at, match.start), match.stop) for at in edges]
        bits, parts = match.bits, ((match.start, first), (first, last), (last, match.stop))
        return [EndBits(match.entry, bits, *rows, count_bits(bits, *rows)) for rows in parts]
    cuts = np.searchsorted(match.offsets, edges)
    return [ChunkMatches(match.entry, own, 0, match.covered) for own in np.split(match.offsets, cuts)]
