"""Derived streams with EVERY: which SELECTs have an answer at each instant, and how long a tuple is needed for it.

A pump evaluates the whole SELECT at each instant, so every query is allowed that can be invoked. Its windows must have
a bound. Otherwise each answer would read all tuples that ever came.
"""

from __future__ import annotations

from psoup.expressions.supplied_functions import used_in
from psoup.model import Anchor
from psoup.plan.inputs import Source
from psoup.plan.node_exprs import plan_reads_now
from psoup.plan.standing_query import StandingQuery
from psoup.sql.derived_bounds import refuse_unbounded_windows
from psoup.sql.derived_places import place_of, place_of_source, place_of_word
from psoup.sql.source import StatementText


def refuse_for_ticks(
    source: StatementText, query: StandingQuery, at: int, name: str, state_limit: int | None = None
) -> None:
    """Raise SqlError for a SELECT that a pump cannot evaluate at each instant. `name`: of the derived stream.

    `at`: the offset of the SELECT in the statement. `state_limit`: STATE AT MOST, in bytes; windows need no bound then.
    """
    if plan_reads_now(query.plan):
        hint = "leave it out; _time of a tuple is the instant of its answer"
        feature = "now() in a derived stream"
        raise source.unsupported(feature, place_of(source, at, feature), hint=hint)
    if supplied := used_in([query.text]):
        hint = f"select its arguments, and call it in the queries over {name}"
        place = place_of_word(source, at, supplied[0].partition("(")[0])
        raise source.unsupported("a supplied function in a derived stream", place, hint=hint, yet=True)
    for each in query.sources:
        stream, place = each.spec.name, place_of_source(source, at, query.sources, each.place)
        if each.spec.idle_after is not None and len(query.sources) > 1:
            hint = f"create {stream} with WATERMARK BY CLOCK instead of IDLE AFTER"
            feature = f"a join of {stream!r}, which has IDLE AFTER, in a derived stream"
            raise source.unsupported(feature, place, hint=hint, yet=True)
        if each.spec.retention.rows is not None and _stated_width(each) is None:
            hint = f"write a window in time, as in {stream} [RANGE 1 HOUR]"
            feature = f"such a window of {stream!r}, which has RETENTION in rows, in a derived stream"
            raise source.unsupported(feature, place, hint=hint, yet=True)
    if state_limit is None:
        refuse_unbounded_windows(source, query, at)


def tick_width(source: Source, every: int) -> int | None:
    """The time for which a tuple of a source is needed, in microseconds: until the tick after it has left.

    Of a table, a pump needs the versions that hold at the last instant. Of a table AS OF a stream, it needs the whole
    HISTORY. None if tuples are needed for ever.
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
