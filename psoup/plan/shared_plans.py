"""Sharing of plans between queries of one form: thousands of joins keep one plan object, and one for each side.

    SELECT … FROM r, s WHERE r.a = 5 AND r.k = s.k      plan: Project, Join r.k = s.k, Source r, Source s
    SELECT … FROM r, s WHERE r.a = 6 AND r.k = s.k      the same plan: it has no constant of a side

Equal plans are interchangeable.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from psoup.plan.nodes import Node
from psoup.plan.standing_query import StandingQuery

_PLANS = 256


class SharedPlans:
    """A cache of the plans of the forms that were used last. Any thread may use it."""

    def __init__(self) -> None:
        self._first_equal = lru_cache(_PLANS)(_itself)

    def of(self, query: StandingQuery) -> StandingQuery:
        """A copy of the query that uses the plan of an earlier query if the two plans are equal. The sides share
        plans in the same way. O(plan)."""
        plan = self._first_equal(query.plan)
        sources = zip(query.selections, plan.sources, strict=True)
        selections = tuple([replace(selection, source=source) for selection, source in sources])
        return replace(query, selections=selections, plan=plan, sides=tuple(map(self.of, query.sides)))


def _itself(plan: Node) -> Node:
    return plan
