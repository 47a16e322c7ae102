"""The number of rows of an outer join by keys, for count(*). Pairs are looked at only if they are few.

    few pairs     found by a way of joining, and counted
    many pairs    the rows of each key are counted: a key with 300 rows left and 200 right has 60,000 pairs

So a count over a join by a key that many rows share costs its rows, and not its pairs.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from psoup.errors import ResourceExhausted
from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.existence import few_pairs
from psoup.execution.partners.input_numbers import numbered
from psoup.execution.partners.join_inputs import JoinInput
from psoup.execution.partners.key_order import ROW_BYTES, key_groups
from psoup.execution.partners.pairs import FailedOperands, Pairs
from psoup.execution.partners.partner_rows import outer_rows
from psoup.joins.key_columns import keyed
from psoup.plan.nodes import JoinKind, Node, PartnerJoin

_OUTER = frozenset({JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL})


def counts_by_key(node: Node) -> TypeGuard[PartnerJoin]:
    """Whether the numbers of rows of each key give the number of rows. True for outer joins by equalities alone."""
    return isinstance(node, PartnerJoin) and node.kind in _OUTER and bool(node.keys) and not (node.bands or node.rest)


def outer_count(evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput) -> int:
    """The number of rows of an outer join for which `counts_by_key` is true. Raises ResourceExhausted (JOIN_BUDGET)."""
    bound = few_pairs(left, right)
    if bound >= evaluation.reading.joins.pairs:
        return _by_key(evaluation, node, left, right)
    try:
        with evaluation.attempt():
            pairs = Pairs(evaluation, node, [left, right], bound=bound).partners()
            rows = outer_rows(pairs, node.kind, left.rows, right.rows, evaluation.room)
            return sum([len(part) for part, _ in rows])
    except ResourceExhausted as problem:
        if problem.reason != "JOIN_BUDGET":
            raise
    return _by_key(evaluation, node, left, right)


def _by_key(evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput) -> int:
    """Count the pairs of each key, and the rows without a partner. O(n log n)."""
    form, reading, room = numbered(node), evaluation.reading, evaluation.room
    sides = [part.side(reads, reading, room) for part, reads in zip((left, right), form.reads, strict=True)]
    keys = keyed(form.join, sides, room)
    size = ROW_BYTES * (left.rows + right.rows)
    room.hold(size, "rows sorted by keys")
    groups = key_groups(keys, [edge.towards(1) for edge in keys.edges], (left.rows, right.rows))
    reading.budget.check()
    count = 1 + max(int(part.max(initial=-1)) for part in (groups.left_groups, groups.right_groups))
    lefts, rights = (np.bincount(part, minlength=count) for part in (groups.left_groups, groups.right_groups))
    total = int(lefts @ rights)
    if node.kind.keeps_left:
        total += left.rows - int(lefts[rights > 0].sum())
    if node.kind.keeps_right:
        total += right.rows - int(rights[lefts > 0].sum())
    room.give_back(size)
    evaluation.add(FailedOperands(keys.errors))
    return total
