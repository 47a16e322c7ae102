"""A step: partial tuples of some sources are joined with the rows of one more, by all factors between them.

    tuples of (r, s)      step to t: t.k = r.k AND t.at >= s.at AND t.at < s.at + 9
    probe                 keys of the tuples ──build──> ranges of places ──bands──> narrower ──> pairs
    test                  factors that the ranges do not decide: other factors, a hash of several keys

The rows of each tuple come in ascending order, tuple by tuple. So tuples whose steps followed the order of FROM come in
that order. Builds are made when a step is first taken, and shared by steps over the same operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.joins.key_columns import Edge
from psoup.joins.sort_builds import Build, Builds, KeyBuckets, hashed
from psoup.kernels.join import range_pairs as kernels
from psoup.kernels.join.pair_columns import probe_buckets
from psoup.kernels.rows.radix_sort import order_keys
from psoup.values.columns import Array, scratch_array

Places = Array | slice
"""Rows of a source in some tuples: int64[n], or a slice of consecutive rows."""

_OPERATORS = {"eq": kernels.EQ, "lt": kernels.LT, "le": kernels.LE, "gt": kernels.GT, "ge": kernels.GE}
_KEPT = {"lt": kernels.ABOVE, "le": kernels.AT_LEAST, "gt": kernels.BELOW, "ge": kernels.AT_MOST}
"""For each operator of `left operator right`, the relation of the right key to the left key, for `narrow_ranges`."""
_LOOKED = 1_048_576
"""The candidates between two checks of the caller's deadline: about two milliseconds of work."""
_SPARE = 4
"""If more than this many rows are allocated for each pair, the pairs are copied to a smaller array."""
_NO_KEYS = np.zeros(0, np.int64)
_EVERY = np.zeros(0, np.int32)


def at(values: Array, places: Places) -> Array:
    """The values of some rows."""
    return values[places] if isinstance(places, slice) else values.take(places)


@dataclass(slots=True)
class StepFigures:
    """Statistics of a step: the numbers of partial tuples in and out, of candidates looked at, and of pieces."""

    source: int
    text: str
    rows_in: int = 0
    rows_out: int = 0
    candidates: int = 0
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class _Probe:
    """The plan of a step: the build, edges whose keys are looked up in it, bands that narrow ranges, and tests."""

    build: Build
    keys: tuple[Edge, ...]
    bands: tuple[tuple[Edge, Array], ...]
    """Each band, and its right keys in the order of the build's places."""
    tests: tuple[Edge, ...]


class Step:
    """The step from partial tuples to `source`. `edges`: all factors between the two, with `source` on the right.

    `name`: the operators and right operands, the same in every evaluation of a plan. `share`: the size of the source as
    a part of the largest source.
    """

    def __init__(self, source: int, edges: Sequence[Edge], builds: Builds, share: float) -> None:
        self.source = source
        self.edges = edges
        self.share = share
        self.name = (source, tuple(sorted({(edge.operator, edge.right_text) for edge in edges})))
        self.text = " AND ".join(edge.text for edge in edges if not edge.implied) or " AND ".join(
            edge.text for edge in edges
        )
        self.figures = StepFigures(source, self.text or "no factor")
        self._builds = builds
        self._probe: _Probe | None = None

    def pairs(self, places: Sequence[Places | None], count: int, room: int) -> Iterator[tuple[Array, Array]]:
        """Yield the pairs (tuple, row of the source), int64, of `count` tuples, in pieces of about `room` at most.

        `places`: the rows of the tuples, by source. Raises ResourceExhausted, and the errors of the read's budget.
        """
        probe = self._probe
        if probe is None:
            probe = self._probe = self._prepared()
        build, figures = probe.build, self.figures
        keys = hashed([at(edge.left_keys, _rows(places, edge)) for edge in probe.keys]) if probe.keys else _NO_KEYS
        figures.rows_in += count
        figures.pieces += 1
        if isinstance(build, KeyBuckets) and not probe.bands:
            candidates = self._probed(build, keys, room)
        else:
            candidates = self._ranged(probe, keys, places, count, room)
        tests = [(at(edge.left_keys, _rows(places, edge)), edge) for edge in probe.tests]
        for firsts, rows, pairs in candidates:
            for bounds, edge in tests:
                pairs = kernels.keep_pairs(bounds, edge.right_keys, _OPERATORS[edge.operator], firsts, rows, pairs)
            figures.rows_out += pairs
            if pairs:
                yield firsts[:pairs], rows[:pairs]

    def _looked(self, candidates: int) -> None:
        """Count candidates. Raises ResourceExhausted, and the errors of the read's budget."""
        self._builds.room.look(candidates, self.figures.text)
        self.figures.candidates += candidates

    def _probed(self, build: KeyBuckets, keys: Array, room: int) -> Iterator[tuple[Array, Array, int]]:
        """Yield candidates (tuples, rows, count) with equal keys."""
        row = inside = 0
        while row < len(keys):
            firsts, rows = scratch_array(room, np.int64), scratch_array(room, np.int64)
            row, inside, pairs, looked = probe_buckets(keys, _EVERY, *build.places, row, inside, _LOOKED, firsts, rows)
            self._looked(looked)
            few = _SPARE * pairs < room  # the caller may keep the rows, and with them the whole array
            yield firsts, rows[:pairs].copy() if few else rows, pairs

    def _ranged(
        self, probe: _Probe, keys: Array, places: Sequence[Places | None], count: int, room: int
    ) -> Iterator[tuple[Array, Array, int]]:
        """Yield candidates (tuples, rows, count) in ranges of places."""
        build = probe.build
        begin, end = np.empty(count, np.int32), np.empty(count, np.int32)
        left = build.ranges(keys, begin, end)
        for edge, ordered in probe.bands:
            bounds = at(edge.left_keys, _rows(places, edge))
            left = kernels.narrow_ranges(ordered, bounds, _KEPT[edge.operator], begin, end)
        row = inside = 0
        while row < count and left > 0:
            if not build.ascending and end[row] - begin[row] > room:
                looked = int(end[row] - begin[row])
                self._looked(looked)
                yield from self._long_range(build, row, int(begin[row]), int(end[row]), room)
                left, row = left - looked, row + 1
                continue
            size = min(left, room)
            firsts, rows = scratch_array(size, np.int64), scratch_array(size, np.int64)
            row, inside, pairs, looked = kernels.emit_pairs(
                begin, end, keys, build.keys, build.rows, row, inside, _LOOKED, firsts, rows
            )
            if not build.ascending:
                if inside:  # the range of this row is longer than `room`: the next turn takes it as a long range
                    inside = 0
                    continue
                _sort_partners(firsts[:pairs], rows[:pairs])
            left -= looked
            self._looked(looked)
            yield firsts, rows, pairs

    def _long_range(
        self, build: Build, row: int, begin: int, end: int, room: int
    ) -> Iterator[tuple[Array, Array, int]]:
        """Yield the rows of a range longer than `room`, in ascending order."""
        rows = np.sort(build.rows[begin:end]).astype(np.int64)
        for start in range(0, len(rows), room):
            part = rows[start : start + room].copy()
            yield np.full(len(part), row, np.int64), part, len(part)

    def _prepared(self) -> _Probe:
        """Choose the build. Implied edges need no test: this step or another one tests the edges that imply them."""
        keys = sorted((edge for edge in self.edges if edge.operator == "eq"), key=lambda edge: edge.implied)
        bands = [edge for edge in self.edges if edge.operator != "eq"]
        if keys:
            return self._by_keys(list({id(edge.right_keys): edge for edge in reversed(keys)}.values()), bands)
        if bands:
            return self._by_bands(bands)
        return _Probe(self._builds.everything(self.source), (), (), ())

    def _by_keys(self, keys: list[Edge], bands: list[Edge]) -> _Probe:
        build = self._builds.buckets(self.source, [edge.right_keys for edge in keys])
        rows = self._builds.rows[self.source]
        narrowing = [e for e in bands if _ascends(e.right_keys, rows)] if bands and build.full else []
        decided = [*keys, *narrowing] if len(keys) == 1 else narrowing
        return _Probe(build, tuple(keys), self._beside(build, narrowing), self._others(decided))

    def _by_bands(self, bands: list[Edge]) -> _Probe:
        """Sort the rows by the operand that the most bands share.

        Another band also narrows ranges if its keys ascend in this order.
        """
        operands = [id(edge.right_keys) for edge in bands]
        first = max(bands, key=lambda edge: operands.count(id(edge.right_keys)))
        build = self._builds.sorted(self.source, first.right_keys)
        narrowing = [e for e in bands if e.right_keys is first.right_keys or _ascends(e.right_keys, build.rows)]
        return _Probe(build, (), self._beside(build, narrowing), self._others(narrowing))

    def _beside(self, build: Build, edges: Sequence[Edge]) -> tuple[tuple[Edge, Array], ...]:
        made: dict[int, Array] = {}
        for edge in edges:
            if id(edge.right_keys) not in made:
                self._builds.room.hold(8 * len(build.rows), "the bands beside its keys")
                made[id(edge.right_keys)] = edge.right_keys.take(build.rows)
        return tuple((edge, made[id(edge.right_keys)]) for edge in edges)

    def _others(self, decided: Sequence[Edge]) -> tuple[Edge, ...]:
        done = set(map(id, decided))
        return tuple(edge for edge in self.edges if id(edge) not in done and not edge.implied)


def _rows(places: Sequence[Places | None], edge: Edge) -> Places:
    rows = places[edge.left]
    assert rows is not None
    return rows


def _sort_partners(tuples: Array, rows: Array) -> None:
    """Sort the rows of each tuple in place; tuples ascend. O(pairs)."""
    if len(rows):
        numbers = (tuples - tuples[0]) * (int(rows.max()) + 1) + rows
        order, spare = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        order_keys(numbers, order, spare)
        rows[:] = rows[order]


def _ascends(keys: Array, rows: Array) -> bool:
    """Whether `keys` in the order of `rows` never descend."""
    row_keys = keys.take(rows)
    return bool((row_keys[1:] >= row_keys[:-1]).all())
