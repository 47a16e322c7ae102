"""Derived streams with EVERY: which SELECTs have an answer at each instant, and how long a tuple is needed for it.

A pump evaluates the whole SELECT at each instant, so any query is allowed that can be invoked. Its windows must have a
bound: else each answer would take all tuples that ever came.
"""

from __future__ import annotations

from psoup.expressions.supplied_functions import used_in
from psoup.model import Anchor
from psoup.plan.inputs import Source
from psoup.plan.node_exprs import plan_reads_now
from psoup.plan.standing_query import StandingQuery
from psoup.sql.source import StatementText

UNBOUNDED_STATE = "UNBOUNDED_STATE"
"""The reason of a refusal, as a window has no bound."""


def refuse_for_ticks(
    source: StatementText, query: StandingQuery, at: int, name: str, state_limit: int | None = None
) -> None:
    """Raise SqlError for a SELECT that a pump cannot evaluate at each instant. `name`: the derived stream.

    `at`: the place of the SELECT. `state_limit`: with STATE AT MOST, windows may have no bound.
    """
    if plan_reads_now(query.plan):
        hint = "leave it out; _time of a tuple is the instant of its answer"
        raise source.unsupported("now() in a derived stream", at, hint=hint)
    if used_in([query.text]):
        hint = f"select its arguments, and call it in the queries over {name}"
        raise source.unsupported("a supplied function in a derived stream", at, hint=hint, yet=True)
    for each in query.sources:
        stream = each.spec.name
        if each.spec.idle_after is not None and len(query.sources) > 1:
            hint = f"create {stream} with WATERMARK BY CLOCK instead of IDLE AFTER"
            feature = f"a join of {stream!r}, which has IDLE AFTER, in a derived stream"
            raise source.unsupported(feature, at, hint=hint, yet=True)
        if each.spec.retention.rows is not None and _stated_width(each) is None:
            hint = f"write a window in time, as in {stream} [RANGE 1 HOUR]"
            feature = f"such a window of {stream!r}, which has RETENTION in rows, in a derived stream"
            raise source.unsupported(feature, at, hint=hint, yet=True)
        if not _is_bounded(each) and state_limit is None:
            raise source.error(
                f"the window of {stream!r} has no bound: each answer would take all tuples that ever came",
                at,
                hint=f"write a window, as in {stream} [RANGE 1 HOUR], create {stream} with RETENTION, or write STATE AT"
                " MOST 64 MB after the SELECT: the stream stops once an answer is larger",
                reason=UNBOUNDED_STATE,
            )


def tick_width(source: Source, every: int) -> int | None:
    """The time for which a tuple of a source is needed, in microseconds: until the tick after it has left.

    A table needs versions that hold at the last instant. AS OF a stream, it needs all of its HISTORY. None for ever.
    """
    table = source.spec.table
    if table is not None:
        return every + (0 if source.as_of is None else table.history)
    bounds = [bound for bound in (_stated_width(source), source.spec.retention.duration) if bound is not None]
    return every + min(bounds) if bounds else None


def _stated_width(source: Source) -> int | None:
    """The width of a window in time that begins before NOW. None for other windows."""
    begin = source.window.begin
    return begin.offset if begin.anchor is Anchor.NOW and begin.rows is None else None


def _is_bounded(source: Source) -> bool:
    """Whether the tuples in the window of a source have a bound in time or in number."""
    window, retention = source.window, source.spec.retention
    if source.spec.table is not None or retention.duration is not None or retention.rows is not None:
        return True
    return window.begin.anchor is Anchor.NOW or window.end.anchor is not Anchor.NOW
