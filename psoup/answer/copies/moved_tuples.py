"""Tuples that entered or left the windows of a former answer, as far as they can change it.

    former ranges   [3, 9)         a tuple of [3, 5) left
    ranges now        [5, 12)      a tuple of [9, 12) came

If such a tuple satisfies WHERE, the answer must be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.answer.copies.id_intervals import Interval, without
from psoup.answer.copies.rows_since import RangeSearch
from psoup.answer.copies.versions_since import ended_since
from psoup.answer.invoke import Matched
from psoup.execution.select.window import Ranges
from psoup.plan.nodes import partitioned
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget


def any_moved(
    snapshot: Snapshot,
    record: QueryRecord,
    sides: Sequence[Matched],
    before: Ranges,
    after: Ranges,
    budget: ReadBudget,
) -> bool:
    """Whether a tuple that entered or left the window of a source, or a version that ended, may satisfy WHERE.

    Any new tuple may push tuples of its key out of a partitioned window. It need not satisfy WHERE.
    """
    windows = partitioned(record.query.plan)
    for place, ((view, clause), old, new) in enumerate(zip(sides, before, after, strict=True)):
        search = RangeSearch(snapshot, view, clause.sqc_id, budget)
        if old == new:
            continue
        if place in windows or search.any_in([*without(*old, [new]), *without(*new, [old])]) or _any_ended(search, old):
            return True
    return False


def _any_ended(search: RangeSearch, before: Interval) -> bool:
    """Whether a later entry may have ended a version of a table that matched. `before`: the former tuple IDs."""
    if search.view.spec.table is None or before[0] >= before[1]:
        return False
    ended = ended_since(search.snapshot, search.view, search.sqc_id, [before], before[1], search.budget)
    return ended is None or len(ended) > 0


def is_behind(sides: Sequence[Matched], before: Ranges, after: Ranges) -> bool:
    """Whether retention may soon drop tuples of the former answer.

    The rule: the former begin of a window is nearer to the oldest tuple of the stream than to the current begin.
    """
    parts = zip(sides, before, after, strict=True)
    return any(2 * old[0] < view.first_id + new[0] for (view, _), old, new in parts)
