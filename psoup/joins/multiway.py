"""Several sources joined by one equality each: without routes, as the order of FROM is never much worse than another.

    r.k = s.k AND s.j = t.k    a tree: each source has one before it by whose rows its own are found
    r s t    r s' t            from the last source up, each loses the rows without a partner below: t stays, s, then r
    r ─> s ─> t                then in the order of FROM: no tuple is made that the join has not

So the cost is linear in the rows of the sides and the tuples of the join, whatever the selectivities (Yannakakis 1981);
a route could only save a part of what is linear in the sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.columns import Array, scratch_array
from psoup.config import JoinLimits
from psoup.joins.budget import Room
from psoup.joins.key_columns import Edge
from psoup.joins.sort_builds import Buckets
from psoup.joins.steps import StepFigures
from psoup.kernels.nested import keep_partnered, nest

_BLOCK = 4_096
"""Tuples of some sources that are held at once: those of four sources fit the cache of a core."""
_LOOKED = 1_048_576
"""Candidates after which it is asked whether the caller still waits: some milliseconds."""
_GROWTH = 4


def tree_of(edges: Sequence[Edge], sources: int) -> list[Edge] | None:
    """An edge to each source but the first, from one before it, of which all others follow; None if there is none."""
    if any(edge.operator != "eq" for edge in edges):
        return None
    directed = [edge.towards(max(edge.left, edge.right)) for edge in edges]
    tree = list[Edge]()
    for source in range(1, sources):
        own = [edge for edge in directed if edge.right == source]
        if not own:
            return None
        tree.append(min(own, key=lambda edge: edge.left))
    equal: dict[tuple[int, int], tuple[int, int]] = {}
    for edge in tree:
        first, second = (equal.setdefault(operand, operand) for operand in _operands(edge))
        equal |= {operand: first for operand, other in equal.items() if other == second}
    follow = all(len({equal.get(operand, operand) for operand in _operands(edge)}) == 1 for edge in directed)
    return tree if follow else None


def _operands(edge: Edge) -> tuple[tuple[int, int], tuple[int, int]]:
    """The sources of an edge with their keys, of which one may have several."""
    return (edge.left, id(edge.left_keys)), (edge.right, id(edge.right_keys))


class Nested:
    """The tuples of a tree of sources. `figures`: what the steps did so far, with the rows that have partners."""

    def __init__(self, tree: Sequence[Edge], rows: Sequence[Array], room: Room, limits: JoinLimits) -> None:
        """`tree`: of `tree_of`; `rows`: int32, ascending, those of each source that take part."""
        self._tree, self._room, self._limits = tree, room, limits
        self._rows = list(rows)
        self._builds = list[Buckets]()
        self.figures = [StepFigures(edge.right, edge.text) for edge in tree]

    def pieces(self) -> Iterator[list[Array]]:
        """The tuples in the order of FROM: int32 rows of each source.

        Raises ResourceExhausted, and what ends the read.
        """
        if not self._prepared():
            return
        steps, rows, limits = self._steps(), self._rows[0], self._limits
        count, block = len(steps), min(_BLOCK, limits.piece)
        self._room.hold(count * block * (4 * count + 8), "tuples of some of its sources")
        state: Array = np.zeros((count + 1, 3), np.int64)
        held = scratch_array(count * count * block, np.int32).reshape(count, count, block)
        keys = scratch_array(count * block, np.int64).reshape(count, block)
        most = min(limits.first, limits.rows)
        while state[-1, 0] >= 0:
            out = scratch_array((count + 1) * most, np.int32).reshape(count + 1, most)
            firsts = scratch_array(max(most, block), np.int32)
            counts: Array = np.zeros((count, 4), np.int64)
            found, _ = nest(steps, rows, state, _LOOKED, held, keys, firsts, out, counts)
            self._looked(counts)
            if found:
                yield list(out[:, :found])
                most = min(most * _GROWTH, limits.rows)

    def _prepared(self) -> bool:
        """Sort the rows that have partners below; False: some source has none."""
        builds: dict[int, Buckets] = {}
        for source in range(len(self._tree), -1, -1):
            for edge in self._tree:
                if edge.left == source:
                    self._rows[source] = self._partnered(edge, builds[edge.right])
            if not len(self._rows[source]):
                return False
            if source:
                builds[source] = Buckets(self._tree[source - 1].right_keys, self._rows[source], self._room)
        self._builds = [builds[edge.right] for edge in self._tree]
        return True

    def _partnered(self, edge: Edge, build: Buckets) -> Array:
        rows = self._rows[edge.left]
        self._room.hold(4 * len(rows), "the rows that have partners")
        base, factor, shift, starts, place_keys, _ = build.places
        out = scratch_array(len(rows), np.int32)
        return out[: keep_partnered(edge.left_keys, rows, base, factor, shift, starts, place_keys, out)]

    def _steps(self) -> Array:
        """The steps as the kernel takes them; what it reads is held by this object."""
        steps: Array = np.empty((len(self._tree), 11), np.int64)
        for own, edge, build in zip(steps, self._tree, self._builds, strict=True):
            *bucket, starts, place_keys, place_rows = build.places
            own[:3] = edge.left, edge.left_keys.ctypes.data, len(edge.left_keys)
            own[3:6] = np.array(bucket, np.uint64).view(np.int64)
            exact = not len(place_keys)
            own[6:9] = starts.ctypes.data, len(starts), 0 if exact else place_keys.ctypes.data
            own[9:] = place_rows.ctypes.data, len(place_rows)
        return steps

    def _looked(self, counts: Array) -> None:
        for figures, (rows_in, rows_out, candidates, pieces) in zip(self.figures, counts.tolist(), strict=True):
            figures.rows_in += rows_in
            figures.rows_out += rows_out
            figures.candidates += candidates
            figures.pieces += pieces
            self._room.look(candidates, figures.text)
