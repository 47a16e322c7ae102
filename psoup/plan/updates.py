"""The update pattern and the clocks of each edge of a plan, from its sources up (`psoup.plan.patterns`).

    Project                                 strict, rows of v; monotonic 8 hours later
      ANTI JOIN … v._time <= d._time + 8h   strict, rows of v; monotonic 8 hours later
        Source d                            monotonic
        Source v                            monotonic

An absence is strict: a later partner removes its row. But if the partner's time has a bound in the row's time, the
partner comes at the bound or never. So an absence in event time is final once NOW has passed the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from psoup.expressions.tree import TIME_INDEX, AttributeRef, Call, Expr, Literal
from psoup.model import Anchor
from psoup.plan.above import Limit, Project
from psoup.plan.inputs import PairFactor, Source, steps_back
from psoup.plan.nodes import Filter, Node, PartnerJoin, SetOperation, Values, walk
from psoup.plan.partners import JoinKind
from psoup.plan.patterns import TIME, Operator, Pattern, UpdateClock, Updates, combined, lowered

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
    for place, shift, closed in _bounds([*node.keys, *node.bands], sources, right):
        bounds.append((shift + late - (_lateness(sources[place]) or 0), closed))
    return min(bounds, default=None)


def _lateness(source: Source) -> int | None:
    """The microseconds by which a window's END is behind NOW. None if the end counts rows."""
    end = source.window.end
    return None if end.rows is not None else end.offset if end.anchor is Anchor.NOW else 0


def _bounds(
    factors: Sequence[PairFactor], rows: Mapping[int, Source], other: Source
) -> Iterator[tuple[int, int, bool]]:
    """Yield the upper bounds of a partner's time: the place of a row's source, a shift in microseconds, and whether
    the bound itself is included.
    """
    for factor in factors:
        left, right = (_event_time(side, {**rows, other.place: other}) for side in (factor.left, factor.right))
        if left is None or right is None:
            continue
        if left[0] == other.place and factor.operator in _UPPER:
            yield right[0], right[1] - left[1], _UPPER[factor.operator]
        if right[0] == other.place and factor.operator in _LOWER:
            yield left[0], left[1] - right[1], _LOWER[factor.operator]


_UPPER = {"le": True, "lt": False, "eq": True}
"""Comparisons whose right is an upper bound of the left, and whether equal values satisfy them."""
_LOWER = {"ge": True, "gt": False, "eq": True}
"""Comparisons whose left is an upper bound of the right, and whether equal values satisfy them."""


def _event_time(expr: Expr, sources: Mapping[int, Source]) -> tuple[int, int] | None:
    """The place of the source whose event time `expr` is, and the microseconds that it adds. None for all else."""
    if isinstance(expr, Call):
        below = _event_time(expr.args[0], sources) if expr.name == "add_interval" else None
        shift = _fixed(*expr.args[1:]) if below else None
        return None if below is None or shift is None else (below[0], below[1] + shift)
    if not isinstance(expr, AttributeRef) or expr.source not in sources:
        return None
    spec = sources[expr.source].spec
    timed = spec.event_time and expr.index in (TIME_INDEX, spec.time_attribute)
    return (expr.source, 0) if timed else None


def _fixed(months: Expr, micros: Expr) -> int | None:
    """The microseconds of an interval. None if it has months, which differ in length, or is not a constant."""
    if not isinstance(months, Literal) or months.value != 0 or not isinstance(micros, Literal):
        return None
    return micros.value if isinstance(micros.value, int) else None
