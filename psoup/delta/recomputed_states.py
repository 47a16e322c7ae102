"""Aggregates whose states cannot subtract a row, such as MIN and MEDIAN: changed groups are computed again.

    positions of a group   0   1   2   3         rows by their positions
    row a, stays           ─────────────         1 node of 4 positions
    row b, enters at 1         ─────────         a node of 1 and a node of 2
    row c, leaves at 2     ─────                 a node of 2

A row is in its group at a range of positions. MIN, MAX and the bit aggregates use a binary tree over the positions, a
segment tree. A row is folded into the few nodes that cover its range. Then each node is folded into its two halves. So
the folds of a row grow with the levels of the tree, not with its positions. Other states depend on the order of rows,
or are lists. They are folded at each position, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from psoup.aggregates.bits import Bits
from psoup.aggregates.measures import folding_of
from psoup.aggregates.picks import Extreme, Pick
from psoup.aggregates.state import State
from psoup.delta.running_states import Arguments, fold_at
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, concat_columns

_PAIRS = 1 << 20
"""The most pairs of a row and a position that are folded at once."""
_POSITIONS = 1_024
"""The most positions that are folded at once, as states may be large."""


class Layout(NamedTuple):
    """The places of groups in a tree: n positions have as many places as the least power of two that is not below n.

    `base`: the first place of each group, int64[g], aligned to that power. `levels`: the level of the node of a whole
    group, int64[g]. `size`: the number of places, a multiple of the places of a node of the highest level.
    """

    base: Array
    levels: Array
    size: int

    @classmethod
    def of(cls, positions: Array) -> Layout:
        """The layout of groups. `positions`: the number of positions of each, int64[g], at least 1. O(g log g)."""
        levels = np.ceil(np.log2(positions)).astype(np.int64)
        order = np.argsort(-levels, kind="stable")  # the largest first: so all are aligned
        widths = np.left_shift(1, levels[order])
        base = np.empty(len(positions), np.int64)
        base[order] = np.cumsum(widths) - widths
        top = int(levels.max(initial=0))
        return cls(base, levels, -(-int(widths.sum()) // (1 << top)) << top)


class Lives(NamedTuple):
    """The rows of the changed groups, with the places at which they are in their group.

    `rows`: the numbers of the rows that enter or leave, int64[n]. `start`, `stop`: the first place, and the place after
    the last one, int64[n]. `stays`: the numbers of the other rows, int64[m]. `group`: the index of their groups.
    """

    rows: Array
    start: Array
    stop: Array
    stays: Array
    group: Array


def tree_folds(measure: Measure) -> bool:
    """Whether a tree can fold a measure: its state does not depend on the order of rows, and is not a list."""
    folding = folding_of(measure)
    if isinstance(folding, Pick):
        return folding.place in ("least", "greatest") and folding.key is None
    return isinstance(folding, Extreme | Bits)


def recomputed(measure: Measure, lives: Lives, layout: Layout, arguments: Callable[[Array], Arguments]) -> Column:
    """The results at all places. `arguments`: returns the arguments of the rows with given numbers (int64[k])."""
    if tree_folds(measure) or not layout.size:
        state = _fold_tree(measure, lives, layout, arguments)
        return folding_of(measure).finish(state, measure, layout.size)
    return concat_columns(list(_folded_pieces(measure, lives, layout, arguments)))


def _fold_tree(measure: Measure, lives: Lives, layout: Layout, arguments: Callable[[Array], Arguments]) -> State:
    """The states of all places. O((rows + places) log places)."""
    folding, parent = folding_of(measure), None
    for level, (rows, nodes) in reversed(list(enumerate(_nodes_of(lives, layout)))):
        state = fold_at(measure, arguments(rows), nodes, layout.size >> level)
        if parent is not None:
            halves = np.arange(0, layout.size >> level, 2)
            state = folding.combine(folding.combine(state, parent, halves), parent, halves + 1)
        parent = state
    return folding.empty(layout.size) if parent is None else parent


def _nodes_of(lives: Lives, layout: Layout) -> Iterator[tuple[Array, Array]]:
    """Yield rows and their nodes for each level, from 0 on. The nodes of a row cover each of its places once."""
    rows, start, stop, stays, group = lives
    levels, nodes = layout.levels.astype(np.int8)[group], layout.base[group]
    top = int(layout.levels.max(initial=0))
    of_level = np.bincount(levels, minlength=top + 1)
    for level in range(top + 1):
        odd, even = (start & 1 == 1) & (start < stop), (stop & 1 == 1) & (start < stop)
        if level == top:  # a range that is left is the node of a whole group
            odd, even = start < stop, np.zeros(len(stop), np.bool_)
        whole = np.flatnonzero(levels == level) if of_level[level] else np.zeros(0, np.int64)
        yield (
            np.concatenate([rows[odd], rows[even], stays[whole]]),
            np.concatenate([start[odd], stop[even] - 1, nodes[whole] >> level]),
        )
        start, stop = (start + odd) >> 1, (stop - even) >> 1


def _folded_pieces(
    measure: Measure, lives: Lives, layout: Layout, arguments: Callable[[Array], Arguments]
) -> Iterator[Column]:
    """The results at all places, folded piece by piece, over the rows in their order."""
    size = layout.size
    begins = layout.base[lives.group]
    rows = np.append(lives.rows, lives.stays)
    order = np.argsort(rows)
    rows, start = rows[order], np.append(lives.start, begins)[order]
    stop = np.append(lives.stop, begins + np.left_shift(1, layout.levels[lives.group]))[order]
    cover = np.cumsum(np.bincount(start, minlength=size + 1) - np.bincount(stop, minlength=size + 1))[:size]
    begin, folding = 0, folding_of(measure)
    while begin < size:
        total = np.cumsum(cover[begin : begin + _POSITIONS])
        end = begin + max(int(np.searchsorted(total, _PAIRS, "right")), 1)
        here = np.flatnonzero((start < end) & (stop > begin))
        low, high = np.maximum(start[here], begin), np.minimum(stop[here], end)
        times = high - low
        places = np.arange(int(times.sum())) + np.repeat(low - begin - np.cumsum(times) + times, times)
        state = fold_at(measure, arguments(np.repeat(rows[here], times)), places, end - begin)
        yield folding.finish(state, measure, end - begin)
        begin = end
