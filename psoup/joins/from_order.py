"""Tuples of a join in the order of FROM: by the row of the first source, then of the second, and so on.

rows     (3, 1) (0, 4) (3, 0)     a number for each tuple: row * rows of the second side + its row
numbers  16 4 15                  radix sort; sources that do not fit into 63 bits are sorted in a further pass
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.kernels.rows.radix_sort import order_keys
from psoup.values.columns import Array, scratch_array

_BITS = 62
"""The most bits of a number in one sorting pass."""


def in_from_order(places: Sequence[Array], sizes: Sequence[int]) -> list[Array]:
    """The tuples (int64[n] rows of each source, all below its size) sorted by rows. Sorted tuples are not copied.
    O(n)."""
    turns = list(_numbers(places, sizes))
    if len(turns) == 1 and (turns[0][1:] >= turns[0][:-1]).all():
        return list(places)
    count = len(places[0])
    order: Array = np.arange(count)
    made, spare = scratch_array(count, np.int64), scratch_array(count, np.int64)
    for numbers in turns:
        order_keys(numbers.take(order), made, spare)
        order = order.take(made)
    return [rows.take(order) for rows in places]


def _numbers(places: Sequence[Array], sizes: Sequence[int]) -> list[Array]:
    """The sort keys of each pass. The first pass sorts by the last sources."""
    turns: list[Array] = []
    room = 0
    for rows, size in zip(reversed(places), reversed(sizes), strict=True):
        bits = max(size - 1, 1).bit_length()
        if not turns or room + bits > _BITS:
            turns.append(rows)
            room = bits
        else:
            turns[-1] = turns[-1] + (rows << room)
            room += bits
    return turns
