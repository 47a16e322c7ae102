"""Bounds of the state of each edge of a plan, from its sources up (`psoup.plan.patterns.StateBound`).

    Project                                 no state
      ANTI JOIN … v._time <= d._time + 8h   the tuples of d of 8 HOURS and the tuples of v of 8 HOURS
        Source d                            no state: its rows never leave
        Source v [ROWS 10]                  at most 10 rows

A source has its window: these tuples tell which rows leave. An operator with state has the rows of its inputs that are
still in their windows. For the windows of an absence with a time band, see `psoup.plan.derived_stays`. An operator
whose rows are combinations of tuples (a selection, an inner join, a join AS OF) reads them from its sources, and
has no state. So `Source` has the tuples that the source keeps; each other node has the state of its operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from psoup.expressions.tree import Expr
from psoup.model import Anchor, Kind
from psoup.phrases import counted
from psoup.plan.above import Distinct, Limit, Project
from psoup.plan.aggregate import Aggregate
from psoup.plan.canonical import describe_duration
from psoup.plan.derived_shape import shape_of
from psoup.plan.derived_stays import stays_of, window_width
from psoup.plan.hop import Hop
from psoup.plan.inputs import Join, Source
from psoup.plan.last_rows import LastRows
from psoup.plan.nodes import Node, walk
from psoup.plan.over import Over
from psoup.plan.partner_keys import finds_by_values
from psoup.plan.partners import JoinKind, PartnerJoin
from psoup.plan.patterns import NO_STATE, Amount, Operator, Pattern, StateBound, StateRows
from psoup.plan.relations import Relation, SetOperation, SetOperator, Values
from psoup.plan.updates import plan_updates
from psoup.values.columns import value_bytes

Widths = Sequence[int | None]
"""For each source, by place: the microseconds for which a tuple is needed after its time. None for ever."""
_Terms = tuple[tuple[Amount, ...], ...]
"""The rows of a result: at most the sum of the products of these amounts."""
_NO_FIXED_SIZE = (Kind.TEXT, Kind.WIDE)


def plan_bounds(plan: Node, widths: Widths | None = None) -> Mapping[int, StateBound]:
    """The bound of the state of each node, by the node's `id`. O(size of the plan, squared).

    `widths`: as in `psoup.plan.derived_stays`. None for what the windows and time bands of the plan say.
    """
    if widths is None:
        widths = widths_of(plan)
    updates = plan_updates(plan)
    growing = frozenset(each for each, of_node in updates.items() if of_node.pattern is Pattern.MONOTONIC)
    return {id(node): _of_node(node, widths, growing) for _, node in walk(plan)}


def widths_of(plan: Node) -> Widths:
    """The widths of the sources of a plan, for a stream of the rows that enter its answer."""
    sources = sorted(plan.sources, key=lambda source: source.place)
    return stays_of(sources, shape_of(plan)).widths


class StateEdge(NamedTuple):
    """The node of a plan whose result takes the state of a pump. `label`: its text."""

    node: Node
    label: str
    bound: StateBound


def state_edge(plan: Node, widths: Widths, *, leaves: bool = False) -> StateEdge:
    """The edge of a derived stream's plan that keeps state. `leaves`: whether the rows that leave are wanted (DSTREAM).

    The plan has at most one operator with state (`psoup.plan.derived_shape`).
    """
    shape = shape_of(plan)
    node = None if shape is None else shape.operator
    if node is not None:
        return StateEdge(node, node.label, plan_bounds(plan, widths)[id(node)])
    return StateEdge(plan, "DSTREAM" if leaves else plan.label, leaving_bound(plan, widths) if leaves else NO_STATE)


def window_tuples(source: Source) -> Amount:
    """The tuples in the window of a source, for a reader of the whole window."""
    return _tuples(source, window_width(source))


def rows_bound(node: Node, widths: Widths) -> StateBound:
    """The bound of the rows of a node's result at one instant, for a reader that keeps them."""
    return _rows_of(node, widths)


def leaving_bound(node: Node, widths: Widths) -> StateBound:
    """The bound of those rows of a result that will leave. A row leaves with the first of its tuples that does.

    No pump keeps rows that never leave.
    """
    bound = _rows_of(node, widths)
    return StateBound(tuple([part for part in bound.parts if not all(each.unbounded for each in part.factors)]))


def _of_node(node: Node, widths: Widths, growing: frozenset[int]) -> StateBound:
    """The state of a node's operator. `growing`: the IDs of the nodes whose rows never leave."""
    match node:
        case Source():
            return _of_window(node)
        case LastRows() | Distinct() | Over() | Hop():
            return _rows_of(node if isinstance(node, LastRows) else node.input, widths)
        case Aggregate():
            columns = [*node.keys, *(arg for measure in node.measures for arg in measure.args)]
            return _sized(_terms(node.input, widths), columns)
        case Limit():
            return _of_limit(node, widths, only_come=id(node.input) in growing)
        case Project():
            return _rows_of(node.input, widths) if node.operator is Operator.STRICT else NO_STATE
        case SetOperation(operator=SetOperator.UNION, all=True):
            return _summed(leaving_bound(each, widths) for each in node.inputs)
        case SetOperation():
            return _summed(_rows_of(each, widths) for each in node.inputs)
        case PartnerJoin():
            return _of_partners(node, widths)
        case _:
            return NO_STATE


def _of_limit(node: Limit, widths: Widths, *, only_come: bool) -> StateBound:
    """The rows of the input. If they `only_come`, the first ones of its order are enough, and of arrival none."""
    if not only_come or (node.rows is None and node.operator is Operator.STRICT):
        return _rows_of(node.input, widths)
    if node.operator is not Operator.STRICT or node.rows is None:
        return NO_STATE
    return _sized(((_rows(node.skip + node.rows),),), _columns(node))


def _of_window(source: Source) -> StateBound:
    """The tuples of a source that tell which rows leave its window. No state if none ever does."""
    amount = window_tuples(source)
    steady = source.window.begin.anchor is not Anchor.NOW and source.spec.retention.duration is None
    steady = steady and source.spec.table is None and source.spec.retention.rows is None
    return NO_STATE if steady or amount.unbounded else _sized(((amount,),), _columns(source))


def _of_partners(node: PartnerJoin, widths: Widths) -> StateBound:
    """The rows of the left, and their partners: the rows of the right, or the pairs if values alone do not decide.

    A LEFT JOIN and its like have the joined rows, too. NOT IN has two keys for each partner: its value, and any value.
    """
    left, right = _rows_of(node.left, widths), _rows_of(node.right, widths)
    if node.kind.is_as_of:
        return left if node.may_correct else NO_STATE
    if node.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
        return _summed((left, right))
    pairs = _sized(
        _product(_terms(node.left, widths), _terms(node.right, widths)), [*_columns(node.left), *_columns(node.right)]
    )
    partners = right if finds_by_values(node) else pairs
    if node.kind is JoinKind.NOT_IN:
        partners = _summed((partners, partners))
    return _summed((left, partners) if node.kind.filters else (left, partners, pairs))


def _rows_of(node: Node, widths: Widths) -> StateBound:
    return _sized(_terms(node, widths), _columns(node))


def _columns(node: Node) -> list[Expr]:
    return [output.expr for output in node.schema]


def _sized(terms: _Terms, columns: Iterable[Expr]) -> StateBound:
    """Rows with these columns."""
    types = [column.type for column in columns]
    fixed = all(each.kind not in _NO_FIXED_SIZE for each in types)
    width = sum(value_bytes(each) + each.beside for each in types) if fixed else None
    return StateBound(tuple([StateRows(factors, width) for factors in terms]))


def _summed(bounds: Iterable[StateBound]) -> StateBound:
    return StateBound(tuple([part for bound in bounds for part in bound.parts]))


# The rows of a result -----------------------------------------------------------------------------------------


def _terms(node: Node, widths: Widths) -> _Terms:
    """The most rows of a node's result at one instant."""
    match node:
        case Source():
            return ((_tuples(node, widths[node.place]),),)
        case LastRows():
            return ((_last_rows(node),),)
        case Values():
            return ((_rows(len(node.rows)),),)
        case Join():
            return _product(*[_terms(each, widths) for each in node.inputs])
        case PartnerJoin():
            return _joined(node, _terms(node.left, widths), _terms(node.right, widths))
        case SetOperation():
            return _terms(node.left, widths) + (_terms(node.right, widths) if _adds(node) else ())
        case Aggregate(keys=()):
            return ((_rows(1),),)
        case Relation(single=True):
            return ((_rows(1),),)
        case Limit() if node.rows is not None:
            return ((_rows(node.rows),),)
        case Hop():
            return _product(((_rows(node.buckets),),), _terms(node.input, widths))
        case _:
            (below,) = node.inputs
            return _terms(below, widths)


def _adds(node: SetOperation) -> bool:
    return node.operator is SetOperator.UNION


def _joined(node: PartnerJoin, left: _Terms, right: _Terms) -> _Terms:
    kind = node.kind
    if kind.filters or kind.is_as_of or kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
        return left
    alone = (left if kind.keeps_left else ()) + (right if kind.keeps_right else ())
    return alone + _product(left, right)


def _product(*sides: _Terms) -> _Terms:
    """The pairs of rows of the sides."""
    terms: _Terms = ((),)
    for side in sides:
        terms = tuple([first + second for first in terms for second in side])
    return terms


def _rows(count: int) -> Amount:
    return Amount(counted(count, "row"), count)


def _last_rows(node: LastRows) -> Amount:
    """The rows in a partitioned window: the last n of each key. New keys never end."""
    source, partition = node.input, node.input.partition
    assert partition is not None
    name = source.spec.name
    if not partition.keys:
        return Amount(f"the last {counted(partition.rows, 'row')} of {name}", partition.rows, source.place)
    keys = ", ".join(key.name for key in partition.keys)
    text = f"the last {counted(partition.rows, 'row')} of each {keys} of {name}"
    return Amount(text, None, source.place, f"each new {keys} of {name!r} adds rows that never leave")


def _tuples(source: Source, width: int | None) -> Amount:
    """The tuples of a source in its window. `width`: as in `Widths`."""
    name, window, retention = source.spec.name, source.window, source.spec.retention
    if source.spec.table is not None:
        return _versions(source)
    counts = [window.begin.rows] if window.begin.rows is not None else []
    counts += [retention.rows] if retention.rows is not None else []
    if counts:
        return Amount(f"the last {counted(min(counts), 'tuple')} of {name}", min(counts), source.place)
    if width is not None:
        return Amount(f"the tuples of {name} of {describe_duration(width)}", None, source.place)
    if window.end.anchor is not Anchor.NOW:
        return Amount(f"the tuples of {name} up to END", None, source.place)
    return Amount(f"the tuples of {name}", None, source.place, f"tuples of {name!r} never leave it")


def _versions(source: Source) -> Amount:
    table, name = source.spec.table, source.spec.name
    assert table is not None
    if source.as_of is None:
        return Amount(f"a row for each key of {name}", None, source.place)
    return Amount(f"the versions of {name} within HISTORY {describe_duration(table.history)}", None, source.place)
