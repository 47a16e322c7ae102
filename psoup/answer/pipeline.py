"""A plan evaluated: every node makes rows of those of its input, as references (`psoup.answer.rows`).

    Source ─ matches ─> Project ──> Distinct ──> Sort ──> Limit ─ rows ─> columns, gathered last

Nothing is read here: rows are taken, and sorted, when whoever reads the answer asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psoup.answer.rows import Arranged, Arrivals, Reading, Rows
from psoup.invariants import ensure
from psoup.plan.nodes import Distinct, Limit, Node, Project, Sort, Source


def rows_of(node: Node, reading: Reading) -> Rows:
    """The rows of a node. O(nodes)."""
    return _EVALUATORS[type(node)](node, reading)


def _source(node: Source, reading: Reading) -> Rows:
    return Arrivals(reading, reading.matches[node.place])


def _project(node: Project, reading: Reading) -> Rows:
    """What rows show is computed last."""
    return rows_of(node.input, reading)


def _distinct(node: Distinct, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    assert isinstance(rows, Arrivals), "rows are told apart as they come: of equal ones the first is kept"
    return Arranged(rows, distinct=tuple(output.expr for output in node.schema))


def _sort(node: Sort, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    if isinstance(rows, Arrivals):
        return Arranged(rows, order=node.keys)
    ensure(not rows.order and rows.limit is None, "plan", "rows are sorted once, and before they are cut")
    rows.order = node.keys  # one pass over the keys tells apart and sorts
    return rows


def _limit(node: Limit, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    rows.cut(node.rows)
    return rows


_EVALUATORS: dict[type[Node], Callable[[Any, Reading], Rows]] = {
    Source: _source,
    Project: _project,
    Distinct: _distinct,
    Sort: _sort,
    Limit: _limit,
}
