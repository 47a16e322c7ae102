"""The way that serves every join: an eddy, which routes partial tuples through join steps in an order that adapts.

    r, s, t  ─ psoup.joins.join_pieces ─> pieces of positions, one array for each source

It also serves sides on disk, factors with expressions, and joins of three sources or more.
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
    """Find the rows, in pieces. The join starts when the caller asks for the first piece."""
    return RoutedPieces(case)


class RoutedPieces:
    """The pieces of `psoup.joins.join_pieces`, with the sides to which their positions refer."""

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
        """The number of values so far that could not be computed."""
        return self._join.errors

    def __iter__(self) -> Iterator[list[Array]]:
        return self._join


@plan_fact
def _learned_of(node: Join) -> Learned:
    """Statistics of join steps from earlier joins of this plan. All queries of one template share them."""
    return Learned()
