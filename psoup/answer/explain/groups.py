"""Explanation of an aggregate: its groups now, the states of each group, and the use of folds.

    Aggregate count(*), sum(x), avg(x) BY sym    | 12 groups of 5,000 tuples
                                                 | 3 aggregates from 2 states
                                                 | folds of 0 nodes and 2 chunks, 900 tuples at the two ends
    Aggregate max(x)                             | folds of 2 nodes and 9 chunks, 7,000 tuples at the two ends
    Hop BY hop(t, …)                             | buckets of 12 panes of 5 MINUTES, a tuple is in 12 of them

EXPLAIN counts groups as an invocation does, if the window has at most `_MOST` tuples. It does not count groups of a
join.
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
from psoup.execution.rows.source_rows import Reading, SourceRows
from psoup.execution.select.clause_matches import Side, matches_in
from psoup.phrases import counted
from psoup.plan.canonical import describe_duration
from psoup.plan.nodes import Aggregate, Hop
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import GroupBytes, ReadBudget

_MOST = 4_194_304
"""The most tuples of a window in which EXPLAIN counts groups. Counting takes some tens of milliseconds."""


def explain_groups(
    node: Aggregate, side: Side | None, now: int | None, snapshot: Snapshot, budget: ReadBudget, *, stored: bool = True
) -> Findings:
    """The states of an aggregate, and the number of its groups. `side`: None for a join. O(tuples of the window, up to
    _MOST).

    `stored`: whether the matches are stored. If not, the groups are not counted.
    """
    states = len(states_of(node))
    figures: dict[str, float] = {"keys": len(node.keys), "measures": len(node.measures), "states": states}
    state_line = f"{counted(len(node.measures), 'aggregate')} from {counted(states, 'state')}"
    figures["state_bytes"] = _state_bytes(node)
    if side is None:
        return Findings(figures, {}, [state_line])
    reused = [*_reused(node, side, figures, snapshot.config), *_refused(node, side)]
    if not node.keys or side[3] - side[2] > _MOST or not stored:
        return Findings(figures, {}, [state_line, *reused])
    config, group_bytes = snapshot.config, GroupBytes(budget)
    try:
        matched = matches_in(*side, snapshot.run, config.archive_rows, budget, config.texts)
        limits = snapshot.groups_of(side[0].tenant)
        reading = Reading([matched], now, config.texts, budget, config.sort_rows, groups=limits)
        rows = SourceRows(reading, matched)
        folder = Folder(replace(node, measures=()), reading, group_bytes.hold)
        for part in parts_of(rows, folder.wanted, folder.coded):
            folder.add(*part)
        figures["key_bytes"] = group_bytes.held
    except ResourceExhausted as problem:
        return Findings(
            figures,
            {"problem": problem.message},
            [f"an invocation is refused: {problem.message}", state_line, *_refused(node, side)],
        )
    finally:
        group_bytes.give_back()
    figures |= {"groups": folder.groups, "rows": rows.count}
    groups = f"{counted(folder.groups, 'group')} of {counted(rows.count, 'tuple')}"
    return Findings(figures, {}, [groups, state_line, *reused])


def explain_hop(node: Hop) -> Findings:
    """Explain a Hop: the panes of its buckets, and the number of buckets that have a tuple. O(1)."""
    pane, size = describe_duration(node.pane), describe_duration(node.size)
    figures = {"panes": node.panes, "buckets": node.buckets}
    facts = {"pane": pane, "slide": describe_duration(node.slide), "size": size}
    line = f"buckets of {counted(node.panes, 'pane')} of {pane}; a tuple is in {_buckets(node)}"
    return Findings(figures, facts, [line])


def _buckets(node: Hop) -> str:
    """The number of buckets that have a tuple, in words."""
    whole = node.size // node.slide
    return counted(whole, "bucket") if whole == node.buckets else f"{whole} or {counted(node.buckets, 'bucket')}"


def _state_bytes(node: Aggregate) -> float:
    """Bytes of the states of one more group. Lists of values (median, DISTINCT) also grow with the rows."""
    states = states_of(node).values()
    return float(sum(size_of(each.folding.empty(2)) - size_of(each.folding.empty(1)) for each in states))


def _refused(node: Aggregate, side: Side) -> list[str]:
    """A line with the reason why the engine does not fold the aggregates ahead of invocations. Returns no line if it
    does.
    """
    recipe = recipe_of(node.measures, node.keys)
    why = "" if recipe is None else refused_ahead(side, recipe)
    return [f"not folded ahead: {why}"] if why else []


def _reused(node: Aggregate, side: Side, figures: dict[str, float], config: EngineConfig) -> list[str]:
    """A line about the folds of whole chunks in the window, and the tuples at its two ends."""
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
