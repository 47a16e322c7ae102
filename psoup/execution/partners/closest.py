"""ASOF joins: each row of the left gets the partner that is closest by the band.

    a.t >= b.t     a  k 1, t 7      b  k 1, t 3 5 5 9      the greatest t up to 7: the later of both rows with 5

Without other conditions, the rows of the right are sorted by keys and band. Each row of the left then searches them
once. With other conditions, all pairs by keys and band are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.input_numbers import numbered
from psoup.execution.partners.join_inputs import JoinInput
from psoup.execution.partners.key_order import ROW_BYTES, key_groups, numbered_values
from psoup.execution.partners.pairs import FailedOperands, Pairs
from psoup.execution.partners.partner_rows import single_partners
from psoup.expressions.tree import sources_of
from psoup.joins.key_columns import Edge, JoinKeys, keyed
from psoup.model import Kind
from psoup.plan.nodes import JoinKind, PartnerJoin
from psoup.plan.partners import MISSING
from psoup.values.columns import Array


def closest_rows(
    evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput
) -> Iterator[tuple[Array, ...]]:
    """Yield the rows of an ASOF join in pieces: positions in both inputs. O(n log n), or O(pairs)."""
    partners: Array = np.full(left.rows, MISSING, np.int32)
    if left.rows and right.rows:
        evaluation.room.hold(4 * left.rows, "the closest partners")
        _find(evaluation, node, left, right, partners)
    yield from single_partners(partners, inner=node.kind is JoinKind.ASOF)


def _find(evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput, partners: Array) -> None:
    """Write the closest partner of each row of the left."""
    form, reading, room = numbered(node), evaluation.reading, evaluation.room
    sides = [part.side(reads, reading, room) for part, reads in zip((left, right), form.reads, strict=True)]
    keys = keyed(form.join, sides, room)
    *equal, band = [edge.towards(1) for edge in keys.edges]
    (factor,) = node.bands
    near = band.right_keys
    if factor.left.type != factor.right.type and Kind.WIDE not in (factor.left.type.kind, factor.right.type.kind):
        # a DOUBLE that is compared with a whole number is rounded in `right_keys`
        operand = factor.right if sources_of(factor.right) <= set(right.facts.places) else factor.left
        near = right.values(operand, reading, room).order_keys()
    if band.operator in ("le", "lt"):  # the least key at or above: the order is turned around
        near = ~near
    if node.rest:
        for part, nearest in Pairs(evaluation, node, [left, right]).partners():
            _closer(part, nearest, near, partners)
        return
    evaluation.add(FailedOperands(keys.errors))
    room.hold(2 * ROW_BYTES * (left.rows + right.rows), "rows sorted by keys and band")
    _search(keys, equal, band, near, partners)
    room.give_back(2 * ROW_BYTES * (left.rows + right.rows))


def _search(keys: JoinKeys, equal: Sequence[Edge], band: Edge, near: Array, partners: Array) -> None:
    """Search the rows of the right, sorted by keys and band, once for each row of the left."""
    left, right, left_groups, right_groups = key_groups(keys, equal, (len(partners), len(near)))
    if not len(left) or not len(right):
        return
    ends = band.left_keys[left], band.right_keys[right]
    if band.operator in ("le", "lt"):
        ends = ~ends[0], ~ends[1]
    ranks = numbered_values(np.concatenate(ends))
    count = int(ranks.max()) + 1
    wanted, places = left_groups * count + ranks[: len(left)], right_groups * count + ranks[len(left) :]
    order = np.lexsort((near[right], places))
    at = np.searchsorted(places[order], wanted, "right" if band.operator in ("ge", "le") else "left") - 1
    nearest = order[np.maximum(at, 0)]
    same = (at >= 0) & (right_groups[nearest] == left_groups)
    partners[left[same]] = right[nearest[same]]


def _closer(left: Array, right: Array, near: Array, partners: Array) -> None:
    """Replace partners by closer ones of some pairs. Of equally close partners the latest one remains."""
    order = np.lexsort((right, near[right], left))
    last = np.append(left[order[1:]] != left[order[:-1]], True)
    rows, nearest = left[order[last]], right[order[last]]
    before = partners[rows]
    earlier = np.maximum(before, 0)
    closer = (before < 0) | (near[nearest] > near[earlier]) | ((near[nearest] == near[earlier]) & (nearest > before))
    partners[rows[closer]] = nearest[closer]
