"""Joins of several sources by one equality each. They need no routes: no order is much better than that of FROM.

    r.k = s.k AND s.j = t.k    a tree: each source has a parent before it, whose rows lead to its rows
    r s t    r s' t            from the last source up: s loses its rows without a partner in t, then r in s
    r ─> s ─> t                then in the order of FROM: every partial tuple becomes a result

The cost is linear in the rows of the sides and the tuples of the join, for any selectivities (Yannakakis 1981). A
better route could save only a part of the cost that is linear in the sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.config import JoinLimits
from psoup.joins.budget import JoinBudget
from psoup.joins.key_columns import Edge
from psoup.joins.sort_builds import KeyBuckets
from psoup.joins.steps import StepFigures
from psoup.kernels.join.multiway import keep_partnered, nest
from psoup.values.columns import Array, scratch_array

_BLOCK = 4_096
"""The most partial tuples that a step holds. Those of four sources fit into the cache of a core."""
_LOOKED = 1_048_576
"""The candidates between two checks of the caller's deadline: some milliseconds of work."""
_GROWTH = 4
"""Each piece may have this many times the rows of the piece before."""


def tree_of(edges: Sequence[Edge], sources: int) -> list[Edge] | None:
    """For each source except the first, an edge from an earlier source, so that these edges imply all edges.

    Returns None if there are no such edges.
    """
    if any(edge.operator != "eq" for edge in edges):
        return None
    directed = [edge.towards(max(edge.left, edge.right)) for edge in edges]
    tree = list[Edge]()
    for source in range(1, sources):
        incoming = [edge for edge in directed if edge.right == source]
        if not incoming:
            return None
        tree.append(min(incoming, key=lambda edge: edge.left))
    equal: dict[tuple[int, int], tuple[int, int]] = {}
    for edge in tree:
        first, second = (equal.setdefault(operand, operand) for operand in _operands(edge))
        equal |= {operand: first for operand, other in equal.items() if other == second}
    follow = all(len({equal.get(operand, operand) for operand in _operands(edge)}) == 1 for edge in directed)
    return tree if follow else None


def _operands(edge: Edge) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two operands of an edge, each as a source and the identity of its keys."""
    return (edge.left, id(edge.left_keys)), (edge.right, id(edge.right_keys))


class Nested:
    """The tuples of a tree of sources. `figures`: statistics of the steps, over rows that have partners."""

    def __init__(self, tree: Sequence[Edge], rows: Sequence[Array], room: JoinBudget, limits: JoinLimits) -> None:
        """`tree`: the result of `tree_of`; `rows`: int32, ascending, the rows of each source that take part."""
        self._tree = tree
        self._room = room
        self._limits = limits
        self._rows = list(rows)
        self._builds = list[KeyBuckets]()
        self.figures = [StepFigures(edge.right, edge.text) for edge in tree]

    def pieces(self) -> Iterator[list[Array]]:
        """The tuples in the order of FROM: int32 rows of each source.

        Raises ResourceExhausted, and the errors of the read's budget.
        """
        if not self._prepared():
            return
        steps, rows, limits = self._steps(), self._rows[0], self._limits
        count, block = len(steps), min(_BLOCK, limits.piece)
        self._room.hold(count * block * (4 * count + 8), "tuples of some of its sources")
        state: Array = np.zeros((count + 1, 3), np.int64)
        partials = scratch_array(count * count * block, np.int32).reshape(count, count, block)
        keys = scratch_array(count * block, np.int64).reshape(count, block)
        size = min(limits.first, limits.rows)
        while state[-1, 0] >= 0:
            out = scratch_array((count + 1) * size, np.int32).reshape(count + 1, size)
            firsts = scratch_array(max(size, block), np.int32)
            counts: Array = np.zeros((count, 4), np.int64)
            tuples, _ = nest(steps, rows, state, _LOOKED, partials, keys, firsts, out, counts)
            self._looked(counts)
            if tuples:
                yield list(out[:, :tuples])
                size = min(size * _GROWTH, limits.rows)

    def _prepared(self) -> bool:
        """Reduce each source by semi-joins with its children, from the last source up, and index the children.

        Returns False if a source has no rows left.
        """
        builds: dict[int, KeyBuckets] = {}
        for source in range(len(self._tree), -1, -1):
            for edge in self._tree:
                if edge.left == source:
                    self._rows[source] = self._partnered(edge, builds[edge.right])
            if not len(self._rows[source]):
                return False
            if source:
                builds[source] = KeyBuckets(self._tree[source - 1].right_keys, self._rows[source], self._room)
        self._builds = [builds[edge.right] for edge in self._tree]
        return True

    def _partnered(self, edge: Edge, build: KeyBuckets) -> Array:
        rows = self._rows[edge.left]
        self._room.hold(4 * len(rows), "the rows that have partners")
        base, factor, shift, starts, place_keys, _ = build.places
        out = scratch_array(len(rows), np.int32)
        return out[: keep_partnered(edge.left_keys, rows, base, factor, shift, starts, place_keys, out)]

    def _steps(self) -> Array:
        """The steps as the kernel `nest` takes them: int64[steps, 11]. They have addresses of this object's arrays."""
        steps: Array = np.empty((len(self._tree), 11), np.int64)
        for step, edge, build in zip(steps, self._tree, self._builds, strict=True):
            *bucket, starts, place_keys, place_rows = build.places
            step[:3] = edge.left, edge.left_keys.ctypes.data, len(edge.left_keys)
            step[3:6] = np.array(bucket, np.uint64).view(np.int64)
            exact = not len(place_keys)
            step[6:9] = starts.ctypes.data, len(starts), 0 if exact else place_keys.ctypes.data
            step[9:] = place_rows.ctypes.data, len(place_rows)
        return steps

    def _looked(self, counts: Array) -> None:
        for figures, (rows_in, rows_out, candidates, pieces) in zip(self.figures, counts.tolist(), strict=True):
            figures.rows_in += rows_in
            figures.rows_out += rows_out
            figures.candidates += candidates
            figures.pieces += pieces
            self._room.look(candidates, figures.text)
