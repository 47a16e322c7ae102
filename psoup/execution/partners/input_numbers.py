"""The factors of a join, rewritten for its inputs: input 0 is the left one, input 1 the next one, and so on.

    Join a.k = c.k AND b.t < c.t            inputs: a PartnerJoin of a and b; the stream c
      inputs   place 0: "a, b"              columns a.k, b.t are read by number: 0, 1
               place 1: c                   columns of a leaf keep their index
      factors  0.[0] = 1.k AND 0.[1] < 1.t

Ways of joining then treat a composite input as one side. The rewritten join is cached with its node, and so are all
facts about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from psoup.expressions.tree import AttributeRef, Expr, columns_of, of_source, sources_of, with_columns
from psoup.plan.nodes import Join, Node, PairFactor, PartnerJoin, Relation, Source, as_leaf
from psoup.plan.plan_facts import plan_fact

Reads = tuple[AttributeRef, ...]
"""The columns of a composite input that factors read. A factor refers to them by their number."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A join over numbered inputs, without residual conditions.

    `reads`: for each composite input the columns that factors read. None for an input that is a leaf.
    """

    join: Join
    reads: tuple[Reads | None, ...]
    columns: Mapping[AttributeRef, AttributeRef]
    """For each column that a factor reads, its form in the factors of `join`."""

    def operand(self, expr: Expr) -> Expr:
        """An operand of a factor, as an expression over source 0 of the side of its input."""
        return of_source(with_columns(expr, self.columns), 0)


@plan_fact
def numbered(node: Join | PartnerJoin, composite: bool = False) -> Numbered:
    """The factors of a join over numbered inputs. `composite`: all inputs are composite, also leaves."""
    inputs = node.inputs
    factors = (*node.keys, *node.bands)
    read = dict.fromkeys(column for f in factors for side in (f.left, f.right) for column in columns_of(side))
    place_of = {leaf.place: at for at, below in enumerate(inputs) for leaf in below.leaves}
    reads: list[Reads | None] = []
    columns = dict[AttributeRef, AttributeRef]()
    for at, below in enumerate(inputs):
        columns_here = tuple([column for column in read if place_of[column.source] == at])
        if as_leaf(below) is not None and not composite:
            reads.append(None)
            columns |= {column: AttributeRef(column.type, column.index, column.name, at) for column in columns_here}
        else:
            reads.append(columns_here)
            columns |= {c: AttributeRef(c.type, number, c.name, at) for number, c in enumerate(columns_here)}
    stands = tuple([_stand_in(below, at, reads[at]) for at, below in enumerate(inputs)])
    keys, bands = (tuple([_rewritten(factor, columns) for factor in part]) for part in (node.keys, node.bands))
    return Numbered(Join(stands, keys, bands, ()), tuple(reads), columns)


@plan_fact
def over_streams(node: Join) -> Join:
    """A join of streams, with all conditions, whose inputs have the places 0, 1, and so on."""
    places = {leaf.place: at for at, leaf in enumerate(node.leaves)}
    columns = {
        column: AttributeRef(column.type, column.index, column.name, places[column.source])
        for condition in node.rest
        for column in columns_of(condition)
    }
    return replace(numbered(node).join, rest=tuple([with_columns(condition, columns) for condition in node.rest]))


def _stand_in(below: Node, at: int, reads: Reads | None) -> Node:
    """A leaf that stands for an input in the text of factors."""
    below = as_leaf(below) or below
    if reads is None and isinstance(below, Source):
        return Source(at, below.spec, below.window, below.alias)
    used = {column.source for column in reads or ()}
    aliases = [leaf.alias for leaf in below.leaves if leaf.place in used or not used]
    return Relation(at, below, ", ".join(aliases), ())


def _rewritten(factor: PairFactor, columns: Mapping[AttributeRef, AttributeRef]) -> PairFactor:
    left, right = with_columns(factor.left, columns), with_columns(factor.right, columns)
    return PairFactor(factor.operator, left, right, factor.implied)


def reads_both(left: Expr, right: Expr, nodes: Sequence[Node]) -> bool:
    """Whether `left` reads columns of the first of two nodes only, and `right` columns of the second only."""
    return all(
        (read := sources_of(expr)) and read <= {leaf.place for leaf in node.leaves}
        for expr, node in zip((left, right), nodes, strict=True)
    )
