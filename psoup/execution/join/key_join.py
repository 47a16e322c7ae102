"""The way that joins two sides by equalities of columns: a hash join over gathered keys. Bands are tested on its pairs.

    r.k = s.k                          keys gathered from the chunks

    r.k = s.k AND r.name = s.name      a hash of both keys finds pairs, then both keys are compared

    r.k = s.k AND s.t >= r.t           the key finds pairs, then the band is tested

The steps are in `psoup.joins.hash_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from psoup.execution.join.direct_join import DirectJoin, direct_join
from psoup.execution.join.join_case import FoundPairs, JoinCase
from psoup.joins.budget import JoinBudget
from psoup.joins.hash_pairs import PairTest, SideKeys, count_by_key, pairs_by_key, together
from psoup.plan.nodes import Join
from psoup.plan.way import TryNext
from psoup.values.columns import Array
from psoup.work.runner import serial

SHARED = 50_000
"""The least sum of the rows of both sides for which two threads gather the keys. A side then takes some 150 us."""


def serves(node: Join) -> bool:
    """Whether a join is a direct join with an equality of columns (`direct_join`)."""
    direct = direct_join(node)
    return direct is not None and bool(direct.keys)


def counts(node: Join) -> bool:
    """Whether the number of rows of each key gives the number of pairs. It does for one equality and nothing else."""
    direct = direct_join(node)
    return direct is not None and direct.is_single and not node.rest


def accepts(case: JoinCase) -> bool:
    """Whether both sides are in memory."""
    return case.in_memory


def key_join(case: JoinCase) -> FoundPairs:
    """Find the pairs, in pieces.

    Raises TryNext if a sum leaves the range of its type. Also if many rows have one key and no band is sorted.
    """
    room = case.room()
    try:
        return FoundPairs(case.sides, _pairs(case, room), room)
    except BaseException:
        room.close()
        raise


def count_keys(case: JoinCase) -> int:
    """Count the pairs without finding them. Raises TryNext if keys are too far apart. O(rows of both sides)."""
    room = case.room()
    try:
        direct = direct_join(case.node)
        assert direct is not None
        left, right = gather_keys(direct, case, room)
        own, other = direct.keys[0].columns
        return count_by_key(left[own], right[other], room)
    finally:
        room.close()


def gather_keys(direct: DirectJoin, case: JoinCase, room: JoinBudget) -> list[dict[int, SideKeys]]:
    """Gather the keys of both sides, by column. Their bytes are charged to `room`."""
    sides, (left, right) = case.sides, direct.row_bytes
    room.hold(left * sides[0].rows + right * sides[1].rows, "the keys of its sides")
    keys: list[dict[int, SideKeys]] = [{}, {}]

    def gather(place: int) -> None:
        keys[place] = {column: sides[place].keys(column, kind) for column, kind in direct.read[place].items()}

    run = case.reading.run if sides[0].rows + sides[1].rows >= SHARED else serial
    run([partial(gather, 0), partial(gather, 1)])
    return keys


def _pairs(case: JoinCase, room: JoinBudget) -> Iterator[list[Array]]:
    direct, limits = direct_join(case.node), room.limits
    assert direct is not None
    left, right = gather_keys(direct, case, room)
    if direct.is_single:
        own, other = direct.keys[0].columns
        return pairs_by_key(left[own], right[other], direct.text, room, limits)
    if not direct.fits((left, right)):
        raise TryNext
    equal = [PairTest(left[own.columns[0]], right[own.columns[1]]) for own in direct.keys]
    near = [PairTest(left[own.columns[0]], right[own.columns[1]], band) for own, band in direct.bands]
    unsure = equal if len(equal) > 1 or equal[0].left.texts is not None else []
    first = together([own.left for own in equal], [own.left for own in near])
    second = together([own.right for own in equal], [own.right for own in near])
    return pairs_by_key(first, second, direct.text, room, limits, [*unsure, *near])
