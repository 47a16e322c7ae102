"""Which rows of an answer are computed together, in stream order or in another.

    groups   matches in stream order, some rows at a time
    by_ids   rows in any order, named by tuple ID: by chunk, computed, and put in that order

What is computed of them is `psoup.answer.outputs`; what needs no computing leaves as a message instead
(`psoup.answer.message`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.answer.found import Matches
from psoup.answer.ordering import sorted_by
from psoup.answer.outputs import Group, computed_at_once
from psoup.columns import Array, Column
from psoup.config import TextLimits
from psoup.data.archived import Chunk
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Expr
from psoup.reading import ReadBudget


def groups(found: Sequence[Matches], max_rows: int, limit: int | None = None) -> Iterator[Group]:
    """The matches in order, in groups of at most `max_rows`, `limit` in all."""
    group: Group = []
    room, left = max_rows, limit
    for match in found:
        offsets = match.offsets if left is None else match.offsets[:left]
        left = None if left is None else left - len(offsets)
        while len(offsets):
            group.append((match.data, offsets[:room]))
            room -= len(group[-1][1])
            offsets = offsets[len(group[-1][1]) :]
            if not room:
                yield group
                group, room = [], max_rows
    if group:
        yield group


def ids_of(group: Group) -> Array:
    """The tuple IDs of a group, int64."""
    return np.concatenate([offsets + chunk.first_id for chunk, offsets in group])


def by_ids(
    outputs: list[Expr],
    chunks: Sequence[Chunk],
    ids: Array,
    now: int | None,
    texts: TextLimits,
    budget: ReadBudget,
) -> Iterator[list[Column]]:
    """The output expressions for tuples of `chunks` in the order of `ids` (int64[n]); in parts if texts are long.

    O(n), and a visit of each chunk. Raises as `outputs.computed`.
    """
    budget.check()
    order = sorted_by(ids, np.arange(len(ids), dtype=np.uint32), budget)
    ascending = ids[order]
    place = np.searchsorted(np.array([chunk.first_id for chunk in chunks], np.int64), ascending, "right") - 1
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    group: Group = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        chunk = chunks[int(place[start])]
        group.append((chunk, ascending[start:stop] - chunk.first_id))
    try:
        columns = computed_at_once(outputs, group, now, texts, budget)
    except TooMuchText:
        middle = len(ids) // 2
        yield from by_ids(outputs, chunks, ids[:middle], now, texts, budget)
        yield from by_ids(outputs, chunks, ids[middle:], now, texts, budget)
        return
    back: Array = np.empty(len(ids), np.int64)
    back[order] = np.arange(len(ids))
    yield [column.take(back) for column in columns]
