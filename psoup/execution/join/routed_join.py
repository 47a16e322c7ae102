"""Rows of any join: operands computed, partial tuples sent through steps whose order adapts (an eddy).

    r, s, t  ─ psoup.joins.join_pieces ─> pieces of positions, one array for each source

This way serves every join: of sides on disk, of expressions, of three sources and more.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.execution.join.join_case import JoinCase
from psoup.joins.join_pieces import joined
from psoup.joins.policies import Learned
from psoup.plan.nodes import Join
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array


def routed_join(case: JoinCase) -> RoutedPieces:
    """The rows, in pieces; nothing is computed before the first is asked for."""
    return RoutedPieces(case)


class RoutedPieces:
    """The pieces of `psoup.joins.join_pieces`, with the sides that they count."""

    def __init__(self, case: JoinCase) -> None:
        reading = case.reading
        self.sides = case.sides
        self._join = joined(
            case.node,
            case.sides,
            now=reading.now,
            texts=reading.texts,
            budget=reading.budget,
            limits=case.limits,
            learned=_learned_of(case.node) if len(case.sides) > 2 else None,
        )
        self.close = self._join.close

    @property
    def errors(self) -> int:
        """Values so far that could not be computed."""
        return self._join.errors

    def __iter__(self) -> Iterator[list[Array]]:
        return self._join


@plan_fact
def _learned_of(node: Join) -> Learned:
    """Step statistics learned by earlier joins of this plan; shared by all queries of the form."""
    return Learned()
