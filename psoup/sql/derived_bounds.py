"""The refusal of derived streams whose state has no bound (UNBOUNDED_STATE), with the ways out.

    plan ── psoup.plan.state_bounds ──> the edge with state ── an amount without a bound ──> SqlError at its source

Without EVERY, the state of the operator needs a bound. With EVERY, so do the windows that each answer reads.
"""

from __future__ import annotations

from psoup.plan.inputs import Source
from psoup.plan.nodes import Filter, JoinKind, Node, PartnerJoin
from psoup.plan.standing_query import StandingQuery
from psoup.plan.state_bounds import Widths, state_edge, window_tuples
from psoup.sql.derived_places import place_of_source
from psoup.sql.source import StatementText

UNBOUNDED_STATE = "UNBOUNDED_STATE"
"""The reason of the refusal."""
_SETTLING = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.LEFT)
"""Joins whose state a band in event time bounds (`psoup.plan.derived_stays`)."""


def refuse_unbounded(source: StatementText, query: StandingQuery, widths: Widths, at: int, *, leaves: bool) -> None:
    """Raise SqlError for a state that only grows. `widths`, `leaves`: as in `state_edge`. `at`: the SELECT."""
    edge = state_edge(query.plan, widths, leaves=leaves)
    amount = edge.bound.limitless
    if amount is None or amount.place is None:
        return
    name = query.sources[amount.place].spec.name
    raise source.error(
        f"the state of {edge.label} has no bound: {amount.unbounded}",
        place_of_source(source, at, query.sources, amount.place),
        hint=f"give it a window, as in {name} [RANGE 1 DAY], create {name} with RETENTION in time,{_band(edge.node)} or"
        " write STATE AT MOST 64 MB after the SELECT: the stream stops at that size",
        reason=UNBOUNDED_STATE,
    )


def refuse_unbounded_windows(source: StatementText, query: StandingQuery, at: int) -> None:
    """Raise SqlError for the first window without a bound. `at`: the place of the SELECT."""
    for each in query.sources:
        name = each.spec.name
        if window_tuples(each).unbounded:
            raise source.error(
                f"the window of {name!r} has no bound: each answer would take all tuples that ever came",
                place_of_source(source, at, query.sources, each.place),
                hint=f"write a window, as in {name} [RANGE 1 HOUR], create {name} with RETENTION, or write STATE AT"
                " MOST 64 MB after the SELECT: the stream stops once an answer is larger",
                reason=UNBOUNDED_STATE,
            )


def _band(node: Node) -> str:
    """The way out by a band in event time, as a part of a sentence. "" if a band does not bound the state."""
    if not isinstance(node, PartnerJoin) or node.kind not in _SETTLING:
        return ""
    right = node.right
    while isinstance(right, Filter):
        right = right.input
    if not isinstance(right, Source) or not all(each.spec.event_time for each in node.sources):
        return ""
    row, partner = node.left.sources[0].alias, right.alias
    return f" write a time band, as in {partner}._time BETWEEN {row}._time AND {row}._time + INTERVAL 1 HOUR,"
