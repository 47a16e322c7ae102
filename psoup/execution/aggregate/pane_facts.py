"""The decision whether the rows of a HOP are folded by pane, or once for each bucket.

    count, sum, max of BIGINT       any time          by pane: the order of rows does not matter
    first, arg_max, min of DOUBLE   stream's time     by pane: panes are in stream order
    first, arg_max, min of DOUBLE   another time      once for each bucket
    variance, median, DISTINCT      any time          once for each bucket

MIN of DOUBLE shows -0.0 or 0.0, whichever came first. So it depends on the order of rows.
"""

from __future__ import annotations

from psoup.aggregates.recipes import recipe_of
from psoup.expressions.tree import TIME_INDEX, AttributeRef, Call
from psoup.plan.hop import Hop
from psoup.plan.nodes import Source
from psoup.plan.plan_facts import plan_fact


@plan_fact
def combines_panes(hop: Hop) -> bool:
    """Whether the states of a bucket are exactly the combined states of its panes."""
    recipe = recipe_of(hop.aggregate.measures, hop.aggregate.keys)
    return recipe is not None and (recipe.commutes or _in_stream_order(hop))


def _in_stream_order(hop: Hop) -> bool:
    """Whether later panes have later tuples: the time never decreases along the stream."""
    source, pane = hop.aggregate.input, hop.aggregate.keys[hop.place]
    assert isinstance(pane, Call)
    time = pane.args[-1]
    if not isinstance(source, Source) or source.spec.table is not None or not isinstance(time, AttributeRef):
        return False
    return time.index == TIME_INDEX or (source.spec.event_time and time.index == source.spec.time_attribute)
