"""The middle of a window, folded: what lies between its first and its last step is kept for the next invocation.

    window    ··mm|mmmm|mmmmmm|mmmmmm|mmmm|mm        steps |   of tuple IDs, 16 of them as long as a full chunk
              tail └ middle: one fold      └ tail

A window moves with each tuple, its middle with one of 4,096. What is between two steps never changes, not even in the
open chunk, as tuples only come behind it. The first invocation that needs a middle notes it, the second one folds it:
so an answer to be had once costs what it did. Tails are bits that are kept; of other matches nothing is gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.aggregates.folds import FoldRoom, Folds
from psoup.aggregates.recipes import Between, Fold, Recipe
from psoup.answer import together
from psoup.answer.end_bits import EndBits, end_bits
from psoup.answer.matches import Matches
from psoup.answer.two_ends import MOST_MATCHES, states_of
from psoup.data.chunk import ChunkView
from psoup.kernels.columns import count_bits
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import StreamView

STEPS = 16
"""Steps in a full chunk."""


class Middle(NamedTuple):
    """The tuple IDs [low, high) of a window that are between two steps."""

    low: int
    high: int


def middle_of(recipe: Recipe, low: int, high: int, chunk_rows: int) -> Middle | None:
    """The middle of a window; None if it has none, or the recipe takes more than columns. O(1)."""
    step = chunk_rows // STEPS
    first, stop = -(-low // step) * step, high // step * step
    return Middle(first, stop) if first < stop and not recipe.keys and recipe.plain is not None else None


def tails_of(view: StreamView, clause: ClauseRecord, low: int, high: int, middle: Middle) -> list[EndBits] | None:
    """The matches of a window outside its middle; None if they are not kept as bits. O(tails / 64)."""
    tails = list[EndBits]()
    for ids in ((low, middle.low), (middle.high, high)):
        for entry, start, stop in together.parts_of(view, *ids):
            match = end_bits(entry, clause, start, stop) if isinstance(entry.data, ChunkView) else None
            if match is None:
                return None
            if match.count:
                tails.append(match)
    return tails if len(tails) <= MOST_MATCHES else None


def folded(
    room: FoldRoom, folds: Folds, middle: Middle, between: Between, matches: Sequence[Matches]
) -> tuple[list[EndBits], Between] | None:
    """Fold the middle of a window, if it was noted before; returns what is left of its matches, and what is between
    them. O(matches)."""
    if not room.noted(folds, middle):
        return None
    tails, inside = list[EndBits](), list[EndBits]()
    for match in matches:
        if not isinstance(match, EndBits):
            return None
        first_id, start, stop = match.data.first_id, match.start, match.stop
        first = min(max(middle.low - first_id, start), stop)
        last = min(max(middle.high - first_id, first), stop)
        for into, rows in ((tails, (start, first)), (inside, (first, last)), (tails, (last, stop))):
            if count := count_bits(match.bits, *rows):
                into.append(EndBits(match.entry, match.bits, *rows, count))
    states = None if len(tails) > MOST_MATCHES else states_of(between, inside)
    if states is None:
        return None
    fold = between.fold
    matched, errors, failed = (0, 0, 0) if fold is None else (fold.matched, fold.errors, fold.failed)
    whole = Fold(matched + sum([match.count for match in inside]), errors, failed, tuple(states))
    room.keep_middle(folds, middle, whole)
    return tails, Between(between.recipe, between.window, whole, middle.low)
