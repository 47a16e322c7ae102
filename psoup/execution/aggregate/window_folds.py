"""Aggregates: the inner chunks of a window come from folds that are kept, and only its two ends are read.

    window    …|··mmm|mmmmm|mmmmm|mmmmm|mm
                  └ left end  └ inner chunks: one fold └ right end, the open chunk at the latest
    groups    left end's matches, then the fold, then the right end's: in the order of the stream

The first invocation of a clause with some measures is read tuple by tuple, and noted; from the second one on whole
chunks are folded once (`psoup.aggregates.folds`). So an answer to be had once costs what it did.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from psoup import budgets
from psoup.aggregates.folds import Folds
from psoup.aggregates.measures import counts_rows
from psoup.aggregates.numbers import Hold
from psoup.aggregates.packs import fold_in
from psoup.aggregates.recipes import Between, Fold, Recipe
from psoup.aggregates.shelved import ShelfOnDisk, name_of, shelf_of
from psoup.aggregates.spans import cover
from psoup.config import EngineConfig, GroupLimits
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.fold_rows import Folder
from psoup.execution.aggregate.groups import parts_of
from psoup.execution.aggregate.single_row import folding_of
from psoup.execution.aggregate.window_middle import Found, Middle, folded, middle_of, tails_of
from psoup.execution.rows.source_rows import Arrivals, Reading
from psoup.execution.select import many_matches
from psoup.execution.select.clause_matches import ChunkMatches, Side, known_matches, matches_in, matches_together
from psoup.execution.select.match_bits_at_ends import end_bits
from psoup.invariants import ensure
from psoup.plan.nodes import Aggregate, Node
from psoup.published.members import with_sides
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.reading import UNBOUNDED, GroupBytes, ReadBudget
from psoup.results.chunk_results import ALL

_BYTES = (budgets.GROUP_BYTES.name, budgets.SHARED_BYTES.name)
"""Budgets that a read tuple by tuple takes less of."""


class Inner(NamedTuple):
    """The chunks view.chunks[first:stop], all of whose tuples are in a window, and the tuple IDs [low, high)."""

    first: int
    stop: int
    low: int
    high: int


class Ends(NamedTuple):
    """The matches of the two ends of a window, or of all of it, and what is `between`."""

    matches: Sequence[Found]
    between: Between


def inner_of(view: StreamView, low: int, high: int) -> Inner | None:
    """The closed chunks between the ends of a window; None if there are none. O(log chunks)."""
    chunks = view.chunks
    first = bisect_left(chunks, low, key=lambda entry: entry.data.first_id)
    stop = bisect_right(chunks, high, 0, len(chunks) - 1, key=lambda entry: entry.data.end_id)
    if first >= stop:
        return None
    return Inner(first, stop, chunks[first].data.first_id, chunks[stop - 1].data.end_id)


def between_ends(
    view: StreamView, clause: ClauseRecord, low: int, high: int, plan: Node, snapshot: Snapshot, budget: ReadBudget
) -> Ends | None:
    """Find the matches of the two ends of a window, and the fold of what is between them; raises as `matches_together`.

    None: the plan has no aggregates that could be folded.
    """
    folding = folding_of(plan) if view.folds.fan > 1 else None
    if folding is None:
        return None
    node, recipe, _ = folding
    side, middle = (view, clause, low, high), middle_of(low, high, snapshot.config.chunk_rows)
    if middle is None or clause.sqc_id >= ALL:
        return _read(side, node, recipe, snapshot, budget)
    known = view.folds.middle(clause.sqc_id, recipe, middle)
    tails = None if known is None else tails_of(view, clause, recipe, low, high, middle)
    if tails is not None:
        return Ends(tails, Between(recipe, (low, high), known, middle.low))
    ends = _read(side, node, recipe, snapshot, budget)
    if known is not None or (ends.between.fold is None and _only_counts(recipe)):  # bits are counted quickly as it is
        return ends
    folds = view.folds.known(clause.sqc_id, recipe, view.tenant)
    if folds is None or _reaches_beyond(middle, inner_of(view, low, high)):
        return ends
    fold = partial(fold_of, node, snapshot=snapshot, budget=budget)
    try:
        return Ends(*(folded(view.folds, folds, middle, ends.between, ends.matches, fold) or ends))
    except ResourceExhausted as problem:
        _needs_bytes(problem)
        return ends


def _needs_bytes(problem: ResourceExhausted) -> None:
    """Raise a problem again, unless it is a lack of bytes: then the window is read tuple by tuple."""
    if problem.facts.get("budget") not in _BYTES:
        raise problem


def _reaches_beyond(middle: Middle, inner: Inner | None) -> bool:
    """Whether the inner chunks are not within a middle: a chunk that ALTER ended, say, ends at any tuple ID."""
    return inner is not None and (inner.low < middle.low or inner.high > middle.high)


def _read(side: Side, node: Aggregate, recipe: Recipe, snapshot: Snapshot, budget: ReadBudget) -> Ends:
    """Read the two ends of a window, and fold the chunks between them, or read all of it."""
    config, (view, clause, low, high) = snapshot.config, side
    inner = inner_of(view, low, high) if clause.sqc_id < ALL else None
    folds, shelf = (None, None) if inner is None else _known(view, clause, recipe, inner, config)
    if inner is None or folds is None:
        all_of_it = _unfolded(side, recipe, inner, snapshot, budget)
        return Ends(all_of_it, Between(recipe, (low, high)))
    ends: list[Side] = [(view, clause, low, inner.low), (view, clause, inner.high, high)]
    leaves = _Leaves(ends, node, recipe, snapshot, budget)
    base = view.chunks[inner.first].data.number
    stop = base + inner.stop - inner.first
    oldest = view.chunks[0].data.number
    try:
        fold = view.folds.fold(folds, base, stop, oldest, leaves.folded, leaves.joined, shelf, leaves.held)
    except ResourceExhausted as problem:
        _needs_bytes(problem)
        fold = None
        if problem.facts["budget"] == budgets.GROUP_BYTES.name:  # of the shared bytes there may be more the next time
            folds.beyond = range(base, stop)
    finally:
        leaves.held.give_back()
    if fold is None:  # tuple by tuple only the groups of the answer are held
        return Ends(_unfolded(side, recipe, inner, snapshot, budget), Between(recipe, (low, high)))
    between = Between(recipe, (low, high), fold, inner.low)
    found = leaves.found
    matches = None if found else _known_in(clause, recipe, _ends(view, low, high, inner))
    if matches is not None:
        return Ends(matches, between)
    if not found:
        found = matches_together(ends, snapshot.run, config.archive_rows, budget, config.texts)
    return Ends([*found[0], *found[1]], between)


class _Leaves:
    """Folds of runs of chunks that are lacking. `found`: the matches of the two ends, if these were looked for too."""

    def __init__(
        self, ends: Sequence[Side], node: Aggregate, recipe: Recipe, snapshot: Snapshot, budget: ReadBudget
    ) -> None:
        self._ends, self._node, self._recipe = ends, node, recipe
        self._snapshot, self._budget = snapshot, budget
        self._groups = snapshot.groups_of(ends[0][0].tenant)
        self.held = GroupBytes(budget)
        self.found: list[list[ChunkMatches]] = []

    def folded(self, runs: list[range]) -> list[Fold]:
        """The fold of each run."""
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
            folds.append(fold_of(self._node, matched, snapshot, budget, self._groups, keep=self.held.hold))
            self.held.give_back(max(self.held.held - before - folds[-1].nbytes, 0))
        return folds

    def joined(self, folds: Iterable[Fold]) -> Fold:
        """A fold of those of neighbouring spans."""
        self._budget.check()
        return self._recipe.joined(folds, self._groups.keys, self.held.hold)


def _known(
    view: StreamView, clause: ClauseRecord, recipe: Recipe, inner: Inner, config: EngineConfig
) -> tuple[Folds | None, ShelfOnDisk | None]:
    """The folds of a clause, and those on disk; None if the window is to be read tuple by tuple."""
    folds = view.folds.known(clause.sqc_id, recipe, view.tenant)
    shelf = None if inner.first >= view.archived else shelf_of(view.stream_id, view.chunks, view.archived)
    if folds is None and shelf is None:
        return None, None
    folds = named_folds(view, clause, recipe, config)  # what is on disk is folded at once: to read it takes longer
    _borrow(view, clause.sqc_id, recipe, inner, folds)
    base = view.chunks[inner.first].data.number
    return (None, None) if folds.too_large(base, base + inner.stop - inner.first) else (folds, shelf)


def _borrow(view: StreamView, sqc_id: int, recipe: Recipe, inner: Inner, folds: Folds) -> None:
    """Take what a clause lacks from packs that calls for many queries left. O(1) for a window that comes again."""
    base = view.chunks[inner.first].data.number
    inside = base, base + inner.stop - inner.first
    packs = None if recipe.keys or inside in folds.inner else view.packs.of(view.stream_id, recipe.measures)
    for span in () if packs is None else cover(*inside, view.folds.fan):
        fold = None if packs is None or span in folds.spans else fold_in(packs, span, sqc_id, recipe)
        if fold is not None:
            view.folds.lend(folds, span, fold)


def named_folds(view: StreamView, clause: ClauseRecord, recipe: Recipe, config: EngineConfig) -> Folds:
    """The folds of a clause, from now on kept; of a stream with chunks on disk with their name there."""
    asked = clause.sqc_id, recipe, view.tenant
    folds = view.folds.known(*asked) or view.folds.known(*asked) or Folds(recipe)
    if folds.stream < 0 and (view.archived or view.spec.retention.archive):
        folds.name = name_of(view.stream_id, clause.factors, recipe, config.texts.value)
        folds.stream = view.stream_id
    return folds


def _unfolded(
    side: Side, recipe: Recipe, inner: Inner | None, snapshot: Snapshot, budget: ReadBudget
) -> Sequence[Found]:
    """The matches of all of a window."""
    config, (view, clause, low, high) = snapshot.config, side
    short = (inner is None or _only_counts(recipe)) and clause.sqc_id < ALL
    matches = _known_in(clause, recipe, many_matches.parts_of(view, low, high)) if short else None
    if matches is not None:
        return matches
    return matches_in(*side, snapshot.run, config.archive_rows, budget, config.texts)


def _only_counts(recipe: Recipe) -> bool:
    """Whether nothing but rows is counted: of bits that are kept no list is made."""
    return not recipe.keys and all(map(counts_rows, recipe.measures))


def _counted(sides: Sequence[Side], recipe: Recipe) -> list[Fold] | None:
    """How many rows match in each run of chunks; None if more is asked, or some would have to be searched for."""
    if not _only_counts(recipe):
        return None
    folds = list[Fold]()
    for view, clause, low, high in sides:
        matches = _known_in(clause, recipe, many_matches.parts_of(view, low, high))
        if matches is None:
            return None
        count, errors = sum(match.count for match in matches), sum(match.errors for match in matches)
        folds.append(Fold(count, errors, 0, tuple((np.array([count]),) for _ in recipe.foldings)))
    return folds


def _ends(view: StreamView, low: int, high: int, inner: Inner) -> Iterator[many_matches.Part]:
    """The parts of chunks at the two ends of a window."""
    if low < inner.low:
        entry = view.chunks[inner.first - 1]
        yield entry, low - entry.data.first_id, len(entry.data)
    if inner.high < high:
        yield view.chunks[inner.stop], 0, high - inner.high


def _known_in(clause: ClauseRecord, recipe: Recipe, parts: Iterable[many_matches.Part]) -> list[Found] | None:
    """The matches in parts of a few chunks; None if some would have to be searched for. O(matches)."""
    matches, as_bits = list[Found](), not recipe.keys and recipe.plain is not None
    for entry, start, stop in parts:
        match = (end_bits(entry, clause, start, stop) if as_bits else None) or known_matches(entry, clause, start, stop)
        if match is None:
            return None
        if match.count or match.errors:
            matches.append(match)
    return matches


def _ids(view: StreamView, run: range) -> tuple[int, int]:
    """The tuple IDs [low, high) of chunks of some numbers."""
    base = view.chunks[0].data.number
    return view.chunks[run.start - base].data.first_id, view.chunks[run.stop - 1 - base].data.end_id


def fold_of(
    node: Aggregate,
    matches: Sequence[Found],
    snapshot: Snapshot,
    budget: ReadBudget,
    groups: GroupLimits | None = None,
    *,
    keep: Hold | None = None,
) -> Fold:
    """The fold of the matches of one chunk, or of neighbouring ones. `groups`: the engine's bounds if nothing else.

    `keep`: told of the most bytes of the fold before it is made, as it is a copy of the groups that were folded; the
    default counts them until it is made.
    """
    config, held = snapshot.config, GroupBytes(budget)
    groups = groups or config.groups
    reading = Reading([matches], None, config.texts, budget, config.sort_rows, groups=groups)
    folder, rows = Folder(node, reading, held.hold), Arrivals(reading, matches)
    try:
        for part in parts_of(rows, folder.wanted, folder.coded):
            folder.add(*part)
        (keep or held.hold)(folder.fold_bytes)
        return folder.folded(rows.count, sum(match.errors for match in matches))
    finally:
        held.give_back()


def check_folds(snapshot: Snapshot) -> None:
    """Check that every fold which is kept is what its chunks come to now. O(tuples of these chunks)."""
    rooms = {id(view.folds): view.folds for view in snapshot.by_id.values()}
    for room in rooms.values():
        for sqc_id, recipe, folds in room.kept():
            clause = snapshot.clauses.get(sqc_id)
            node = None if clause is None else _asked_by(snapshot, clause, recipe)
            if clause is not None and node is not None:
                _check_spans(snapshot, clause, node, folds, room.fan)


def _asked_by(snapshot: Snapshot, clause: ClauseRecord, recipe: Recipe) -> Aggregate | None:
    """The node of a query with a clause that has a recipe."""
    for query_id in with_sides(clause.members, 0):
        record = snapshot.queries.get(query_id)
        folding = None if record is None else folding_of(record.query.plan)
        if folding is not None and folding.recipe is recipe:
            return folding.node
    return None


def _check_spans(snapshot: Snapshot, clause: ClauseRecord, node: Aggregate, folds: Folds, fan: int) -> None:
    view, budget = snapshot.by_id[clause.stream_id], UNBOUNDED  # a check, on demand
    base, leaves = view.chunks[0].data.number, dict[int, Fold]()
    spans = [(number * fan**level, (number + 1) * fan**level, fold) for (level, number), fold in folds.spans.items()]
    for ids, kept in folds.middles.items():
        if kept is not None and ids[0] >= view.chunks[0].data.first_id:
            anew = fold_of(
                node, matches_in(view, clause, *ids, snapshot.run, texts=snapshot.config.texts), snapshot, budget
            )
            _check_equal(node, folds, (kept, anew), ids, snapshot)
    for first, stop, fold in [*spans, *[(*span, fold) for span, fold in folds.inner.items()]]:
        numbers = range(first, stop)
        if first < base or stop >= base + len(view.chunks):
            ensure(first < base, folds, "a fold has the open chunk", span=numbers)
            continue
        for number in numbers:
            if number not in leaves:
                data = view.chunks[number - base].data
                side = view, clause, data.first_id, data.end_id
                matches = matches_in(*side, snapshot.run, texts=snapshot.config.texts)
                leaves[number] = fold_of(node, matches, snapshot, budget)
        anew = folds.recipe.joined([leaves[number] for number in numbers])
        _check_equal(node, folds, (fold, anew), numbers, snapshot)


def _check_equal(node: Aggregate, folds: Folds, both: Sequence[Fold], span: object, snapshot: Snapshot) -> None:
    """Check that a fold that is kept, and the same one made anew, are equal."""
    kept, anew = [(f.matched, f.errors, f.failed, _shown(node, f, snapshot, UNBOUNDED)) for f in both]
    ensure(kept == anew, folds, "a fold is not that of its chunks", span=span, kept=kept)


def _shown(node: Aggregate, fold: Fold, snapshot: Snapshot, budget: ReadBudget) -> str:
    """What the aggregates of a fold are, as a text."""
    folder = Folder(node, Reading([], None, snapshot.config.texts, budget, 0), lambda size: None)
    folder.join(fold)
    return repr([column.to_arrow().to_pylist() for column in folder.table()[0].values()])
