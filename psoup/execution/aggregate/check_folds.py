"""The check of folds. It recomputes every kept fold from its chunks and compares the two."""

from __future__ import annotations

from collections.abc import Sequence

from psoup.aggregates.folds import Folds
from psoup.aggregates.recipes import Fold, Recipe
from psoup.execution.aggregate.fold_rows import Folder, fold_of
from psoup.execution.aggregate.single_row import folding_of
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.clause_matches import matches_in
from psoup.invariants import ensure
from psoup.plan.nodes import Aggregate
from psoup.published.members import with_sides
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import UNBOUNDED, ReadBudget


def check_folds(snapshot: Snapshot) -> None:
    """Check that every kept fold equals its recomputed fold. Raises as `ensure`. O(tuples of the folded chunks)."""
    rooms = {id(view.folds): view.folds for view in snapshot.by_id.values()}
    for room in rooms.values():
        for sqc_id, recipe, folds in room.kept():
            clause = snapshot.clauses.get(sqc_id)
            node = None if clause is None else _asked_by(snapshot, clause, recipe)
            current = clause is not None and folds.turn == snapshot.by_id[clause.stream_id].turns[0]
            if clause is not None and node is not None and current:
                _check_spans(snapshot, clause, node, folds, room.fan)


def _asked_by(snapshot: Snapshot, clause: ClauseRecord, recipe: Recipe) -> Aggregate | None:
    """Find a query of the clause whose folds use `recipe`, and return its Aggregate. None if there is no such query."""
    for query_id in with_sides(clause.members, 0):
        record = snapshot.queries.get(query_id)
        folding = None if record is None else folding_of(record.query.plan)
        if folding is not None and folding.recipe is recipe:
            return folding.node
    return None


def _check_spans(snapshot: Snapshot, clause: ClauseRecord, node: Aggregate, folds: Folds, fan: int) -> None:
    view, budget = snapshot.by_id[clause.stream_id], UNBOUNDED  # a check has no limits
    base, leaves = view.chunks[0].data.number, dict[int, Fold]()
    spans = [(number * fan**level, (number + 1) * fan**level, fold) for (level, number), fold in folds.spans.items()]
    for ids, kept in folds.middles.items():
        if kept is not None and ids[0] >= view.chunks[0].data.first_id:
            anew = fold_of(
                node, matches_in(view, clause, *ids, snapshot.run, texts=snapshot.config.texts), snapshot.config, budget
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
                leaves[number] = fold_of(node, matches, snapshot.config, budget)
        anew = folds.recipe.joined([leaves[number] for number in numbers])
        _check_equal(node, folds, (fold, anew), numbers, snapshot)


def _check_equal(node: Aggregate, folds: Folds, both: Sequence[Fold], span: object, snapshot: Snapshot) -> None:
    """Check that a kept fold equals the recomputed fold of the same span. `both`: the two folds, in this order."""
    kept, anew = [(f.matched, f.errors, f.failed, _shown(node, f, snapshot, UNBOUNDED)) for f in both]
    ensure(kept == anew, folds, "a fold is not that of its chunks", span=span, kept=kept)


def _shown(node: Aggregate, fold: Fold, snapshot: Snapshot, budget: ReadBudget) -> str:
    """The values of the measures of a fold, as a text that can be compared."""
    folder = Folder(node, Reading([], None, snapshot.config.texts, budget, 0), lambda size: None)
    folder.join(fold)
    return repr([column.to_arrow().to_pylist() for column in folder.table()[0].values()])
