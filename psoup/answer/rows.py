"""The plan evaluated: each node makes rows of its input's rows, as references to tuples; columns come last.

    Source ─ matches ─> Project ──> Distinct ──> Sort ──> Limit ─ rows ─> columns, gathered group by group

    Arrivals   the matches of a source in stream order           chunk, ascending offsets
    Arranged   other rows, told apart (DISTINCT) and sorted      tuple IDs, once all keys have been seen

Both may be `cut`. Nothing is read before the reader of the answer asks for rows. `psoup.answer.outputs` computes the
columns of a group; a group that needs no computing leaves as a message (`psoup.answer.message`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psoup.answer.matches import Matches
from psoup.answer.ordering import sorted_by
from psoup.answer.outputs import Group, computed, computed_at_once
from psoup.answer.sorting import Sorting, over_rows
from psoup.columns import Array, Column
from psoup.config import TextLimits
from psoup.data.archived import Chunk
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Expr
from psoup.invariants import ensure
from psoup.plan.nodes import Distinct, Limit, Node, OrderKey, Project, Sort, Source
from psoup.reading import ReadBudget


def groups(matches: Sequence[Matches], max_rows: int, limit: int | None = None, skip: int = 0) -> Iterator[Group]:
    """The matches in order but for the first `skip`, in groups of at most `max_rows`, `limit` in all."""
    group: Group = []
    room, left = max_rows, limit
    for match in matches:
        if skip >= match.count:
            skip -= match.count
            continue
        offsets = match.offsets[skip:] if left is None else match.offsets[skip:][:left]
        skip = 0
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
    """Compute output expressions for tuples of `chunks` in the order of `ids` (int64[n]); in parts if texts are long.

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


def rows_of(node: Node, reading: Reading) -> Rows:
    """The rows of a node. O(nodes)."""
    return _EVALUATORS[type(node)](node, reading)


def _source(node: Source, reading: Reading) -> Rows:
    return Arrivals(reading, reading.matches[node.place])


def _project(node: Project, reading: Reading) -> Rows:
    """Leave the rows as they are: what they show is computed last."""
    return rows_of(node.input, reading)


def _distinct(node: Distinct, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    assert isinstance(rows, Arrivals), "rows are told apart as they come: of equal ones the first is kept"
    return Arranged(rows, distinct=tuple(output.expr for output in node.schema))


def _sort(node: Sort, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    if isinstance(rows, Arrivals):
        return Arranged(rows, order=node.keys)
    ensure(not rows.order and rows.limit is None, "plan", "rows are sorted once, and before they are cut")
    rows.order = node.keys  # one pass over the keys tells apart and sorts
    return rows


def _limit(node: Limit, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    rows.cut(node.rows, node.skip)
    return rows


_EVALUATORS: dict[type[Node], Callable[[Any, Reading], Rows]] = {
    Source: _source,
    Project: _project,
    Distinct: _distinct,
    Sort: _sort,
    Limit: _limit,
}


_MAX_ROWS = 65_536
"""Rows whose keys are computed at once."""
_DISK_ROWS = 16_384
"""Rows that a sorted answer gathers at once from files."""


@dataclass(slots=True)
class Reading:
    """The matches and limits that rows are evaluated with. `errors`: values that could not be computed, now NULL."""

    matches: Sequence[Sequence[Matches]]
    """The matches of each source, in the order of FROM."""
    now: int | None
    texts: TextLimits
    budget: ReadBudget
    sort_rows: int
    """The number of rows that may be sorted."""
    errors: int = 0

    def count(self, columns: Sequence[Column]) -> None:
        """Count the errors of some values."""
        self.errors += sum(int(np.count_nonzero(c.error)) for c in columns if c.error is not None)

    def computed(self, outputs: list[Expr], group: Group) -> Iterator[list[Column]]:
        """Compute expressions over some tuples, in parts."""
        return computed(outputs, group, self.now, self.texts, self.budget)


@dataclass(slots=True)
class Arrivals:
    """The matches of one source; `limit`: only the first of them after `skip`."""

    reading: Reading
    matches: Sequence[Matches]
    limit: int | None = None
    skip: int = 0

    def cut(self, rows: int | None, skip: int) -> None:
        """Leave only the first rows after `skip`; once. O(1)."""
        self.limit, self.skip = rows, skip

    def groups(self, most: int) -> Iterator[Group]:
        """The tuples in groups, at most so many in each."""
        return groups(self.matches, most, self.limit, self.skip)

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most so many rows at a time."""
        for group in self.groups(most):
            self.reading.budget.check()
            yield from self.reading.computed(outputs, group)


@dataclass(slots=True)
class Arranged:
    """Rows of `rows` that differ in `distinct` (all if that is empty), sorted by `order`, the first `limit` but `skip`.

    The IDs of all rows are held while it is read, and each piece is gathered when it is asked for.
    """

    rows: Arrivals
    distinct: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    skip: int = 0

    def cut(self, rows: int | None, skip: int) -> None:
        """Leave only the first rows after `skip`; once. O(1): others are dropped while the keys are read."""
        self.limit, self.skip = None if rows is None else skip + rows, skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order. Raises ResourceExhausted if too many would have to be sorted."""
        reading = self.rows.reading
        sorting = Sorting(self.distinct, self.order, self.limit, reading.budget, reading.sort_rows)
        total = sum(match.count for match in self.rows.matches)
        if total > reading.sort_rows and not sorting.reducible:
            raise over_rows(total, reading.sort_rows)
        chunks = [match.data for match in self.rows.matches]
        try:
            for group in self.rows.groups(_MAX_ROWS):
                reading.budget.check()
                sorting.add_all(ids_of(group), self._keys(sorting.wanted, outputs, group))
            ids = sorting.order()[self.skip :]
            if any(not chunk.in_memory for chunk in chunks):
                most = max(most, _DISK_ROWS)
            for start in range(0, len(ids), most):
                piece = ids[start : start + most]
                yield from by_ids(outputs, chunks, piece, reading.now, reading.texts, reading.budget)
        finally:
            sorting.close()

    def _keys(self, wanted: list[Expr], outputs: list[Expr], group: Group) -> Iterator[list[Column]]:
        """The keys to sort by; errors in values that rows show are counted when they are given out."""
        reading, shown = self.rows.reading, set(outputs)
        for columns in reading.computed(wanted, group):
            reading.count([column for expr, column in zip(wanted, columns, strict=True) if expr not in shown])
            yield columns


Rows = Arrivals | Arranged
