"""The way that joins by one band of columns. Each row of the left side searches a range of the sorted right side.

    s.t BETWEEN r.t - 5 AND r.t        s.t ascends, so the partners of a row of r are a range of rows of s

No key is hashed. The search is in `psoup.joins.hash_pairs`.
"""

from __future__ import annotations

from psoup.execution.join.direct_join import direct_join
from psoup.execution.join.join_case import FoundPairs, JoinCase
from psoup.execution.join.key_join import gather_keys
from psoup.joins.hash_pairs import PairTest, ascends, pairs_by_band
from psoup.plan.nodes import Join
from psoup.plan.way import TryNext


def serves(node: Join) -> bool:
    """Whether a join has two sources and one band of columns, and nothing else. Constants may be added to them."""
    direct = direct_join(node)
    return direct is not None and not direct.keys


def accepts(case: JoinCase) -> bool:
    """Whether both sides are in memory."""
    return case.in_memory


def band_join(case: JoinCase) -> FoundPairs:
    """Find the pairs, in pieces.

    Raises TryNext if the right side's keys do not ascend, or a sum leaves the range of its type.
    """
    direct, room = direct_join(case.node), case.room()
    assert direct is not None
    try:
        left, right = gather_keys(direct, case, room)
        ((columns, band),) = direct.bands
        only = PairTest(left[columns.columns[0]], right[columns.columns[1]], band)
        if not direct.fits((left, right)) or not ascends(only.right):
            raise TryNext
        pieces = pairs_by_band(only.left, only.right, band, direct.text, room, room.limits)
    except BaseException:
        room.close()
        raise
    return FoundPairs(case.sides, pieces, room)
