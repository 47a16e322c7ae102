"""The inputs of EXISTS, IN, NOT EXISTS, NOT IN and LEFT JOIN as parts.

    a SEMI JOIN b on a.k = b.k              part 0   a: k, columns of SELECT         part 1   b: k
    a ANTI JOIN b on a.k = b.k, a.v < b.v   part 0   a: _id, columns of SELECT       part 1   a JOIN b: _id of a
    a LEFT JOIN b on a.k = b.k              part 0   a: k, columns, NULL for b's     part 1   b: k
                                            part 2   a JOIN b: columns of SELECT

With equal keys alone, the keys of both sides meet. With other conditions, the pairs that satisfy them all say which
rows of the left have a partner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.expressions.tree import ID_INDEX, AttributeRef, Expr, sources_of
from psoup.model import BIGINT, ID_COLUMN
from psoup.plan.nodes import Filter, Join, JoinKind, Node, Output, PairFactor, PartnerJoin, Project
from psoup.pumps.part import Part, part_of


class PartnerParts(NamedTuple):
    """The parts of a partner join. The first `keys` columns of the first two parts are those by which rows meet."""

    parts: tuple[Part, ...]
    keys: int


def partner_parts(node: PartnerJoin, conditions: Sequence[Expr], select: Project) -> PartnerParts:
    """The parts of a join, with the conditions above it, and the SELECT list above them."""
    keys = _equal_keys(node)
    if keys is None:
        lefts = ids = _ids(node.left)
        right = part_of(_joined(node), ids)
    else:
        lefts, rights = ([Output(f"_key{at}", pair[side]) for at, pair in enumerate(keys)] for side in (0, 1))
        right = part_of(node.right, rights)
    columns = [*lefts, *select.outputs]
    if node.kind is not JoinKind.LEFT:
        return PartnerParts((part_of(_filtered(node.left, conditions), columns), right), len(lefts))
    # the LEFT JOIN itself, without rows of the right: all of their columns are NULL
    alone = part_of(_filtered(node, conditions), columns, [source.place for source in node.left.sources])
    together = part_of(_filtered(_joined(node), conditions), select.outputs)
    return PartnerParts((alone, right, together), len(lefts))


def _filtered(node: Node, conditions: Sequence[Expr]) -> Node:
    for condition in conditions:
        node = Filter(node, condition)
    return node


def _equal_keys(node: PartnerJoin) -> list[tuple[Expr, Expr]] | None:
    """The keys of a join with equalities alone: an expression over the left and one over the right. Else None."""
    if node.bands or node.rest:
        return None
    left = frozenset(source.place for source in node.left.sources)
    pairs = [
        (each.left, each.right) if sources_of(each.left) <= left else (each.right, each.left) for each in node.keys
    ]
    pairs += [] if node.member is None else [node.member]
    return pairs if all(one.type == other.type for one, other in pairs) else None


def _ids(node: Node) -> list[Output]:
    """The tuple IDs of a node's sources as columns."""
    places = [source.place for source in node.sources]
    return [Output(f"_id{place}", AttributeRef(BIGINT, ID_INDEX, ID_COLUMN, place)) for place in places]


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
