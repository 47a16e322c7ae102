"""The keys and arguments of an Aggregate, computed over the rows of its input in parts.

    matches, joined rows ─> parts of at most 65,536 rows ─> columns

A key column that its chunk keeps dictionary-encoded comes as codes (`psoup.data.dictionary_column`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from psoup.aggregates.keys import coded_column
from psoup.aggregates.numbers import Hold
from psoup.data.chunk import ChunkView
from psoup.data.dictionary_column import Coded
from psoup.execution.relations.table_rows import TableRows
from psoup.execution.rows.plan_rows import FoldableRows
from psoup.execution.rows.select_list import Group
from psoup.execution.rows.source_rows import SourceRows
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import Kind
from psoup.plan.nodes import Aggregate, Hop
from psoup.values.columns import Column

_MAX_ROWS = 65_536
"""The most rows of a part that several chunks share."""

_ALONE = 4_096
"""The least number of matches with which a chunk makes a part of its own.

In a part of its own, a chunk whose rows all match is not copied. Dictionary-encoded keys are not hashed.
"""
_TEXTS_ALONE = 1_024
"""The value of `_ALONE` if a key is a text. Hashing one text takes as long as counting several rows."""

Part = tuple[int, Sequence[Column | Coded]]
"""The number of rows, and the values of expressions over them."""

GroupTable = tuple[dict[int, Column], int]
"""Columns with a row for each group, by their places in an Aggregate's output, and the number of groups."""


@dataclass(slots=True)
class GroupCase:
    """Rows that a way folds into groups. `hold`: charges the bytes of keys and states before they are allocated.

    `hop`: the buckets into which the groups of `node`, which are panes, are combined. None for other plans.
    """

    rows: SourceRows | FoldableRows
    node: Aggregate
    hold: Hold
    hop: Hop | None = None

    @property
    def buckets(self) -> Hop:
        """The buckets, of a plan with a HOP."""
        assert self.hop is not None
        return self.hop


def parts_of(
    rows: SourceRows | FoldableRows, wanted: list[Expr], coded: Sequence[AttributeRef] = ()
) -> Generator[Part, None, None]:
    """Compute expressions over all rows, part by part, in their order.

    Columns of `coded` come dictionary-encoded if their chunk keeps them so and has many matches.
    """
    if isinstance(rows, TableRows):
        try:
            for count in () if wanted else rows.counts(_MAX_ROWS):
                yield count, []
            for columns in rows.columns(wanted, _MAX_ROWS) if wanted else ():
                yield len(columns[0]), columns
        finally:
            rows.close()
        return
    if not isinstance(rows, SourceRows):
        try:
            for count in () if wanted else rows.counts(_MAX_ROWS):
                yield count, []
            for ids, parts in rows.keyed(wanted, _MAX_ROWS) if wanted else ():
                for columns in parts:
                    yield len(columns[0]) if columns else len(ids), columns
        finally:
            rows.close()
        return
    if not wanted:
        yield rows.count, []
        return
    alone = _TEXTS_ALONE if any(ref.type.kind is Kind.TEXT for ref in coded) else _ALONE
    for group in _groups(rows, alone):
        rows.reading.budget.check()
        known = _coded(group, coded, alone)
        rest = [expr for expr in wanted if expr not in known]
        start, parts = 0, rows.reading.computed(rest, group) if rest else iter([[]])
        for columns in parts:
            count = len(columns[0]) if columns else sum(len(offsets) for _, offsets in group)
            own = iter(columns)
            yield count, [known[e].slice(start, start + count) if e in known else next(own) for e in wanted]
            start += count


def _coded(group: Group, wanted: Sequence[AttributeRef], alone: int) -> dict[Expr, Coded]:
    """The columns of `wanted` that the only chunk of a group keeps dictionary-encoded. Empty for several chunks."""
    data, offsets = group[0]
    if len(group) > 1 or len(offsets) < alone or not isinstance(data, ChunkView):
        return {}
    found = {ref: coded_column(data, ref.index) for ref in wanted}
    known: dict[Expr, Coded] = {ref: column for ref, column in found.items() if column is not None}
    if int(offsets[-1]) - int(offsets[0]) + 1 == len(offsets):
        first = int(offsets[0])
        return {ref: column.slice(first, first + len(offsets)) for ref, column in known.items()}
    return {ref: column.take(offsets) for ref, column in known.items()}


def _groups(rows: SourceRows, alone: int) -> Iterator[Group]:
    """Yield the matches in their order, in groups. A chunk with at least `alone` matches makes a group of its own."""
    group: Group = []
    room = _MAX_ROWS
    for match in rows.matches:
        count = match.count
        if group and (count >= alone or count > room):
            yield group
            group, room = [], _MAX_ROWS
        if count:
            group.append((match.data, match.offsets))
            room -= count
        if count >= alone:
            yield group
            group, room = [], _MAX_ROWS
    if group:
        yield group
