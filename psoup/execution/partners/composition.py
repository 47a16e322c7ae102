"""The evaluation of a tree of joins and filters: each node gives pieces of positions in its leaves.

    Filter                        tests rows piece by piece
      PartnerJoin LEFT            pairs of both inputs, and rows of the left without a partner
        Join                      a composite input: its rows are held as positions
          Source a, Source b      joined by the ways of plain joins
        Source c                  a side

All rows come in the order of FROM: by the position in the first leaf, then in the second, and so on. A missing tuple
comes after all tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from psoup.execution.join.join_case import join_case
from psoup.execution.join.located_side import count_of
from psoup.execution.join.lookup_filter import cut_down
from psoup.execution.join.sides import MatchedSide
from psoup.execution.partners.as_of import version_rows
from psoup.execution.partners.closest import closest_rows
from psoup.execution.partners.conditions import Conditions
from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.existence import partnered
from psoup.execution.partners.input_numbers import numbered, over_streams
from psoup.execution.partners.join_inputs import InputSide, JoinInput, held_rows
from psoup.execution.partners.not_in import not_in_rows
from psoup.execution.partners.pairs import Pairs, refuse_product
from psoup.execution.partners.partner_rows import outer_rows, positions_of
from psoup.execution.partners.row_counts import outer_count
from psoup.execution.partners.unknown_versions import is_certain
from psoup.execution.rows.leaf_rows import LeafPieces, LeafSide, Piece, leaf_facts
from psoup.plan.nodes import Filter, Join, JoinKind, LastRows, Node, PartnerJoin, Source, as_leaf
from psoup.values.columns import Array

_ROWS = 65_536
"""The most rows of a piece of a leaf."""
_CUTS_LEFT = (JoinKind.SEMI, JoinKind.RIGHT, JoinKind.ASOF)
"""The kinds of joins in which a row of the left without a partner is not in the result."""
_AS_OF = (JoinKind.AS_OF, JoinKind.AS_OF_SEMI)
"""The same of joins AS OF, if no version is unknown."""


class Composition:
    """The rows of the nodes of a tree, in one evaluation."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.reading = evaluation.reading

    def pieces(self, node: Node, *, few: bool) -> LeafPieces:
        """The rows of a node. `few`: the caller reads only the first rows. Raises ResourceExhausted (JOIN_BUDGET)."""
        if isinstance(node, Filter):
            return self._filter(node, few)
        if isinstance(node, Join) and all(isinstance(below, Source | LastRows) for below in node.inputs):
            return self._streams(node, few)
        if isinstance(node, Join):
            return self._join(node, few)
        if isinstance(node, PartnerJoin):
            return self._partners(node, few)
        leaf = self._leaf(node)
        return ComposedPieces(self.evaluation, [leaf], _all_rows(leaf.rows))

    def count(self, node: PartnerJoin) -> int:
        """The number of rows of an outer join by equalities alone. Raises ResourceExhausted (JOIN_BUDGET)."""
        return outer_count(self.evaluation, node, *self._two(node))

    def _filter(self, node: Filter, few: bool) -> LeafPieces:
        below = self.pieces(node.input, few=few)
        conditions = Conditions([node.condition], leaf_facts(node), below.sides, self.reading)
        self.evaluation.add(conditions)
        return ComposedPieces(self.evaluation, below.sides, conditions.kept(below))

    def _streams(self, node: Join, few: bool) -> LeafPieces:
        """Join streams by the ways of plain joins."""
        matches = [self.reading.matches[leaf.place] for leaf in node.leaves]
        if not all(map(count_of, matches)):
            return ComposedPieces(self.evaluation, [self._leaf(leaf) for leaf in node.leaves], iter(()))
        reading = replace(self.reading, matches=matches, pairs=None)
        opened = join_case(over_streams(node), reading, self.evaluation.openers.ways, few=few).pieces()
        self.evaluation.add(opened)
        self.evaluation.opened += opened.sides
        return ComposedPieces(self.evaluation, opened.sides, iter(opened))

    def _join(self, node: Join, few: bool) -> LeafPieces:
        """Join inputs of any kind."""
        inputs = [self._input(below) for below in node.inputs]
        sides = [side for part in inputs for side in part.leaves]
        opened = Pairs(self.evaluation, node, inputs, few=few).pieces()
        pieces = ([rows for part, at in zip(inputs, piece, strict=True) for rows in part.at(at)] for piece in opened)
        if not node.rest:
            return ComposedPieces(self.evaluation, sides, pieces)
        conditions = Conditions(node.rest, leaf_facts(node), sides, self.reading)
        self.evaluation.add(conditions)
        return ComposedPieces(self.evaluation, sides, conditions.kept(pieces))

    def _partners(self, node: PartnerJoin, few: bool) -> LeafPieces:
        left, right = self._two(node)
        if node.kind is JoinKind.NOT_IN:
            rows = not_in_rows(self.evaluation, node, left, right)
        elif node.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
            rows = closest_rows(self.evaluation, node, left, right)
        elif node.kind.is_as_of:
            rows = version_rows(self.evaluation, node, left, right)
        elif node.kind.filters:
            opened = partnered(self.evaluation, node, left, right)
            rows = ((part,) for part in positions_of(opened == (node.kind is JoinKind.SEMI)))
        else:
            refuse_product(node, left, right, self.reading, few=few)
            pairs = Pairs(self.evaluation, node, [left, right], few=few).partners()
            rows = outer_rows(pairs, node.kind, left.rows, right.rows, self.evaluation.room)
        if node.kind.filters:
            return ComposedPieces(self.evaluation, left.leaves, (left.at(part) for (part,) in rows))
        pieces = ([*left.at(part), *right.at(other)] for part, other in rows)
        return ComposedPieces(self.evaluation, [*left.leaves, *right.leaves], pieces)

    def _two(self, node: PartnerJoin) -> tuple[JoinInput, JoinInput]:
        """The inputs of a join. Streams whose rows need no partner are first reduced by key indexes."""
        kind, reading = node.kind, self.reading
        if not (isinstance(node.left, Source) and isinstance(node.right, Source) and node.keys):
            return self._input(node.left), self._input(node.right)
        places = node.left.place, node.right.place
        matches = [reading.matches[place] for place in places]
        without = kind in _CUTS_LEFT or (kind in _AS_OF and is_certain(reading, node.left, node.right))
        may_cut = without, not kind.keeps_right and node.member is None
        cut = cut_down(numbered(node).join, replace(reading, matches=matches, pairs=None))
        limits = reading.texts, reading.budget, reading.joins.bytes, reading.run
        chosen = [reduced if may else other for reduced, other, may in zip(cut, matches, may_cut, strict=True)]
        sides = [MatchedSide(part, *limits) for part in chosen]
        self.evaluation.opened += sides
        left, right = (
            JoinInput(leaf_facts(below), [side], side, None)
            for below, side in zip((node.left, node.right), sides, strict=True)
        )
        return left, right

    def _input(self, node: Node) -> JoinInput:
        if as_leaf(node) is not None:
            leaf = self._leaf(node)
            return JoinInput(leaf_facts(node), [leaf], leaf, None)
        with self.evaluation.closing_parts():
            opened = self.pieces(node, few=False)
            positions = held_rows(opened, self.evaluation.room, "the rows of an input")
        return JoinInput(leaf_facts(node), opened.sides, None, positions)

    def _leaf(self, node: Node) -> InputSide:
        leaf = as_leaf(node)
        assert leaf is not None, "rows are joined as they come from their leaves"
        return self.evaluation.leaf(leaf)


class ComposedPieces:
    """The rows of a node, as positions in the leaves of the node."""

    def __init__(self, evaluation: Evaluation, sides: Sequence[LeafSide], pieces: Iterator[Piece]) -> None:
        self.sides = sides
        self.close = evaluation.close_rows
        self._evaluation = evaluation
        self._pieces = pieces

    @property
    def errors(self) -> int:
        """The number of values so far that could not be computed, in the whole evaluation."""
        return self._evaluation.errors

    def __iter__(self) -> Iterator[Piece]:
        return self._pieces


def _all_rows(rows: int) -> Iterator[list[Array]]:
    for start in range(0, rows, _ROWS):
        yield [np.arange(start, min(start + _ROWS, rows), dtype=np.int32)]
