"""Expected spend of an invocation now: for each budget (`psoup.budgets`), its estimate and the limit.

    budgets  rows_examined about 1,200 (no limit of its own)
             join_pairs about 5,000 of 268,435,456
             sort_rows at most 1,000 of 5,000,000
             reply_bytes about 8,000 (no limit of its own)

Estimates come from counts that EXPLAIN has made anyway. The list leaves out a budget without an estimate, and a budget
that the query does not spend. In sorts, and in groups of a join, the estimate takes eight bytes for a key. Other groups
are counted, with the actual bytes of their states. Bytes of a reply do not include the letters of texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import pyarrow as pa

from psoup import budgets
from psoup.answer.explain.source import SourceExplanation
from psoup.answer.plan_nodes import PlanNode
from psoup.budgets import Budget
from psoup.config import EngineConfig, GroupLimits
from psoup.execution.rows.sort import most_held
from psoup.plan.nodes import Limit, Node, Over, Sort, walk
from psoup.values.kinds import arrow_type
from psoup.work.read_budget import NO_LIMIT, ReadBudget

_VALUE = 8
"""Estimated bytes of a key."""
_OFFSET = 4
"""Bytes of the offset of a text in Arrow."""
_NEITHER = "about"
_LEAST = "at least"
_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Spend:
    """An expected spend. `limit`: None if unlimited. `bound`: "about", "at least" or "at most".

    `setting`: the name of the setting that sets the limit.
    """

    budget: str
    expected: float
    limit: float | None
    bound: str = _NEITHER
    setting: str = ""

    @property
    def line(self) -> str:
        """The spend in words, with the setting if its name differs from the budget."""
        limit = " (no limit of its own)" if self.limit is None else f" of {_said(self.limit)}"
        said = f" ({self.setting})" if self.setting not in ("", self.budget) else ""
        return f"{self.budget} {self.bound} {_said(self.expected)}{limit}{said}"


class Known(NamedTuple):
    """Measurements. `examined`: tuples read to count the matches. `seconds`: processor time of the last answer.

    None: not counted, or not measured.
    """

    examined: int | None
    seconds: float | None


def spend(budget: Budget, expected: float, limit: float, bound: str = _NEITHER) -> Spend:
    """The expected spend of a budget. A `limit` of at least NO_LIMIT means unlimited."""
    return Spend(budget.name, expected, None if limit >= NO_LIMIT else limit, bound, budget.setting)


def expected_spends(
    plan: Node,
    nodes: Sequence[PlanNode],
    sources: Sequence[SourceExplanation],
    measured: Known,
    config: EngineConfig,
    groups: GroupLimits,
    budget: ReadBudget,
) -> tuple[Spend, ...]:
    """The expected spends of an invocation. `groups`: the limits of its tenant for groups."""
    on_disk = sum(source.to_evaluate for source in sources)
    bound = "at least" if measured.examined is None else _NEITHER
    spends = [spend(budgets.ROWS_EXAMINED, max(on_disk, measured.examined or 0), budget.rows, bound)]
    if measured.seconds is not None:
        spends.append(spend(budgets.READ_CPU, measured.seconds, budget.cpu_s))
    if on_disk:
        spends += _on_disk(on_disk, sources, config, budget)
    for node in nodes:
        spends += _of_node(node, nodes, plan, config, groups, budget)
    return (*spends, *_reply(nodes, plan, counted=measured.examined is not None))


def spend_lines(spends: Sequence[Spend]) -> list[str]:
    """The spends as text for a terminal."""
    return [f"  {'' if place else 'budgets':9}{expected.line}" for place, expected in enumerate(spends)]


def _on_disk(
    tuples: int, sources: Sequence[SourceExplanation], config: EngineConfig, budget: ReadBudget
) -> Iterator[Spend]:
    seconds = [source.expected_seconds for source in sources if source.expected_seconds is not None]
    if budget.archive is not None and seconds:
        yield spend(budgets.ARCHIVE_SECONDS, sum(seconds), budget.archive.seconds)
    if config.archive_rows < NO_LIMIT:
        yield spend(budgets.ARCHIVE_ROWS, tuples, config.archive_rows)


def _of_node(
    node: PlanNode,
    nodes: Sequence[PlanNode],
    plan: Node,
    config: EngineConfig,
    groups: GroupLimits,
    budget: ReadBudget,
) -> Iterator[Spend]:
    """The spends of a step of the plan that can be estimated."""
    figures = node.figures
    if node.operator == "hop":
        yield from _of_hop(node, nodes, groups, budget)
    elif any(above.operator == "hop" and above.inputs == (node.id,) for above in nodes):
        return  # its groups are panes: the hop has the spends of both
    elif node.operator == "join" and "candidates" in figures:
        bound = _NEITHER if figures["whole"] else "at least"
        yield spend(budgets.JOIN_PAIRS, figures["candidates"], config.joins.pairs, bound)
        yield spend(budgets.JOIN_BYTES, figures["bytes"], config.joins.bytes, bound)
    elif node.operator == "aggregate" and "groups" in figures:
        yield spend(budgets.GROUP_KEYS, figures["groups"], groups.keys)
        yield spend(budgets.GROUP_ROWS, figures["groups"], groups.rows, _MOST)
        rows_or_bytes = figures["key_bytes"] + figures["groups"] * figures["state_bytes"]
        yield spend(budgets.GROUP_BYTES, rows_or_bytes, budget.sort_bytes)
    elif node.operator == "aggregate" and figures["keys"] and (joined := _joined_below(node, nodes)) is not None:
        yield spend(budgets.GROUP_KEYS, joined, groups.keys, _MOST)
        yield spend(budgets.GROUP_ROWS, joined, groups.rows, _MOST)
        rows_or_bytes = joined * (_VALUE * figures["keys"] + figures["state_bytes"])
        yield spend(budgets.GROUP_BYTES, rows_or_bytes, budget.sort_bytes, _NEITHER)
    elif node.operator in ("sort", "distinct", "over") and (rows := _rows_below(node, nodes)) is not None:
        rows_or_bytes = int(rows) if node.operator == "over" else most_held(int(rows), _limit(plan))
        yield spend(budgets.SORT_ROWS, rows_or_bytes, config.sort_rows, "at most")
        yield spend(
            budgets.SORT_BYTES, 2 * _VALUE * rows_or_bytes * (_keys(node, plan) + 1), budget.sort_bytes, _NEITHER
        )


def _of_hop(hop: PlanNode, nodes: Sequence[PlanNode], groups: GroupLimits, budget: ReadBudget) -> Iterator[Spend]:
    """The spends of a hop and of the aggregate below it: the panes, and a group for each pane and bucket at most."""
    aggregate = nodes[hop.inputs[0]]
    panes, figures = _rows_of(aggregate, nodes, counted=True)[0], aggregate.figures
    if panes is None:
        return
    yield spend(budgets.GROUP_KEYS, panes * hop.figures["buckets"], groups.keys, _MOST)
    yield spend(budgets.GROUP_ROWS, panes * hop.figures["buckets"], groups.rows, _MOST)
    key_bytes = figures["key_bytes"] if "groups" in figures else panes * _VALUE * figures["keys"]
    each = key_bytes + panes * figures["state_bytes"]
    yield spend(budgets.GROUP_BYTES, each * (1 + hop.figures["buckets"]), budget.sort_bytes, _NEITHER)


def _reply(nodes: Sequence[PlanNode], plan: Node, *, counted: bool) -> Iterator[Spend]:
    """The bytes of all rows of the answer as Arrow, without validity bits and the letters of texts."""
    rows, bound = _rows_of(nodes[0], nodes, counted=counted)
    if rows is None:
        return
    limit = _limit(plan)
    if limit is not None and isinstance(plan, Limit):
        bound = _NEITHER if rows > limit and bound == _LEAST else bound
        rows = max(min(rows, limit) - plan.skip, 0)
    types = [arrow_type(output.expr.type) for output in plan.schema]
    texts = [pa.types.is_string(each) or pa.types.is_large_string(each) for each in types]
    width = sum(_OFFSET if text else each.bit_width / 8 for each, text in zip(types, texts, strict=True))
    if any(texts):
        bound = _NEITHER if bound == _MOST else _LEAST
    yield spend(budgets.REPLY_BYTES, ceil(rows * width), NO_LIMIT, bound)


def _rows_of(node: PlanNode, nodes: Sequence[PlanNode], *, counted: bool) -> tuple[float | None, str]:
    """The estimated number of rows of a step, None if unknown. The second value is the kind of bound of this
    estimate.
    """
    figures = node.figures
    if node.operator == "aggregate":
        if not figures["keys"]:
            return 1, _NEITHER
        return (figures["groups"], _NEITHER) if "groups" in figures else (_joined_below(node, nodes), _MOST)
    if "rows" in figures:
        return figures["rows"], _NEITHER if figures.get("whole", 1) else _LEAST
    if node.operator == "join":
        return None, _NEITHER
    if not node.inputs:
        return figures.get("matches_in_window"), _NEITHER if counted else _LEAST
    rows, bound = _rows_of(nodes[node.inputs[0]], nodes, counted=counted)
    if node.operator == "hop":
        return (None if rows is None else rows * figures["buckets"]), _MOST
    if node.operator == "union" and rows is not None:
        second, bound = _rows_of(nodes[node.inputs[1]], nodes, counted=counted)
        rows = None if second is None else rows + second
    fewer = node.operator in ("having", "distinct", "filter", "union", "intersect", "except")
    return (None, bound) if fewer and bound == _LEAST else (rows, _MOST if fewer else bound)


def _joined_below(node: PlanNode, nodes: Sequence[PlanNode]) -> float | None:
    """The rows of the join that feeds an aggregate. Returns None if there is no join, or if EXPLAIN stopped it
    early.
    """
    below = nodes[node.inputs[0]]
    while below.operator != "join" and len(below.inputs) == 1:
        below = nodes[below.inputs[0]]
    return below.figures["rows"] if below.figures.get("whole") else None


def _rows_below(node: PlanNode, nodes: Sequence[PlanNode]) -> float | None:
    """The rows that enter a step: the count of the nearest of its inputs that has one. Returns None if none has."""
    while node.inputs:
        node = nodes[node.inputs[0]]
        if node.operator == "hop":
            return _rows_of(node, nodes, counted=True)[0]
        for figure in ("groups", "rows", "matches_in_window"):
            if figure in node.figures:
                return node.figures[figure]
        if len(node.inputs) > 1 or node.operator == "aggregate":
            return None
    return None


def _keys(node: PlanNode, plan: Node) -> int:
    """The number of columns that a sort or DISTINCT compares, or that OVER reads and makes."""
    _, step = list(walk(plan))[node.id]
    if isinstance(step, Over):
        return len({expr for function in step.functions for expr in function.read}) + len(step.functions)
    return len(step.keys) if isinstance(step, Sort) else len(step.schema)


def _limit(plan: Node) -> int | None:
    """The rows of a LIMIT, plus the rows that it skips. Returns None if the plan has no LIMIT."""
    if isinstance(plan, Limit) and plan.rows is not None:
        return plan.rows + plan.skip
    return None


def _said(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) else f"{figure:.3g}"
