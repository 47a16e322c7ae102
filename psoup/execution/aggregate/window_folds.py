"""The way that takes the inner chunks of a window from kept folds, and reads only the two ends.

    window    …|··mmm|mmmmm|mmmmm|mmmmm|mm
                  └ left end  └ inner chunks: one fold └ right end, the open chunk at the latest
    groups    left end's matches, then the fold, then the right end's: in the order of the stream

The first invocation of a clause with some measures reads all tuples and notes the clause. The second one folds whole
chunks and keeps the folds (`psoup.aggregates.folds`). So an answer that is wanted once costs no more than its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from psoup import budgets
from psoup.aggregates.folds import Folds
from psoup.aggregates.packs import fold_in
from psoup.aggregates.recipes import Between, Fold, Recipe
from psoup.aggregates.spans import cover
from psoup.aggregates.stored_folds import ShelfOnDisk, name_of, shelf_of
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.fold_rows import fold_of
from psoup.execution.aggregate.window_case import (
    Ends,
    Inner,
    WindowCase,
    known_in,
    only_counts,
)
from psoup.execution.aggregate.window_middle import raise_unless_bytes, with_middle
from psoup.execution.select import many_matches
from psoup.execution.select.clause_matches import Side, matches_together
from psoup.execution.select.match_forms import ChunkMatches
from psoup.plan.nodes import Aggregate
from psoup.plan.way import TryNext
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.work.read_budget import GroupBytes, ReadBudget


def accepts(case: WindowCase) -> bool:
    """Whether the window has inner chunks, and the service keeps folds for the clause."""
    return case.inner is not None


def window_folds(case: WindowCase) -> Ends:
    """The matches of the two ends, and the fold of the chunks between them.

    Raises TryNext if the folds are too large, or at the first reading of a clause, which it notes.
    """
    inner = case.inner
    assert inner is not None
    view, clause, recipe, config = case.view, case.clause, case.recipe, case.snapshot.config
    folds, shelf = _folds_of(case, inner)
    sides: list[Side] = [(view, clause, case.low, inner.low), (view, clause, inner.high, case.high)]
    leaves = _Leaves(sides, case.aggregate, recipe, case.snapshot, case.budget)
    base = view.chunks[inner.first].data.number
    stop = base + inner.stop - inner.first
    oldest = view.chunks[0].data.number
    try:
        fold = view.folds.fold(folds, base, stop, oldest, leaves.folded, leaves.joined, shelf, leaves.held)
    except ResourceExhausted as problem:
        raise_unless_bytes(problem)
        if problem.facts["budget"] == budgets.GROUP_BYTES.name:  # the shared budget may have more bytes next time
            folds.beyond = range(base, stop)
        fold = None
    finally:
        leaves.held.give_back()
    if fold is None:  # the next way holds only the groups of the answer
        raise TryNext
    between = Between(recipe, (case.low, case.high), fold, inner.low)
    if leaves.found:
        return with_middle(case, Ends([*leaves.found[0], *leaves.found[1]], between))
    matches = known_in(clause, recipe, _ends(view, case.low, case.high, inner))
    if matches is None:
        left, right = matches_together(sides, case.snapshot.run, config.archive_rows, case.budget, config.texts)
        matches = [*left, *right]
    return with_middle(case, Ends(matches, between))


class _Leaves:
    """Computes the folds that `Folds` lacks, from the matches of their chunks.

    `ends`: the two ends of the window. `found`: their matches, if `folded` searched them in the same pass.
    """

    def __init__(
        self, ends: Sequence[Side], node: Aggregate, recipe: Recipe, snapshot: Snapshot, budget: ReadBudget
    ) -> None:
        self._ends = ends
        self._node = node
        self._recipe = recipe
        self._snapshot = snapshot
        self._budget = budget
        self._groups = snapshot.groups_of(ends[0][0].tenant)
        self.held = GroupBytes(budget)
        self.found: list[list[ChunkMatches]] = []

    def folded(self, runs: list[range]) -> list[Fold]:
        """Fold each run of chunk numbers."""
        view, clause, *_ = self._ends[0]
        sides = [(view, clause, *_ids(view, run)) for run in runs]
        if (known := _counted(sides, self._recipe)) is not None:
            return known
        snapshot, budget, config = self._snapshot, self._budget, self._snapshot.config
        every = [*self._ends, *sides]
        matches = matches_together(every, snapshot.run, config.archive_rows, budget, config.texts)
        self.found = matches[:2]
        folds = list[Fold]()
        for matched in matches[2:]:
            before = self.held.held
            folds.append(fold_of(self._node, matched, config, budget, self._groups, keep=self.held.hold))
            self.held.give_back(max(self.held.held - before - folds[-1].nbytes, 0))
        return folds

    def joined(self, folds: Iterable[Fold]) -> Fold:
        """Combine the folds of neighbouring spans, given in the order of the stream."""
        self._budget.check()
        return self._recipe.joined(folds, self._groups.keys, self.held.hold)


def _folds_of(case: WindowCase, inner: Inner) -> tuple[Folds, ShelfOnDisk | None]:
    """The kept folds of a clause, and the shelf of folds on disk.

    Raises TryNext if the folds are too large, or at the first reading of a clause without folds on disk.
    """
    view, clause, recipe = case.view, case.clause, case.recipe
    folds = view.folds.known(clause.sqc_id, recipe, view.tenant, view.turns)
    shelf = None if inner.first >= view.archived else shelf_of(view.stream_id, view.chunks, view.archived)
    if folds is None and shelf is None:
        raise TryNext
    folds = named_folds(view, clause, recipe, case.snapshot.config)  # a first reading also uses folds on disk
    _borrow(view, clause.sqc_id, recipe, inner, folds)
    base = view.chunks[inner.first].data.number
    if folds.too_large(base, base + inner.stop - inner.first):
        raise TryNext
    return folds, shelf


def _borrow(view: StreamView, sqc_id: int, recipe: Recipe, inner: Inner, folds: Folds) -> None:
    """Take missing folds of a clause from the packs that tables of many queries left. O(1) for a repeated window."""
    base = view.chunks[inner.first].data.number
    inside = base, base + inner.stop - inner.first
    packs = (
        None if recipe.keys or inside in folds.inner else view.packs.of(view.stream_id, recipe.measures, view.turns[0])
    )
    for span in () if packs is None else cover(*inside, view.folds.fan):
        fold = None if packs is None or span in folds.spans else fold_in(packs, span, sqc_id, recipe)
        if fold is not None:
            view.folds.lend(folds, span, fold)


def named_folds(view: StreamView, clause: ClauseRecord, recipe: Recipe, config: EngineConfig) -> Folds:
    """The folds of a clause, which the service keeps from now on. They get a name if the stream has chunks on disk."""
    asked = clause.sqc_id, recipe, view.tenant, view.turns
    folds = view.folds.known(*asked) or view.folds.known(*asked) or Folds(recipe)
    if folds.stream < 0 and (view.archived or view.spec.retention.archive):
        folds.name = name_of(view.stream_id, clause.factors, recipe, config.texts.value)
        folds.stream = view.stream_id
    return folds


def _counted(sides: Sequence[Side], recipe: Recipe) -> list[Fold] | None:
    """The folds of each side for count(*) alone, from stored results.

    None if a measure reads values, or if a chunk has no stored result for the clause.
    """
    if not only_counts(recipe):
        return None
    folds = list[Fold]()
    for view, clause, low, high in sides:
        matches = known_in(clause, recipe, many_matches.parts_of(view, low, high))
        if matches is None:
            return None
        count, errors = sum(match.count for match in matches), sum(match.errors for match in matches)
        folds.append(Fold(count, errors, 0, tuple((np.array([count]),) for _ in recipe.foldings)))
    return folds


def _ends(view: StreamView, low: int, high: int, inner: Inner) -> Iterator[many_matches.Part]:
    """The parts of chunks before and after the inner chunks of a window."""
    if low < inner.low:
        entry = view.chunks[inner.first - 1]
        yield entry, entry.data.places.row_from(low), len(entry.data)
    if inner.high < high:
        entry = view.chunks[inner.stop]
        yield entry, 0, entry.data.places.row_from(high)


def _ids(view: StreamView, run: range) -> tuple[int, int]:
    """The tuple IDs [low, high) of a run of chunk numbers."""
    base = view.chunks[0].data.number
    return view.chunks[run.start - base].data.first_id, view.chunks[run.stop - 1 - base].data.end_id
