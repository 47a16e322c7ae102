"""The pairs of two sides by equal keys, or by keys within a band: the common joins, which need no routes.

    left   5 7 5          right  7 5 9 5   buckets   5: rows 1 3 | 7: row 0 | 9: row 2
           │ │ └─ (2, 1) (2, 3)
           │ └─── (1, 0)            rows of the left side in their order, partners ascending: the order of FROM
           └───── (0, 1) (0, 3)

Every step is one kernel over all rows, or over the rows that fill a piece. If the keys are hashes, or if there are
several factors, each pair is tested against the other factors. `psoup.joins.join_pieces` serves all other joins, and
gives the same pairs for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from psoup.config import JoinLimits
from psoup.joins.budget import JoinBudget
from psoup.joins.key_columns import Edge
from psoup.joins.semi_join import differ, thinned
from psoup.joins.sort_builds import KeyBuckets, all_rows, hashed
from psoup.kernels.join.band_probe import probe_banded
from psoup.kernels.join.pair_columns import probe_buckets, probe_ranges
from psoup.kernels.join.pair_filter import keep_near, keep_texts
from psoup.kernels.join.small_pairs import choose_buckets
from psoup.plan.way import TryNext
from psoup.values.columns import Array, scratch_array

_GROWTH = 4
"""Each piece may have this many times the rows of the piece before."""
_LOOKED = 1_048_576
"""The candidates between two checks of the caller's deadline: about two milliseconds of work."""
_EVERY = np.zeros(0, np.int32)
"""The argument of kernels that stands for all rows of a side."""


@dataclass(frozen=True, slots=True)
class SideKeys:
    """The keys of a side: int64 by row, at least one. `rows`: those that take part, int32, ascending; None for all.

    `least`, `greatest`: bounds of the keys.
    """

    keys: Array
    rows: Array | None
    least: int
    greatest: int
    texts: tuple[Array, Array] | None = None
    """Addresses and sizes of texts, by row, if the keys are hashes of texts."""

    @property
    def taking_part(self) -> Array:
        """The rows that take part, int32."""
        return all_rows(len(self.keys)) if self.rows is None else self.rows


@dataclass(frozen=True, slots=True)
class Band:
    """The condition left key + low <= right key <= left key + high. None: there is no such bound."""

    low: int | None
    high: int | None

    @property
    def bounds(self) -> tuple[bool, int, bool, int]:
        """The arguments of kernels: whether there is a lower bound, the lower bound, and both for the upper bound."""
        return self.low is not None, self.low or 0, self.high is not None, self.high or 0

    def in_range(self, left: SideKeys, right: SideKeys) -> bool:
        """Whether the sums of left keys and bounds fit into int64."""
        return all(
            -(2**63) <= key + bound < 2**63
            for bound in (self.low, self.high)
            if bound is not None
            for key in (left.least, left.greatest)
        )


EQUAL = Band(0, 0)


@dataclass(frozen=True, slots=True)
class PairTest:
    """A factor that pairs must satisfy: the keys of both rows are equal, or within the band."""

    left: SideKeys
    right: SideKeys
    band: Band = EQUAL

    def kept(self, left: Array, right: Array, pairs: int) -> int:
        """Move the pairs (int32) that pass the test to the front, in their order. Returns their number."""
        if self.left.texts is not None and self.right.texts is not None:
            count: int = keep_texts(*self.left.texts, *self.right.texts, left, right, pairs)
        else:
            count = keep_near(self.left.keys, self.right.keys, *self.band.bounds, left, right, pairs)
        return count


def ascends(side: SideKeys) -> bool:
    """Whether the keys of the rows that take part ascend. O(rows)."""
    keys = side.keys if side.rows is None else side.keys.take(side.rows)
    return bool((keys[1:] >= keys[:-1]).all())


def together(parts: Sequence[SideKeys], also: Sequence[SideKeys] = ()) -> SideKeys:
    """Combine several keys of a side into one key, their hash. O(rows).

    A row takes part if it does so in all of `parts` and `also`.
    """
    alive: Array | None = None
    for part in (*parts, *also):
        if part.rows is not None:
            rows_alive: Array = np.zeros(len(part.keys), np.bool_)
            rows_alive[part.rows] = True
            alive = rows_alive if alive is None else alive & rows_alive
    rows = None if alive is None else np.flatnonzero(alive).astype(np.int32)
    if len(parts) == 1:
        return replace(parts[0], rows=rows)
    return SideKeys(hashed([part.keys for part in parts]), rows, -(2**63), 2**63 - 1)


def pairs_by_key(
    left: SideKeys, right: SideKeys, text: str, room: JoinBudget, limits: JoinLimits, tests: Sequence[PairTest] = ()
) -> Iterator[list[Array]]:
    """The pairs of rows (int32) with equal keys that pass the tests, in pieces that grow.

    `text`: the text of the factors, for errors. If many rows have one key and `tests` has bands, a band with ascending
    right keys narrows the search. Raises TryNext if no band has ascending keys. Raises ResourceExhausted, and the
    errors of the read's budget.
    """
    driving, rows = left.taking_part, right.taking_part
    if not len(driving) or not len(rows):
        return iter(())
    if differ((len(driving), len(rows))):
        edge = Edge("eq", 0, 1, left.keys, right.keys, False, text, "", "")
        _, rows = thinned([driving, rows], (edge,), room, first=1)
        if not len(rows):
            return iter(())
    build = KeyBuckets(right.keys, rows, room, (right.least, right.greatest))
    probed = _EVERY if left.rows is None else driving
    if build.full and any(test.band is not EQUAL for test in tests):
        near = next(
            (test for test in tests if test.band is not EQUAL and ascends(replace(test.right, rows=rows))), None
        )
        if near is None:
            raise TryNext
        room.hold(8 * len(rows), "the bands beside its keys")
        beside = near.left.keys, near.right.keys.take(build.rows), near.band.bounds
        search = partial(probe_banded, left.keys, probed, build.places, *beside)
        return _pieces(search, len(driving), text, room, limits, [test for test in tests if test is not near])
    probe = partial(probe_buckets, left.keys, probed, *build.places)
    return _pieces(probe, len(driving), text, room, limits, tests)


def count_by_key(left: SideKeys, right: SideKeys, room: JoinBudget) -> int:
    """The number of pairs of rows with equal keys. O(rows).

    Raises TryNext if a bucket of the right side may hold several keys. Raises ResourceExhausted, and the errors of the
    read's budget.
    """
    driving, rows = left.taking_part, right.taking_part
    if not len(driving) or not len(rows):
        return 0
    bounds = right.least, right.greatest
    if not choose_buckets(*bounds, len(rows))[-1]:
        raise TryNext
    build = KeyBuckets(right.keys, rows, room, bounds)
    room.hold(16 * len(driving), "the partners of each row")
    keys = left.keys if left.rows is None else left.keys.take(driving)
    return build.ranges(keys, scratch_array(len(keys), np.int32), scratch_array(len(keys), np.int32))


def pairs_by_band(
    left: SideKeys, right: SideKeys, band: Band, text: str, room: JoinBudget, limits: JoinLimits
) -> Iterator[list[Array]]:
    """The pairs of rows (int32) whose keys are within the band, in pieces that grow.

    The band must be `in_range`, and the right keys must ascend. Arguments and errors are those of `pairs_by_key`.
    """
    driving, rows = left.taking_part, right.taking_part
    if not len(driving) or not len(rows):
        return iter(())
    ordered = right.keys if right.rows is None else right.keys.take(rows)
    probe = partial(probe_ranges, left.keys, _EVERY if left.rows is None else driving, ordered, rows, *band.bounds)
    return _pieces(probe, len(driving), text, room, limits)


def _pieces(
    probe: Callable[..., tuple[int, int, int, int]],
    count: int,
    text: str,
    room: JoinBudget,
    limits: JoinLimits,
    tests: Sequence[PairTest] = (),
) -> Iterator[list[Array]]:
    """Yield the pairs that a kernel finds for `count` rows of the left side, piece by piece."""
    at = inside = 0
    size = min(limits.first, limits.rows)
    while at < count:
        firsts, partners = scratch_array(size, np.int32), scratch_array(size, np.int32)
        at, inside, pairs, looked = probe(at, inside, _LOOKED, firsts, partners)
        room.look(looked, text)
        for test in tests:
            pairs = test.kept(firsts, partners, pairs)
        room.find(pairs)
        if pairs:
            yield [firsts[:pairs], partners[:pairs]]
            size = min(size * _GROWTH, limits.rows)
