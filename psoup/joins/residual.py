"""Residual conditions: those over several sources that are neither keys nor bands.

    r.a + s.b > 9 OR s.c = r.d        the columns read, source by source, become columns 0 1 2 3 of one scope

They are evaluated last, on tuples that satisfy keys and bands. So their failures do not depend on the route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psoup.config import TextLimits
from psoup.expressions.error_guard import every_value
from psoup.expressions.evaluate import Scope, TooMuchText
from psoup.expressions.tree import AttributeRef, Call, Expr, columns_of, of_source
from psoup.joins.side import JoinSide
from psoup.model import BOOLEAN
from psoup.plan.nodes import Join
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget


@plan_fact
def without_rest(node: Join) -> Join:
    """The join with the keys and bands of a node, and without its residual conditions. The result is cached."""
    return replace(node, rest=()) if node.rest else node


class Rest:
    """The residual conditions of a join.

    `errors`: the number of tuples so far for which a condition failed and no condition was false.
    """

    def __init__(
        self,
        conditions: Sequence[Expr],
        sides: Sequence[JoinSide],
        now: int | None,
        texts: TextLimits,
        budget: ReadBudget,
    ) -> None:
        self.errors = 0
        self._sides = sides
        self._now = now
        self._texts = texts
        self._budget = budget
        read = dict.fromkeys(column for condition in conditions for column in columns_of(condition))
        self._read = [[column for column in read if column.source == s] for s in range(len(sides))]
        flat = {column: place for place, column in enumerate(c for columns in self._read for c in columns)}
        whole = [_flattened(condition, flat) for condition in conditions]
        self._condition = whole[0] if len(whole) == 1 else Call(BOOLEAN, "and", tuple(whole))

    def kept(self, places: list[Array]) -> list[Array]:
        """The tuples (int64[n] rows of each source) that satisfy all conditions. O(n)."""
        middle = len(places[0]) // 2
        try:
            return self._kept(places)
        except TooMuchText:
            if not middle:
                raise
        first, second = ([rows[part] for rows in places] for part in (slice(middle), slice(middle, None)))
        # outside the handler, which keeps the failed evaluation alive
        halves = zip(self.kept(first), self.kept(second), strict=True)
        return [np.concatenate(both) for both in halves]

    def _kept(self, places: list[Array]) -> list[Array]:
        columns = []
        for side, rows_of_side, read in zip(self._sides, places, self._read, strict=True):
            if read:
                columns += side.take([of_source(column, 0) for column in read], rows_of_side)
        scope = Scope(columns, len(places[0]), None, None, self._now, self._texts)
        outcome = every_value(self._condition, scope, self._budget)
        if outcome.error is not None:
            self.errors += int(np.count_nonzero(outcome.error))
        true = outcome.values if outcome.valid is None else outcome.values & outcome.valid
        if true.all():
            return places
        rows = np.flatnonzero(true)
        return [rows_of_side.take(rows) for rows_of_side in places]


def _flattened(expr: Expr, flat: dict[AttributeRef, int]) -> Expr:
    """The expression with its columns renumbered for the common scope."""
    if isinstance(expr, AttributeRef):
        return AttributeRef(expr.type, flat[expr], expr.name)
    if isinstance(expr, Call):
        return Call(expr.type, expr.name, tuple(_flattened(arg, flat) for arg in expr.args))
    return expr
