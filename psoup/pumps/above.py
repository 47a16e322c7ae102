"""The nodes above an operator with state: HAVING, and the columns of the SELECT, computed over its deltas.

    groups k, n          (1, 3) enters at 7, (1, 2) leaves at 7
    Project n > 1        true enters at 7, true leaves at 7: nothing changes

The deltas of each node are netted again: at one instant, no value both enters and leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.config import TextLimits
from psoup.delta import Deltas, netted
from psoup.execution.rows.select_list import shown
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Expr
from psoup.invariants import corrupt
from psoup.plan.nodes import Filter, Having, Node, Project
from psoup.values.columns import Column, concat_columns
from psoup.work.read_budget import ReadBudget

_ROWS = 65_536
"""The most rows over which expressions are computed at once."""


def result_of(nodes: Sequence[Node], deltas: Deltas, texts: TextLimits, budget: ReadBudget) -> tuple[Deltas, int]:
    """The deltas of the highest node above an operator. Also the number of values that could not be computed.

    A node reads the columns of the node below by their positions. A value that could not be computed is NULL.
    """
    errors = 0
    for node in nodes:
        match node:
            case Filter() | Having():
                (passed,) = _computed([node.condition], deltas, texts, budget)
                keeps = passed.values if passed.valid is None else passed.values & passed.valid
                errors += _failed([passed])
                deltas = deltas.take(np.flatnonzero(keeps))
            case Project():
                columns = _computed([output.expr for output in node.outputs], deltas, texts, budget)
                errors += _failed(columns)
                deltas = netted(columns, deltas.sign, deltas.instant)
            case _:
                raise corrupt("derivation", "a node above an operator with state", node=node.label)
    return deltas, errors


def _computed(exprs: list[Expr], deltas: Deltas, texts: TextLimits, budget: ReadBudget) -> list[Column]:
    """Expressions over the columns of deltas. Raises ResourceExhausted if the texts of one row are too large."""
    rows = len(deltas.sign)
    starts = range(0, max(rows, 1), _ROWS)
    parts = [_part(exprs, deltas, start, min(start + _ROWS, rows), texts, budget) for start in starts]
    return [concat_columns(group) for group in zip(*parts, strict=True)]


def _part(
    exprs: list[Expr], deltas: Deltas, start: int, stop: int, texts: TextLimits, budget: ReadBudget
) -> list[Column]:
    budget.check()
    columns = {place: column.slice(start, stop) for place, column in enumerate(deltas.columns)}
    try:
        return shown(exprs, columns, stop - start, None, texts, budget)
    except TooMuchText:
        middle = (start + stop) // 2
    halves = [_part(exprs, deltas, *ends, texts, budget) for ends in ((start, middle), (middle, stop))]
    return [concat_columns(group) for group in zip(*halves, strict=True)]


def _failed(columns: Sequence[Column]) -> int:
    return sum([int(np.count_nonzero(column.error)) for column in columns if column.error is not None])
