"""The inputs of EXISTS, IN, NOT EXISTS, NOT IN and LEFT JOIN as parts, and the operator over them.

    a SEMI JOIN b on a.k = b.k              part 0   a: k, columns of SELECT         part 1   b: k
    … on a.k = b.k, b.v BETWEEN a.v AND 9   part 0   a: k, v, 9, columns             part 1   b: k, v
    a ANTI JOIN b on a.k = b.k, a.v < b.v   part 0   a: _id, columns of SELECT       part 1   a JOIN b: _id of a
    a LEFT JOIN b on a.k = b.k              part 0   a: k, columns, NULL for b's     part 1   b: k
                                            part 2   a JOIN b: columns of SELECT

The operator compares equal keys, and one band beside them. With other conditions, part 1 is the inner join of both
sides: its pairs say which rows of the left have a partner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.delta import BandSemiJoin, BufferKind, Operator, SemiJoin
from psoup.delta.match_keys import Nulls
from psoup.expressions.tree import Expr, sources_of
from psoup.plan.nodes import Filter, Join, JoinKind, Node, Output, PairFactor, PartnerJoin
from psoup.plan.partner_keys import band_bounds, equal_keys
from psoup.pumps.part import Part, id_output, part_of
from psoup.pumps.plain_rows import OuterJoin


class Meeting(NamedTuple):
    """The columns that decide on partners. The left has `keys` keys, then two bounds if there is a `band`.

    The right has as many keys, then the number that is compared with the bounds.
    """

    keys: int
    band: bool = False

    def operator(self, left: Part, right: Part, kind: JoinKind) -> Operator:
        """The operator without rows."""
        first, types = self.keys + 2 * self.band, left.types
        negated, shown = kind is not JoinKind.SEMI, range(first, len(types))
        if self.band:
            buffer: BufferKind = "fifo" if left.buffer == right.buffer == "fifo" else "calendar"
            bounds = self.keys, self.keys + 1
            alone: Operator = BandSemiJoin(types, range(self.keys), bounds, negated=negated, shown=shown, buffer=buffer)
        else:
            nulls: Nulls = "unknown" if kind is JoinKind.NOT_IN else "never"
            alone = SemiJoin(types, range(self.keys), negated=negated, nulls=nulls, shown=shown, buffer=left.buffer)
        return OuterJoin(alone, types[first:]) if kind is JoinKind.LEFT else alone


def partner_parts(
    node: PartnerJoin, conditions: Sequence[Expr], shown: Sequence[Output]
) -> tuple[tuple[Part, ...], Meeting]:
    """The parts of a join, and their columns. `conditions`: the filters above the join. `shown`: the SELECT list."""
    pairs = equal_keys(node)
    bounds = [] if pairs is None else band_bounds(node)
    if pairs is None or bounds is None:
        lefts = ids = [id_output(source.place) for source in node.left.sources]
        right, meeting = part_of(_joined(node), ids), Meeting(len(ids))
    else:
        lefts = [Output(f"_key{at}", left) for at, (left, _) in enumerate([*pairs, *bounds])]
        rights = [Output(f"_key{at}", right) for at, (_, right) in enumerate([*pairs, *bounds[:1]])]
        right, meeting = part_of(node.right, rights), Meeting(len(pairs), bool(bounds))
    columns = [*lefts, *shown]
    if node.kind is not JoinKind.LEFT:
        return (part_of(_filtered(node.left, conditions), columns), right), meeting
    # the LEFT JOIN itself, without rows of the right: all of their columns are NULL
    alone = part_of(_filtered(node, conditions), columns, [source.place for source in node.left.sources])
    return (alone, right, part_of(_filtered(_joined(node), conditions), shown)), meeting


def _filtered(node: Node, conditions: Sequence[Expr]) -> Node:
    for condition in conditions:
        node = Filter(node, condition)
    return node


def _joined(node: PartnerJoin) -> Node:
    """The inner join with the conditions of a partner join."""
    keys, bands, rest, inputs = list[PairFactor](), list[PairFactor](), list[Expr](), list[Node]()
    for side in (node.left, node.right):
        if isinstance(side, Join):
            inputs += side.inputs
            keys, bands, rest = [*keys, *side.keys], [*bands, *side.bands], [*rest, *side.rest]
        else:
            inputs.append(side)
    pairs = [each for each in node.rest if len(sources_of(each)) > 1]
    join = Join(tuple(inputs), (*keys, *node.keys), (*bands, *node.bands), (*rest, *pairs))
    single = [each for each in node.rest if len(sources_of(each)) < 2]
    return _filtered(join, single)
