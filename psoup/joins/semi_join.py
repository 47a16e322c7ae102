"""Semi-join filter: drops rows of a large side whose key occurs in no row of a much smaller side, before any sort.

    small  keys 7 9       marks  . . 1 . . 1 .      a bit for the hash of each key, in 16 bits for each key
    large  1 7 3 9 7 …    ──────────> 7 9 7         and one in sixteen of the other rows, which the join drops

With fifty rows against a million the join sorts some thousands instead of a million. The filter reads each row of the
large side once, so that side must be larger by far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.joins.budget import JoinBudget
from psoup.joins.key_columns import Edge
from psoup.kernels.join.hash_buckets import keep_marked, mark_keys
from psoup.kernels.join.small_pairs import SPREADING
from psoup.values.columns import Array, scratch_array

_RATIO = 4
"""The least ratio of the sizes of two sides for which the larger side is filtered."""
_WORTH = 2_048
"""The fewest rows of a side that is filtered."""
_MARKS = 16
"""The bits of the filter for each key of the small side."""


def differ(sizes: Sequence[int]) -> bool:
    """Whether the sizes of sides differ enough for a filter to pay. O(sides)."""
    return max(sizes) >= max(_WORTH, _RATIO * min(sizes))


def thinned(rows: list[Array], edges: Sequence[Edge], room: JoinBudget, first: int = 0) -> list[Array]:
    """The rows (int32, ascending) of each side that may have partners. Sides before `first` are not filtered.

    Each equality of two sides of different size costs O(rows of the larger side). It is applied again if the smaller
    side has shrunk enough.
    """
    if not differ(list(map(len, rows))):
        return rows
    rows = list(rows)
    directed = [edge.towards(s) for edge in edges if edge.operator == "eq" for s in (edge.left, edge.right)]
    directed = [edge for edge in directed if edge.right >= first]
    marked: dict[int, int] = {}
    while True:
        worth = [
            (len(rows[edge.right]) / max(len(rows[edge.left]), 1), place)
            for place, edge in enumerate(directed)
            if len(rows[edge.right]) >= max(_WORTH, _RATIO * len(rows[edge.left]))
            and marked.get(place, _RATIO * len(rows[edge.left])) >= _RATIO * len(rows[edge.left])
        ]
        if not worth:
            return rows
        _, place = max(worth)
        edge = directed[place]
        marked[place] = len(rows[edge.left])
        rows[edge.right] = _kept(edge, rows[edge.left], rows[edge.right], room)


def _kept(edge: Edge, small: Array, large: Array, room: JoinBudget) -> Array:
    room.hold(4 * len(large), "the rows that may have partners")
    bits = max((_MARKS * len(small)).bit_length(), 6)
    shift, marks = np.uint64(64 - bits), np.zeros(1 << (bits - 6), np.uint64)
    mark_keys(edge.left_keys, small, SPREADING, shift, marks)
    out = scratch_array(len(large), np.int32)
    return out[: keep_marked(edge.right_keys, large, SPREADING, shift, marks, out)]
