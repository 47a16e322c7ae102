"""The way that finds the pairs of two small sides by one equality, in one kernel call.

    r 300 rows, s 9,000 rows ─ pair_small ─> left 0 0 3 …, right 7 9 7 …

The kernel reads the keys from the chunks, and copies neither side. It takes some 0.1 ms.
"""

from __future__ import annotations

import numpy as np

from psoup.execution.join.direct_join import DirectJoin, direct_join
from psoup.execution.join.join_case import FIRST, FoundPairs, JoinCase
from psoup.joins.budget import JoinBudget
from psoup.kernels.join.small_pairs import pair_small
from psoup.plan.nodes import Join
from psoup.plan.way import TryNext
from psoup.values.columns import Array

_SMALL = 16_384
"""The most rows of a side."""
_LOOKED = 65_536
"""The most candidates of pairs that one call compares."""
_KEY_BYTES = 20
"""Bytes of a row of the right side while the kernel sorts the side by its key."""


def serves(node: Join) -> bool:
    """Whether a join is one equality of two columns other than texts."""
    direct = direct_join(node)
    return direct is not None and direct.is_single


def accepts(case: JoinCase) -> bool:
    """Whether both sides are small and in memory, and the limits allow the candidates of one call."""
    left, right = case.sides
    return max(left.rows, right.rows) <= _SMALL and case.limits.pairs >= _LOOKED and case.in_memory


def small_pairs(case: JoinCase) -> FoundPairs:
    """Find all pairs, as one piece. Raises TryNext if they are too many for one call."""
    room = case.room()
    try:
        pairs = _pairs(_direct(case), case, room)
    except BaseException:
        room.close()
        raise
    return FoundPairs(case.sides, [pairs] if len(pairs[0]) else [], room)


def count_small_pairs(case: JoinCase) -> int:
    """Count the pairs. Raises TryNext if they are too many for one call."""
    room = case.room()
    try:
        return len(_pairs(_direct(case), case, room)[0])
    finally:
        room.close()


def _direct(case: JoinCase) -> DirectJoin:
    direct = direct_join(case.node)
    assert direct is not None
    return direct


def _pairs(direct: DirectJoin, case: JoinCase, room: JoinBudget) -> list[Array]:
    (key,), (left_side, right_side) = direct.keys, case.sides
    size = _KEY_BYTES * right_side.rows
    room.hold(size, "a side sorted by its key")
    memories = left_side.memory, right_side.memory
    sources = [(memory.sources, memory.stride, memory.rows, memory.stops) for memory in memories]
    most = min(FIRST, room.limits.rows)
    left, right = np.empty(most, np.int32), np.empty(most, np.int32)
    count = pair_small(key.kinds, key.columns, *sources[0], *sources[1], _LOOKED, left, right)
    room.give_back(size)
    if count < 0:
        raise TryNext
    room.look(count, direct.text)
    room.find(count)
    return [left[:count], right[:count]]
