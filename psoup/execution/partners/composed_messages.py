"""The way that shows joins with missing tuples as Arrow messages, whose columns it gathers from the chunks.

    pieces of positions, MISSING ─ the null row of a side ─ psoup.execution.join.join_batch ─> messages

It serves SELECT lists of columns over outer joins and their like, without ORDER BY, DISTINCT or GROUP BY. All leaves
must be streams whose chunks are in memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from psoup.execution.join.join_batch import JoinedForm, JoinedMessage, SideColumns, joined_form
from psoup.execution.join.join_messages import early_messages
from psoup.execution.join.key_join import SHARED
from psoup.execution.join.located_side import all_in_memory, count_of
from psoup.execution.join.null_row import NullRowMemory
from psoup.execution.join.sides import MatchedSide
from psoup.execution.partners.composed_rows import ComposedRows, is_composed
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.leaf_rows import leaf_facts
from psoup.expressions.tree import AttributeRef
from psoup.plan.nodes import Join, Limit, Node, Output, Project, Source
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget
from psoup.work.runner import serial


@plan_fact
def composed_form(plan: Node) -> JoinedForm | None:
    """The form of a plan of composed rows, over its leaves in the order of FROM. None if the way does not serve it."""
    node = plan.input if isinstance(plan, Limit) else plan
    if not isinstance(node, Project):
        return None
    below = node.input
    plain = isinstance(below, Join) and below.joins_streams and len(below.inputs) == len(plan.sources)
    if plain or not is_composed(below) or not all(isinstance(leaf, Source) for leaf in below.leaves):
        return None
    places = {leaf.place: at for at, leaf in enumerate(below.leaves)}
    outputs = [
        Output(o.name, AttributeRef(o.type, o.expr.index, o.expr.name, places[o.expr.source]))
        for o in node.outputs
        if isinstance(o.expr, AttributeRef)
    ]
    return joined_form(tuple(outputs), len(places)) if len(outputs) == len(node.outputs) else None


def serves(plan: Node) -> bool:
    """Whether a plan is a tree of joins of streams, with or without LIMIT, whose SELECT list has columns only."""
    return composed_form(plan) is not None


def accepts(case: AnswerCase) -> bool:
    """Whether all sides have rows, and are in memory."""
    return all(count_of(matches) and all_in_memory(matches) for matches in case.reading.matches)


def composed_messages(case: AnswerCase) -> Iterator[JoinedMessage]:
    """Find the rows, in order, and yield them as messages."""
    rows, form = case.rows(), composed_form(case.plan)
    assert isinstance(rows, ComposedRows) and form is not None
    return early_messages(rows, _messages(rows, form, case.most_rows), case.most_bytes)


def _messages(rows: ComposedRows, form: JoinedForm, at_once: int) -> Generator[JoinedMessage, None, None]:
    sides = list[_Leaf]()
    try:
        for piece in rows.pieces(at_once):
            sides = sides or _leaves(rows, form)
            positions = [side.at(positions_in_leaf) for side, positions_in_leaf in zip(sides, piece, strict=True)]
            yield JoinedMessage(form, [side.columns for side in sides], positions)
    finally:
        for side in sides:
            side.columns.close()
        rows.close()


class _Leaf:
    """The columns of a leaf, which has a null row if rows may miss the leaf."""

    def __init__(self, side: MatchedSide, form: JoinedForm, place: int, budget: ReadBudget, rows: float | None) -> None:
        """`rows`: the approximate number of rows of the answer. None: rows may miss the leaf."""
        self._nulls = NullRowMemory(side.memory) if rows is None else None
        memory = side.memory if self._nulls is None else self._nulls
        self.columns = SideColumns(memory, form, place, budget, rows or 0)

    def at(self, positions: Array) -> Array:
        """The positions in the columns."""
        return np.ascontiguousarray(positions) if self._nulls is None else self._nulls.at(positions)


def _leaves(rows: ComposedRows, form: JoinedForm) -> list[_Leaf]:
    """Open the columns of all leaves."""
    reading, opened = rows.reading, rows.sides
    sides = [side for side in opened if isinstance(side, MatchedSide)]
    expected = sides[0].rows if rows.limit is None else min(sides[0].rows, rows.limit)
    optional = leaf_facts(rows.node).optional
    leaves = [
        _Leaf(side, form, place, reading.budget, None if optional[place] else expected)
        for place, side in enumerate(sides)
    ]
    run = reading.run if sum([side.rows for side in sides]) >= SHARED else serial
    run([leaf.columns.task for leaf in leaves if leaf.columns.task is not None])
    return leaves
