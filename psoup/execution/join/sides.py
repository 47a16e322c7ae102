"""A side of a join: the matches of one source, numbered by position across its chunks.

    position   0 1 2 | 3 4 | 5 6 7 8            chunk by chunk, in stream order
               chunk 4 | 5   | 6 (on disk)

    columns(exprs)          over all rows, for keys                   read once, in groups of chunks
    take(exprs, positions)  over some rows, in any order, repeated    from whole columns in memory, if they are small,
                                                                      else chunk by chunk, each row once

The side keeps columns that it read from disk, if the budget has room. Else each piece of an answer would open the same
files again. A side lives as long as one reading of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import accumulate

import numpy as np

from psoup.budgets import JOIN_BYTES
from psoup.config import TextLimits
from psoup.data.versions import begins_of, ends_of
from psoup.errors import ResourceExhausted
from psoup.execution.join.join_batch import SideMemory, side_memory
from psoup.execution.join.located_side import Located, all_in_memory, count_of
from psoup.execution.rows.select_list import Group, computed, gathered, shown
from psoup.execution.select.match_forms import Matches
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import ID_INDEX, AttributeRef, Expr, columns_of
from psoup.joins.hash_pairs import SideKeys
from psoup.kernels.join.pair_columns import gather_keys
from psoup.kernels.join.pair_filter import gather_texts
from psoup.kernels.rows.batch_body import NUMBER, TEXT, WIDE
from psoup.model import Kind, TableSpec
from psoup.values.columns import Array, Column, concat_columns, empty_column, scratch_array
from psoup.work.read_budget import NO_LIMIT, ReadBudget
from psoup.work.runner import Runner, serial

_WHOLE_FROM = 4_096
"""The most rows of a side in memory for which `take` always gathers the whole column."""
_WHOLE_SHARE = 64
"""For larger sides, `take` gathers the whole column if it reads at least one row in 64."""
_STRAIGHT = frozenset({Kind.BIGINT, Kind.TIMESTAMP})
"""Types of columns that `gather_keys` reads without a conversion."""
_GROUP_ROWS = 65_536
"""The most rows over which expressions are computed at once, unless one chunk has more."""


class MatchedSide:
    """The matches of one source, by position. `rows`: their number. `close` returns the bytes that the side holds."""

    def __init__(
        self,
        matches: Sequence[Matches],
        texts: TextLimits,
        budget: ReadBudget,
        most: int = NO_LIMIT,
        run: Runner = serial,
    ) -> None:
        """`most`: the most bytes of the result of `columns`. `run`: the threads that may read the disk."""
        self._matches = matches
        self.rows = count_of(matches)
        self.in_memory = all_in_memory(matches)
        self._memory: SideMemory | None = None
        self._texts = texts
        self._budget = budget
        self._most = most
        self._run = run
        self._whole: dict[int, Column | None] = {}
        """Whole columns by place in the schema. None: too large to keep."""
        self._held = 0

    @cached_property
    def _group(self) -> Group:
        """The chunks that have matches, and the offsets of these."""
        return [(match.data, match.offsets) for match in self._matches if match.count]

    @property
    def memory(self) -> SideMemory:
        """All rows in the form of kernels. There must be a row, and all chunks must be in memory. O(rows), once."""
        if self._memory is None:
            found = self._matches
            if isinstance(found, Located):
                self._memory = SideMemory(found.chunks, found.rows, found.stops)
            else:
                self._memory = side_memory(self._group)
        return self._memory

    def keys(self, column: int, kind: int) -> SideKeys:
        """The keys of a column, given by its place in the schema. Requires rows in memory, as `memory` does.

        `kind`: a kind of the kernel `gather_keys`, or TEXT.
        """
        memory = self.memory
        if kind == TEXT:
            return self._texts_of(column, memory)
        keys, kept = scratch_array(self.rows, np.int64), scratch_array(self.rows, np.int32)
        ask = (memory.sources, memory.stride, memory.rows, memory.stops)
        count, least, greatest = gather_keys(kind, column, *ask, keys, kept)
        if count == self.rows and kind in (WIDE, NUMBER):
            memory.known[column] = keys
        return SideKeys(keys, None if count == self.rows else kept[:count], least, greatest)

    def _texts_of(self, column: int, memory: SideMemory) -> SideKeys:
        """The keys of a TEXT column: hashes, and addresses of the texts in the chunks. The matches keep these alive."""
        keys, places = scratch_array(self.rows, np.int64), scratch_array(self.rows, np.int64)
        sizes, kept = scratch_array(self.rows, np.int32), scratch_array(self.rows, np.int32)
        ask = (memory.sources, memory.stride, memory.rows, memory.stops)
        count = gather_texts(column, *ask, keys, places, sizes, kept)
        return SideKeys(keys, None if count == self.rows else kept[:count], -(2**63), 2**63 - 1, (places, sizes))

    def columns(self, exprs: Sequence[Expr]) -> list[Column]:
        """Compute expressions over all rows. O(rows). Raises ResourceExhausted if the columns take too many bytes."""
        if not self.rows:
            return [empty_column(expr.type) for expr in exprs]
        straight = self._straight(exprs)
        if straight is not None:
            return straight
        wanted, pieces, size = list(exprs), list[list[Column]](), 0
        for group in self._groups():
            self._budget.check()
            for piece in computed(wanted, group, None, self._texts, self._budget, self._run):
                size += sum(column.nbytes for column in piece)
                if size > self._most:
                    raise _too_large(size, self._most)
                pieces.append(piece)
        columns = [concat_columns(parts) for parts in zip(*pieces, strict=True)]
        read = {e.index: column for e, column in zip(wanted, columns, strict=True) if isinstance(e, AttributeRef)}
        if self.rows <= _WHOLE_FROM or (not self.in_memory and self._may_hold(read)):
            self._whole |= read
        return columns

    def _straight(self, exprs: Sequence[Expr]) -> list[Column] | None:
        """Gather the columns straight from chunks in memory. None unless all are BIGINT or TIMESTAMP without NULL."""
        if not self.in_memory or 8 * self.rows * len(exprs) > self._most:
            return None
        columns = [expr for expr in exprs if isinstance(expr, AttributeRef) and expr.type.kind in _STRAIGHT]
        if len(columns) < len(exprs):
            return None
        self._budget.check()
        keys = [self.keys(column.index, NUMBER if column.index == ID_INDEX else WIDE) for column in columns]
        if any(own.rows is not None for own in keys):
            return None
        read = [Column(column.type, own.keys) for column, own in zip(columns, keys, strict=True)]
        if self.rows <= _WHOLE_FROM:
            self._whole |= {column.index: own for column, own in zip(columns, read, strict=True)}
        return read

    def versions(self, table: TableSpec) -> tuple[Array, Array]:
        """The times from which the versions of all rows hold, and at which they end: int64[rows] each. O(rows).

        The side must be of a table, as `psoup.data.versions` says.
        """
        begins = [begins_of(data, table, offsets) for data, offsets in self._group]
        ends = [ends_of(data, offsets) for data, offsets in self._group]
        if not begins:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(begins), np.concatenate(ends)

    def take(self, exprs: Sequence[Expr], positions: Array) -> list[Column]:
        """Compute expressions over the rows at `positions` (integers, any order, also repeated).

        Raises TooMuchText if the texts of several rows exceed the limit. The caller then takes fewer rows.
        """
        columns = self.gather([column for expr in exprs for column in columns_of(expr)], positions)
        return shown(list(exprs), columns, len(positions), None, self._texts, self._budget)

    def gather(self, refs: Iterable[AttributeRef], positions: Array) -> dict[int, Column]:
        """Gather columns, by place in the schema, over the rows at `positions`. Raises TooMuchText as `take`."""
        types = {ref.index: ref.type for ref in refs}
        if not len(positions):
            return {index: empty_column(data_type) for index, data_type in types.items()}
        self._keep(types.keys() - self._whole.keys(), len(positions))
        columns = {index: column for index in types if (column := self._whole.get(index)) is not None}
        self._refuse_texts(columns.values(), positions)
        rows = scratch_array(len(positions) if columns else 0, np.int64)
        rows[:] = positions if columns else 0  # int64, or NumPy would convert the positions again for each column
        taken = {index: column.take(rows) for index, column in columns.items()}
        return taken | self._by_chunks(frozenset(types.keys() - columns.keys()), positions)

    def close(self) -> None:
        """Drop the whole columns, and return their bytes to the budget."""
        self._whole.clear()
        self._budget.give_back_joined(self._held)
        self._held = 0

    def _keep(self, indices: Set[int], wanted: int) -> None:
        """Gather whole columns and keep them, if the side is small or `wanted` rows are a large share of it."""
        if not indices or self.rows > max(_WHOLE_FROM if self.in_memory else 0, _WHOLE_SHARE * wanted):
            return
        try:
            columns = gathered(frozenset(indices), self._group, self._texts, self._run)[0]
        except TooMuchText:
            columns = {}
        held = bool(columns) and self._may_hold(columns)
        self._whole |= columns if held else dict.fromkeys(indices)

    def _may_hold(self, columns: Mapping[int, Column]) -> bool:
        """Charge whole columns to the budget. Returns False if it has no room for them."""
        size = sum(column.nbytes for column in columns.values())
        try:
            self._budget.hold_joined(size)
        except ResourceExhausted:
            return False
        self._held += size
        return True

    def _by_chunks(self, indices: frozenset[int], positions: Array) -> dict[int, Column]:
        """Gather columns at `positions` chunk by chunk. Each row is read once, however often it is repeated."""
        if not indices:
            return {}
        rows, back = np.unique(positions, return_inverse=True)
        columns, _ = gathered(indices, self._at(rows), self._texts, self._run)
        self._refuse_texts(columns.values(), back)
        return {index: column.take(back) for index, column in columns.items()}

    def _at(self, rows: Array) -> Group:
        """The tuples at ascending positions, as chunks and offsets."""
        first = list(accumulate([len(offsets) for _, offsets in self._group[:-1]], initial=0))
        place = np.searchsorted(np.array(first, np.int64), rows, "right") - 1
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        group: Group = []
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            at = int(place[start])
            data, offsets = self._group[at]
            group.append((data, offsets[rows[start:stop] - first[at]]))
        return group

    def _groups(self) -> list[Group]:
        """All rows in groups of chunks. A group has at most `_GROUP_ROWS` rows, or a single chunk."""
        groups: list[Group] = [[]]
        room = _GROUP_ROWS
        for data, offsets in self._group:
            if len(offsets) > room and groups[-1]:
                groups.append([])
                room = _GROUP_ROWS
            groups[-1].append((data, offsets))
            room -= len(offsets)
        return groups

    def _refuse_texts(self, columns: Iterable[Column], positions: Array) -> None:
        """Raise TooMuchText if there are several positions and their texts exceed the limit."""
        size = 0
        for column in columns:
            if column.type.kind is Kind.TEXT:
                size += int((column.values[1:][positions] - column.values[:-1][positions]).sum())
        if len(positions) > 1 and size > self._texts.of(len(positions)):
            raise TooMuchText(2)


def _too_large(size: int, most: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"the keys of one stream of this join take {size:,} bytes and more, and one invocation may hold {most:,}"
        " (join_mib); narrow the windows or the WHERE clause of a stream",
        reason="JOIN_BUDGET",
        **JOIN_BYTES.over(size, most),
    )
