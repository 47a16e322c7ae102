"""Explaining an aggregate: its groups now, what is kept for each of them, and what folds save.

    Aggregate count(*), sum(x), avg(x) BY sym    | 12 groups of 5,000 tuples
                                                 | 3 aggregates from 2 states
                                                 | folds of 0 nodes and 2 chunks, 900 tuples at the two ends
    Aggregate max(x)                             | folds of 2 nodes and 9 chunks, 7,000 tuples at the two ends

The keys are told apart as an invocation would do it, over so many tuples at most. Groups of a join are not counted.
"""

from __future__ import annotations

from dataclasses import replace

from psoup.aggregates.recipes import recipe_of
from psoup.aggregates.state import size_of
from psoup.answer.explain.folds import refused_ahead, reuse_of
from psoup.answer.plan_nodes import Findings
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.fold_rows import Folder, states_of
from psoup.execution.aggregate.row_parts import parts_of
from psoup.execution.rows.source_rows import Arrivals, Reading
from psoup.execution.select.clause_matches import Side, matches_in
from psoup.plan.nodes import Aggregate
from psoup.published.snapshot import Snapshot
from psoup.reading import GroupBytes, ReadBudget
from psoup.wording import counted

_MOST = 4_194_304
"""Tuples whose keys are told apart: some tens of milliseconds."""


def explain_groups(
    node: Aggregate, side: Side | None, now: int | None, snapshot: Snapshot, budget: ReadBudget, *, known: bool = True
) -> Findings:
    """Tell what is kept, and the groups of the matches of `side` (None: of a join). O(tuples, up to some millions).

    Groups are not counted unless the matches are `known`, or will be in a moment.
    """
    states = len(states_of(node))
    figures: dict[str, float] = {"keys": len(node.keys), "measures": len(node.measures), "states": states}
    kept = f"{counted(len(node.measures), 'aggregate')} from {counted(states, 'state')}"
    figures["state_bytes"] = _state_bytes(node)
    if side is None:
        return Findings(figures, {}, [kept])
    reused = [*_reused(node, side, figures, snapshot.config), *_refused(node, side)]
    if not node.keys or side[3] - side[2] > _MOST or not known:
        return Findings(figures, {}, [kept, *reused])
    config, held = snapshot.config, GroupBytes(budget)
    try:
        matched = matches_in(*side, snapshot.run, config.archive_rows, budget, config.texts)
        limits = snapshot.groups_of(side[0].tenant)
        reading = Reading([matched], now, config.texts, budget, config.sort_rows, groups=limits)
        rows = Arrivals(reading, matched)
        folder = Folder(replace(node, measures=()), reading, held.hold)
        for part in parts_of(rows, folder.wanted, folder.coded):
            folder.add(*part)
        figures["key_bytes"] = held.held
    except ResourceExhausted as problem:
        return Findings(
            figures,
            {"problem": problem.message},
            [f"an invocation is refused: {problem.message}", kept, *_refused(node, side)],
        )
    finally:
        held.give_back()
    figures |= {"groups": folder.groups, "rows": rows.count}
    groups = f"{counted(folder.groups, 'group')} of {counted(rows.count, 'tuple')}"
    return Findings(figures, {}, [groups, kept, *reused])


def _state_bytes(node: Aggregate) -> float:
    """Bytes that each further group takes for its states; lists of values (a median, DISTINCT) grow with rows too."""
    kept = states_of(node).values()
    return float(sum(size_of(each.folding.empty(2)) - size_of(each.folding.empty(1)) for each in kept))


def _refused(node: Aggregate, side: Side) -> list[str]:
    """Tell why the aggregates are not folded ahead, if they are not."""
    recipe = recipe_of(node.measures, node.keys)
    why = "" if recipe is None else refused_ahead(side, recipe)
    return [f"not folded ahead: {why}"] if why else []


def _reused(node: Aggregate, side: Side, figures: dict[str, float], config: EngineConfig) -> list[str]:
    """Tell how much of the window comes from folds of whole chunks, and how many tuples are at its two ends."""
    recipe = recipe_of(node.measures, node.keys)
    if recipe is None:
        return ["folded tuple by tuple: no states of bounded size can be combined exactly"]
    reuse = reuse_of(side, recipe, config)
    if reuse is None:
        return []
    figures |= {"nodes": reuse.nodes, "leaves": reuse.leaves, "unfolded": reuse.unfolded, "ends": reuse.ends}
    spans = f"folds of {counted(reuse.nodes, 'node')} and {counted(reuse.leaves, 'chunk')}"
    spans = f"{spans}, {counted(reuse.ends, 'tuple')} at the two ends"
    if reuse.tails is not None:
        figures["tails"] = reuse.tails
        return [f"{spans}; all but {counted(reuse.tails, 'tuple')} of these is kept combined"]
    if reuse.whole:
        return [f"{spans}; all but the ends is kept combined"]
    many = ", or with too many groups" if node.keys else ""
    return [f"{spans}; {counted(reuse.unfolded, 'chunk')} not folded yet{many}"]
