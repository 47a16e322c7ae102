"""The ways that an invocation would try now, for EXPLAIN: names from the list `psoup.execution.ways`.

    Project r.k, s.v       | by small_join, else join_messages
      Join r.k = s.k       | by small_pairs, else key_join, else routed_join
    Project sum            | by single_row, else computed_rows
      Aggregate sum(x)     | by window_folds, else window_rows
    Hop BY hop(t, …)       | by combined_panes

No way is run, so the next invocation is not affected. A way has the name of its module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from psoup.answer.plan_nodes import Findings
from psoup.execution.aggregate.window_case import WindowCase
from psoup.execution.join.join_case import join_case
from psoup.execution.join.located_side import count_of
from psoup.execution.plan import rows_of
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.clause_matches import Side
from psoup.execution.ways import ANSWER, BUCKETS, JOIN, WINDOW
from psoup.plan.nodes import Aggregate, Hop, Join, Limit, Node, Source, walk
from psoup.plan.way import Way, always
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget

_MOST_ROWS = 65_536
"""The most rows of a batch. An invocation has the same default."""
_MOST_BYTES = 1 << 30
"""The most bytes of a batch. An invocation has the same default."""

Chosen = Mapping[int, Sequence[str]]
"""A map from the `id` of a plan node to the names of the ways that its line shows."""


def chosen_ways(
    plan: Node, alone: Side | None, reading: Reading | None, snapshot: Snapshot, budget: ReadBudget
) -> Chosen:
    """The ways of a plan's steps. `alone`: the selection of a query without sides.

    `reading`: the matches of the sides of another query; None if EXPLAIN did not count them.
    """
    return {id(node): [way.name for way in ways] for node, ways in _steps(plan, alone, reading, snapshot, budget)}


def with_ways(findings: Findings, names: Sequence[str]) -> Findings:
    """The findings of a node, with the ways of its step."""
    if not names:
        return findings
    facts = {**findings.facts, "ways": ", ".join(names)}
    return replace(findings, facts=facts, lines=[f"by {', else '.join(names)}", *findings.lines])


def _steps(
    plan: Node, alone: Side | None, reading: Reading | None, snapshot: Snapshot, budget: ReadBudget
) -> Iterator[tuple[Node, Sequence[Way[Any, Any]]]]:
    for _, node in walk(plan):
        if isinstance(node, Hop):
            yield node, BUCKETS.serving(node)[:1]  # each accepts every case
    if alone is not None:
        serving = ANSWER.serving(plan)
        yield plan, serving[: 1 + next(at for at, way in enumerate(serving) if way.accepts is always)]
        for _, node in walk(plan):
            if isinstance(node, Aggregate) and isinstance(node.input, Source):
                yield node, WINDOW.expected(plan, WindowCase(*alone, plan, snapshot, budget))
        return
    if reading is None:
        return
    yield plan, ANSWER.expected(plan, AnswerCase(plan, reading, _MOST_ROWS, _MOST_BYTES, rows_of))
    for _, node in walk(plan):
        if isinstance(node, Join) and node.inputs == plan.sources and all(map(count_of, reading.matches)):
            case = join_case(node, reading, JOIN, few=isinstance(plan, Limit) and plan.rows is not None)
            try:
                yield node, JOIN.expected(case.node, case)
            finally:
                case.close()
