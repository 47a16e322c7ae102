"""The way that takes the middle of a window from a kept fold: the part from its first to its last step boundary.

    window    ··mm|mmmm|mmmmmm|mmmmmm|mmmm|mm        steps |   of tuple IDs, 16 of them as long as a full chunk
              tail └ middle: one fold      └ tail

A window moves with each tuple, its middle with one tuple in 4,096. The part between two boundaries never changes, not
even in the open chunk, as new tuples get greater IDs. The first invocation that needs a middle notes it, and the second
folds it. So an answer that is wanted once costs no more than its rows. With many groups the middle is not folded.
Then joining the fold of the inner chunks with the ends would take longer than reading the ends.
"""

from __future__ import annotations

import numpy as np

from psoup import budgets
from psoup.aggregates.folds import Folds
from psoup.aggregates.recipes import Between, Recipe
from psoup.data.chunk import ChunkView
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.fold_rows import fold_of
from psoup.execution.aggregate.window_case import Ends, Found, Inner, Middle, WindowCase, only_counts
from psoup.execution.aggregate.window_ends import MOST_MATCHES
from psoup.execution.select import many_matches
from psoup.execution.select.clause_matches import known_matches
from psoup.execution.select.match_bits_at_ends import EndBits, end_bits
from psoup.execution.select.match_forms import ChunkMatches
from psoup.kernels.rows.bitmaps import count_bits
from psoup.plan.way import TryNext

_ROWS = 32
"""The middle is folded only if it adds at least this many matches for each group of the inner chunks."""
_BYTES = (budgets.GROUP_BYTES.name, budgets.SHARED_BYTES.name)
"""The budgets that a read without folds needs less of, so that it may succeed where folding fails."""


def accepts(case: WindowCase) -> bool:
    """Whether there is a kept fold of the window's middle."""
    return case.folded_middle is not None


def window_middle(case: WindowCase) -> Ends:
    """Return the matches outside the middle, and the kept fold of the middle.

    Raises TryNext if these matches are not stored, have errors, or lie in more than four chunks.
    """
    middle, recipe = case.middle, case.recipe
    assert middle is not None
    between = Between(recipe, (case.low, case.high), case.folded_middle, middle.low)
    return Ends(_tails(case, middle, recipe), between)


def _tails(case: WindowCase, middle: Middle, recipe: Recipe) -> list[Found]:
    """The matches of a window outside its middle. Raises as `window_middle`. O(matches)."""
    clause = case.clause
    tails, as_bits = list[Found](), not recipe.keys and recipe.plain is not None
    for ids in ((case.low, middle.low), (middle.high, case.high)):
        for entry, start, stop in many_matches.parts_of(case.view, *ids):
            bits = end_bits(entry, clause, start, stop) if as_bits and isinstance(entry.data, ChunkView) else None
            match = bits or known_matches(entry, clause, start, stop)
            if match is None or match.errors:
                raise TryNext
            if match.count:
                tails.append(match)
    if len(tails) > MOST_MATCHES:
        raise TryNext
    return tails


def with_middle(case: WindowCase, ends: Ends) -> Ends:
    """Fold the middle of a window that another way has read, if an earlier invocation noted it.

    Returns the ends outside the new fold, or `ends` unchanged.
    """
    between, middle = ends.between, case.middle
    assert between is not None
    if middle is None or case.folded_middle is not None:
        return ends
    if between.fold is None and only_counts(between.recipe):  # counting bits is as quick as a fold
        return ends
    folds = case.view.folds.known(case.clause.sqc_id, between.recipe, case.view.tenant, case.view.turns)
    if folds is None or _reaches_beyond(middle, case.inner):
        return ends
    try:
        return _fold_middle(case, folds, middle, ends, between)
    except ResourceExhausted as problem:
        raise_unless_bytes(problem)
        return ends


def raise_unless_bytes(problem: ResourceExhausted) -> None:
    """Raise a problem again, unless it is a lack of bytes. Then the caller reads the window without folds."""
    if problem.facts.get("budget") not in _BYTES:
        raise problem


def _reaches_beyond(middle: Middle, inner: Inner | None) -> bool:
    """Whether the inner chunks are not within the middle. A chunk that ALTER closed may end between two boundaries."""
    return inner is not None and (inner.low < middle.low or inner.high > middle.high)


def _fold_middle(case: WindowCase, folds: Folds, middle: Middle, ends: Ends, between: Between) -> Ends:
    """Fold the middle of a window and keep it, if an earlier invocation noted it and the fold saves time. O(matches).

    Returns the ends outside the new fold, or `ends` unchanged.
    """
    room, matches = case.view.folds, ends.matches
    if not room.noted(folds, middle) or any(match.errors for match in matches):
        return ends
    tails, left, right = list[Found](), list[Found](), list[Found]()
    for match in matches:
        before, within, after = _cut(match, middle)
        tails += [tail for tail in (before, after) if tail.count]
        (left if match.data.first_id < between.begins else right).append(within)
    recipe, fold = between.recipe, between.fold
    if recipe.keys and (fold is None or _ROWS * fold.groups > sum([match.count for match in (*left, *right)])):
        return ends
    if len(tails) > MOST_MATCHES:
        return ends
    parts = [fold_of(case.aggregate, own, case.snapshot.config, case.budget) for own in (left, right)]
    whole = recipe.joined([parts[0], *([] if fold is None else [fold]), parts[1]])
    if recipe.keys:
        whole = folds.tables.numbered(recipe.keys, whole)
    room.keep_middle(folds, middle, whole)
    return Ends(tails, Between(recipe, between.window, whole, middle.low))


def _cut(match: Found, middle: Middle) -> list[Found]:
    """Cut the matches of a chunk into those before the middle, those in it, and those after it."""
    edges = [match.data.places.row_from(at) for at in middle]
    if isinstance(match, EndBits):
        first, last = [min(max(at, match.start), match.stop) for at in edges]
        bits, parts = match.bits, ((match.start, first), (first, last), (last, match.stop))
        return [EndBits(match.entry, bits, *rows, count_bits(bits, *rows)) for rows in parts]
    cuts = np.searchsorted(match.offsets, edges)
    return [ChunkMatches(match.entry, own, 0, match.covered) for own in np.split(match.offsets, cuts)]
