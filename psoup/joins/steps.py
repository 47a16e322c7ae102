"""A step: partial tuples of some sources get the rows of one more that all factors between them allow.

    tuples of (r, s)      step to t: t.k = r.k AND t.at >= s.at AND t.at < s.at + 9
    probe                 keys of the tuples ──build──> ranges of places ──bands──> narrower ──> pairs
    test                  what the ranges do not decide: other factors, a hash of several keys

The rows of each tuple come in ascending order, tuple by tuple: so tuples that took their steps in the order of FROM
are in the order of FROM. Builds are made when a step is first taken, and shared by steps over the same operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.columns import Array, scratch_array
from psoup.joins.key_columns import Edge
from psoup.joins.sort_builds import Buckets, Build, Builds, hashed
from psoup.kernels import pairs as kernels
from psoup.kernels.joined import probe_buckets
from psoup.kernels.order import order_keys

Places = Array | slice
"""Rows of a source in some tuples: int64[n], or consecutive ones."""

_OPERATORS = {"eq": kernels.EQ, "lt": kernels.LT, "le": kernels.LE, "gt": kernels.GT, "ge": kernels.GE}
_KEPT = {"lt": kernels.ABOVE, "le": kernels.AT_LEAST, "gt": kernels.BELOW, "ge": kernels.AT_MOST}
"""How the places of the row on the right lie to the key on the left."""
_LOOKED = 1_048_576
"""Candidates after which it is asked whether the caller still waits: some two milliseconds."""
_SPARE = 4
"""Room for each pair from which on pairs are copied out of it."""
_NO_KEYS = np.zeros(0, np.int64)
_EVERY = np.zeros(0, np.int32)


def at(values: Array, places: Places) -> Array:
    """The values of some rows."""
    return values[places] if isinstance(places, slice) else values.take(places)


@dataclass(slots=True)
class StepFigures:
    """What a step did: partial tuples in and out, candidates that it looked at, and the pieces it took."""

    source: int
    text: str
    rows_in: int = 0
    rows_out: int = 0
    candidates: int = 0
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class _Probe:
    """How a step finds places: the build, edges whose keys it is asked for, bands that narrow ranges, and tests."""

    build: Build
    keys: tuple[Edge, ...]
    bands: tuple[tuple[Edge, Array], ...]
    """Each with the keys of the right side by place."""
    tests: tuple[Edge, ...]


class Step:
    """The step to `source` from tuples of the sources in `done`. `edges`: all factors between these, `source` right.

    `name`: the same in every evaluation of a plan, and from wherever the operands of `source` are reached; `share`: how
    large a part of the largest side the source has.
    """

    def __init__(self, source: int, edges: Sequence[Edge], builds: Builds, share: float) -> None:
        self.source, self.edges, self.share = source, edges, share
        self.name = (source, tuple(sorted({(edge.operator, edge.right_text) for edge in edges})))
        self.text = " AND ".join(edge.text for edge in edges if not edge.implied) or " AND ".join(
            edge.text for edge in edges
        )
        self.figures = StepFigures(source, self.text or "no factor")
        self._builds = builds
        self._probe: _Probe | None = None

    def pairs(self, places: Sequence[Places | None], count: int, room: int) -> Iterator[tuple[Array, Array]]:
        """Pairs (tuple, row of the source), int64, of `count` tuples with rows `places`; about `room` at once at most.

        Raises ResourceExhausted, and what ends the read.
        """
        probe = self._probe
        if probe is None:
            probe = self._probe = self._prepared()
        build, figures = probe.build, self.figures
        keys = hashed([at(edge.left_keys, _rows(places, edge)) for edge in probe.keys]) if probe.keys else _NO_KEYS
        figures.rows_in += count
        figures.pieces += 1
        if isinstance(build, Buckets) and not probe.bands:
            found = self._probed(build, keys, room)
        else:
            found = self._ranged(probe, keys, places, count, room)
        tests = [(at(edge.left_keys, _rows(places, edge)), edge) for edge in probe.tests]
        for firsts, rows, pairs in found:
            for bounds, edge in tests:
                pairs = kernels.keep_pairs(bounds, edge.right_keys, _OPERATORS[edge.operator], firsts, rows, pairs)
            figures.rows_out += pairs
            if pairs:
                yield firsts[:pairs], rows[:pairs]

    def _looked(self, candidates: int) -> None:
        """Count candidates. Raises ResourceExhausted, and what ends the read."""
        self._builds.room.look(candidates, self.figures.text)
        self.figures.candidates += candidates

    def _probed(self, build: Buckets, keys: Array, room: int) -> Iterator[tuple[Array, Array, int]]:
        """Candidates (tuple, row, how many) of equal keys."""
        row = inside = 0
        while row < len(keys):
            firsts, rows = scratch_array(room, np.int64), scratch_array(room, np.int64)
            row, inside, pairs, looked = probe_buckets(keys, _EVERY, *build.places, row, inside, _LOOKED, firsts, rows)
            self._looked(looked)
            few = _SPARE * pairs < room  # what is kept of them must not keep the room
            yield firsts, rows[:pairs].copy() if few else rows, pairs

    def _ranged(
        self, probe: _Probe, keys: Array, places: Sequence[Places | None], count: int, room: int
    ) -> Iterator[tuple[Array, Array, int]]:
        """Candidates (tuple, row, how many) in ranges of places."""
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
                if inside:  # a row with more than there is room for, after such as have none
                    inside = 0
                    continue
                _sort_partners(firsts[:pairs], rows[:pairs])
            left -= looked
            self._looked(looked)
            yield firsts, rows, pairs

    def _long_range(
        self, build: Build, row: int, begin: int, end: int, room: int
    ) -> Iterator[tuple[Array, Array, int]]:
        """The rows of a range that is longer than the room, in ascending order."""
        rows = np.sort(build.rows[begin:end]).astype(np.int64)
        for start in range(0, len(rows), room):
            part = rows[start : start + room].copy()
            yield np.full(len(part), row, np.int64), part, len(part)

    def _prepared(self) -> _Probe:
        """Choose how to find places. Implied edges are not tested: what they follow from is, here or in other steps."""
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
        """Sort by the operand that most bands are about; others that ascend with it narrow ranges too."""
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
    """Sort the rows of each tuple, in place; tuples ascend. O(pairs)."""
    if len(rows):
        numbers = (tuples - tuples[0]) * (int(rows.max()) + 1) + rows
        order, spare = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        order_keys(numbers, order, spare)
        rows[:] = rows[order]


def _ascends(keys: Array, rows: Array) -> bool:
    """Whether `keys`, taken in the order of `rows`, never descend."""
    own = keys.take(rows)
    return bool((own[1:] >= own[:-1]).all())
