"""The rows of the left that have a partner, for SEMI, ANTI and NOT IN. It does not matter which partner, or how many.

    few pairs     found by a way of joining, and marked
    many pairs    not looked at: the right is sorted by keys and band, and each row of the left searches a range in it

So a semi-join by a key that many rows share costs its rows, and not its pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.errors import ResourceExhausted
from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.input_numbers import Numbered, numbered
from psoup.execution.partners.join_inputs import JoinInput
from psoup.execution.partners.key_order import ROW_BYTES, KeyGroups, key_groups, numbered_values
from psoup.execution.partners.pairs import FailedOperands, Pairs, refuse_product
from psoup.execution.partners.partner_rows import partnered_rows
from psoup.joins.key_columns import Edge, keyed
from psoup.plan.nodes import PartnerJoin
from psoup.values.columns import Array

_PAIRS = 16
"""For more pairs than this, for each row of both inputs, a search takes less time."""
_FEW = 65_536
"""So many pairs are always looked at."""


def few_pairs(left: JoinInput, right: JoinInput) -> int:
    """The greatest number of pairs of two inputs that take less time than a sort of all rows."""
    return max(_PAIRS * (left.rows + right.rows), _FEW)


def partnered(
    evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput, form: Numbered | None = None
) -> Array:
    """Whether each row of the left has a partner: bool[left.rows]. `form`: as `Pairs` takes it.

    Raises ResourceExhausted (JOIN_BUDGET).
    """
    form = form or numbered(node)
    if not (node.keys or node.bands or node.rest):
        return np.full(left.rows, right.rows > 0)
    if node.rest:
        refuse_product(node, left, right, evaluation.reading, few=False)
    bound = few_pairs(left, right)
    if not node.rest and bound < evaluation.reading.joins.pairs:
        try:
            with evaluation.attempt():
                pairs = Pairs(evaluation, node, [left, right], form=form, bound=bound)
                return partnered_rows(pairs.partners(), left.rows, evaluation.room)
        except ResourceExhausted as problem:
            if problem.reason != "JOIN_BUDGET":
                raise
        searched = _searched(evaluation, form, left, right)
        if searched is not None:
            return searched
    pairs = Pairs(evaluation, node, [left, right], form=form)
    return partnered_rows(pairs.partners(), left.rows, evaluation.room)


def _searched(evaluation: Evaluation, form: Numbered, left: JoinInput, right: JoinInput) -> Array | None:
    """Search the partners of each row of the left. None if the bands compare several operands of the right."""
    reading, room = evaluation.reading, evaluation.room
    sides = [part.side(reads, reading, room) for part, reads in zip((left, right), form.reads, strict=True)]
    with evaluation.attempt():
        keys = keyed(form.join, sides, room)
        edges = [edge.towards(1) for edge in keys.edges]
        bands = [edge for edge in edges if edge.operator != "eq"]
        if any(edge.right_keys is not bands[0].right_keys for edge in bands):
            return None
        size = ROW_BYTES * (1 + len(bands)) * (left.rows + right.rows)
        room.hold(size, "rows sorted by keys and bands")
        groups = key_groups(keys, [edge for edge in edges if edge.operator == "eq"], (left.rows, right.rows))
        reading.budget.check()
        flags: Array = np.zeros(left.rows, np.bool_)
        flags[groups.left[_in_range(groups, bands)]] = True
        room.give_back(size)
        evaluation.add(FailedOperands(keys.errors))
        return flags


def _in_range(groups: KeyGroups, bands: Sequence[Edge]) -> Array:
    """Whether each row of the left has a row of the right in its group that satisfies all bands. O(n log n)."""
    ranks = [np.zeros(len(groups.right), np.int64)]
    if bands:
        ends = [bands[0].right_keys[groups.right], *(edge.left_keys[groups.left] for edge in bands)]
        ranks = np.split(numbered_values(np.concatenate(ends)), np.cumsum([len(part) for part in ends[:-1]]))
    count = max(int(part.max(initial=0)) for part in ranks) + 1
    places = np.sort(groups.right_groups * count + ranks[0])
    first = groups.left_groups * count
    low, high = np.searchsorted(places, first), np.searchsorted(places, first + count)
    for edge, part in zip(bands, ranks[1:], strict=True):
        at = np.searchsorted(places, first + part, "right" if edge.operator in ("ge", "lt") else "left")
        if edge.operator in ("ge", "gt"):
            high = np.minimum(high, at)
        else:
            low = np.maximum(low, at)
    inside: Array = high > low
    return inside
