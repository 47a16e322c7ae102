"""The pairs of two sides by one equality, or by how near their keys are: the common joins, without routes.

    left   5 7 5          right  7 5 9 5   buckets   5: rows 1 3 | 7: row 0 | 9: row 2
           │ │ └─ (2, 1) (2, 3)
           │ └─── (1, 0)            rows of the left side in their order, partners ascending: the order of FROM
           └───── (0, 1) (0, 3)

Every step is one kernel over all rows, or over as many as fill a piece. `psoup.joins.joined` takes all other joins, and
gives the same for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from psoup.columns import Array
from psoup.config import JoinLimits
from psoup.joins.builds import Buckets, all_rows
from psoup.joins.keys import Edge
from psoup.joins.room import Room
from psoup.joins.thinned import differ, thinned
from psoup.kernels.joined import probe_buckets, probe_ranges

_GROWTH = 4
_LOOKED = 1_048_576
"""Candidates after which it is asked whether the caller still waits: some two milliseconds."""
_EVERY = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class SideKeys:
    """The keys of a side: int64 by row, at least one; which rows take part (int32, ascending; None: all); bounds."""

    keys: Array
    rows: Array | None
    least: int
    greatest: int

    @property
    def taking_part(self) -> Array:
        """The rows that take part, int32."""
        return all_rows(len(self.keys)) if self.rows is None else self.rows


@dataclass(frozen=True, slots=True)
class Band:
    """How far partners may be apart: left key + low <= right key <= left key + high; None: without a bound."""

    low: int | None
    high: int | None

    def fits(self, left: SideKeys, right: SideKeys) -> bool:
        """Whether no sum overflows, and the keys of the right side ascend with its rows. O(rows)."""
        inside = all(
            -(2**63) <= key + bound < 2**63
            for bound in (self.low, self.high)
            if bound is not None
            for key in (left.least, left.greatest)
        )
        keys = right.keys if right.rows is None else right.keys.take(right.rows)
        return inside and bool((keys[1:] >= keys[:-1]).all())


def pairs_by_key(left: SideKeys, right: SideKeys, text: str, room: Room, limits: JoinLimits) -> Iterator[list[Array]]:
    """The pairs of rows (int32) with equal keys, in pieces that grow; `text`: the equality, for errors.

    Raises ResourceExhausted, and what ends the read.
    """
    driving, rows = left.taking_part, right.taking_part
    if not len(driving) or not len(rows):
        return
    if differ((len(driving), len(rows))):
        edge = Edge("eq", 0, 1, left.keys, right.keys, False, text, "", "")
        _, rows = thinned([driving, rows], (edge,), room, first=1)
        if not len(rows):
            return
    build = Buckets(right.keys, rows, room, (right.least, right.greatest))
    probe = partial(probe_buckets, left.keys, _EVERY if left.rows is None else driving, *build.places)
    yield from _pieces(probe, len(driving), text, room, limits)


def pairs_by_band(
    left: SideKeys, right: SideKeys, band: Band, text: str, room: Room, limits: JoinLimits
) -> Iterator[list[Array]]:
    """The pairs of rows (int32) whose keys are near, as `pairs_by_key`. The band must fit."""
    driving, rows = left.taking_part, right.taking_part
    if not len(driving) or not len(rows):
        return
    ordered = right.keys if right.rows is None else right.keys.take(rows)
    bounds = (band.low is not None, band.low or 0, band.high is not None, band.high or 0)
    probe = partial(probe_ranges, left.keys, _EVERY if left.rows is None else driving, ordered, rows, *bounds)
    yield from _pieces(probe, len(driving), text, room, limits)


def _pieces(
    probe: Callable[..., tuple[int, int, int, int]], count: int, text: str, room: Room, limits: JoinLimits
) -> Iterator[list[Array]]:
    """What a kernel writes of `count` driving rows, piece by piece."""
    at = inside = 0
    most = min(limits.first, limits.rows)
    while at < count:
        firsts, partners = np.empty(most, np.int32), np.empty(most, np.int32)
        at, inside, found, looked = probe(at, inside, _LOOKED, firsts, partners)
        room.look(looked, text)
        if found:
            room.found += found
            yield [firsts[:found], partners[:found]]
            most = min(most * _GROWTH, limits.rows)
