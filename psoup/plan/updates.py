"""The update pattern and the clocks of each edge of a plan, from its sources up (`psoup.plan.patterns`).

    Project                                 strict, rows of v; monotonic 8 hours later
      ANTI JOIN … v._time <= d._time + 8h   strict, rows of v; monotonic 8 hours later
        Source d                            monotonic
        Source v                            monotonic

An absence is strict: a later partner removes its row. But if the partner's time has a bound in the row's time, the
partner comes at the bound or never. So an absence in event time is final once NOW has passed the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psoup.model import Anchor
from psoup.plan.above import Limit, Project
from psoup.plan.inputs import Source, steps_back
from psoup.plan.nodes import Filter, Node, PartnerJoin, SetOperation, Values, walk
from psoup.plan.partners import JoinKind
from psoup.plan.patterns import TIME, Operator, Pattern, UpdateClock, Updates, combined, lowered
from psoup.plan.time_bands import upper_bounds

Clocks = frozenset[UpdateClock]


def updates_of(plan: Node) -> Updates:
    """The update pattern and the clocks of a plan's answer. O(size of the plan)."""
    return plan_updates(plan)[id(plan)]


def plan_updates(plan: Node) -> Mapping[int, Updates]:
    """The update pattern and the clocks of each node's result, by the node's `id`. O(size of the plan)."""
    edges: dict[int, Updates] = {}
    by_now = steps_back(plan.sources)
    for _, node in reversed(list(walk(plan))):
        edges[id(node)] = _of_node(node, [edges[id(below)] for below in node.inputs], by_now)
    return edges


def _of_node(node: Node, inputs: Sequence[Updates], by_now: bool) -> Updates:
    """The updates of a node's result. `by_now`: whether NOW of the whole plan may step back."""
    if isinstance(node, Source):
        return Updates(Pattern.STRICT, frozenset((TIME,))) if by_now else _of_source(node)
    if isinstance(node, Values):
        return Updates(Pattern.MONOTONIC)
    if isinstance(node, PartnerJoin) and node.kind.is_as_of:
        return _of_join_as_of(node, inputs[0])
    operator = node.update_operator if isinstance(node, SetOperation) else node.operator
    updates = combined(operator, inputs, _own_clocks(node, operator))
    if isinstance(node, PartnerJoin) and operator is Operator.STRICT and not by_now:
        return _lowered(node, updates, inputs)
    if isinstance(node, Limit) and operator is Operator.UNARY_WEAKEST:
        unsteady = frozenset(clock._replace(stay=None) for clock in updates.clocks)
        return Updates(updates.pattern, unsteady)
    return updates


def _of_join_as_of(node: PartnerJoin, left: Updates) -> Updates:
    """The updates of a join AS OF: they are the updates of the left.

    But the first version of a key may hold from the beginning, or come late in event time. It then takes the place of a
    missing version.
    """
    if node.may_correct:
        return combined(Operator.STRICT, [left], _row_clocks(node.right.sources))
    return combined(node.operator, [left])


def _of_source(source: Source) -> Updates:
    """The updates of a window: its rows leave by the clock of its BEGIN, and by the clocks of RETENTION.

    A version of a table leaves when the next one comes. A join AS OF reads all versions, which stay.
    """
    if source.spec.table is not None:
        present = source.as_of is None
        return Updates(Pattern.STRICT, _row_clocks([source])) if present else Updates(Pattern.MONOTONIC)
    retention, begin, end = source.spec.retention, source.window.begin, source.window.end
    name, clocks = source.spec.name, set[UpdateClock]()
    late = end.offset if end.anchor is Anchor.NOW and end.rows is None else 0
    if begin.anchor is Anchor.NOW and begin.rows is not None:
        clocks.add(UpdateClock(name, rows=True, stay=begin.rows - (end.rows or 0)))
    elif begin.anchor is Anchor.NOW:
        clocks.add(UpdateClock(stay=begin.offset - late))
    if retention.rows is not None:
        clocks.add(UpdateClock(name, rows=True, stay=None if end.rows or late else retention.rows))
    if retention.duration is not None:  # it counts from the stream's own NOW, not from NOW of a join
        clocks.add(UpdateClock(name, stay=retention.duration - late))
    return Updates(Pattern.WEAKEST if clocks else Pattern.MONOTONIC, frozenset(clocks))


def _own_clocks(node: Node, operator: Operator) -> Clocks:
    """The clocks by which a node itself removes or changes rows of its result."""
    if operator not in (Operator.STRICT, Operator.GROUP_BY):
        return frozenset()
    if isinstance(node, Project):
        return frozenset((TIME,))
    if isinstance(node, PartnerJoin):
        pushing = node.sources if node.kind.keeps_left and node.kind.keeps_right else node.right.sources
        return _row_clocks(node.left.sources if node.kind is JoinKind.RIGHT else pushing)
    return _row_clocks(node.right.sources if isinstance(node, SetOperation) else node.sources)


def _row_clocks(sources: Sequence[Source]) -> Clocks:
    return frozenset(UpdateClock(source.spec.name, rows=True) for source in sources)


def _lowered(node: PartnerJoin, updates: Updates, inputs: Sequence[Updates]) -> Updates:
    """The lowering rule: an absence is settled once NOW has passed the greatest time of a partner."""
    closing = _closing(node)
    if closing is None:
        return updates
    after, closed = closing
    left, right = inputs[0].finally_, inputs[1].finally_
    steady = Pattern.MONOTONIC in (left.pattern, right.pattern)
    if node.kind.filters:  # a partner that leaves adds a row, out of order
        operator = Operator.UNARY_WEAKEST if steady else Operator.WEAK
        settled = combined(operator, [left])
    else:
        settled = combined(Operator.WEAK, [left, right])
    after, waits = max(after, 0), after + closed > 0
    if waits or inputs[0].settled or inputs[1].settled:
        return lowered(updates, settled, max(after, inputs[0].after, inputs[1].after))
    return settled if settled.pattern < updates.pattern else updates


def _closing(node: PartnerJoin) -> tuple[int, bool] | None:
    """The microseconds from a row of the left until its last partner, and whether a partner may come then.

    None if a partner may come at any time: without a band in event time, or if the right is more than one window.
    """
    right = node.right
    while isinstance(right, Filter):
        right = right.input
    if node.kind.keeps_right or not isinstance(right, Source):
        return None
    late = _lateness(right)
    if late is None:
        return None
    sources = {source.place: source for source in node.left.leaves if isinstance(source, Source)}
    bounds = []
    for place, shift, closed in upper_bounds([*node.keys, *node.bands], sources, right):
        bounds.append((shift + late - (_lateness(sources[place]) or 0), closed))
    return min(bounds, default=None)


def _lateness(source: Source) -> int | None:
    """The microseconds by which a window's END is behind NOW. None if the end counts rows."""
    end = source.window.end
    return None if end.rows is not None else end.offset if end.anchor is Anchor.NOW else 0
