"""Patches of a table: rows that keep the values of the columns that their batch lacks.

    push         k: 7, price: 45, _patch: true       the batch lacks the columns title and category
    waiting      price 45    title -    category -   given: the positions of k and price
    released     price 45    title canoe    category boats      from the entry of key 7 before it, in stream order

A row takes a value from the nearest earlier entry of its key that has one of its own: from a whole row, a deletion, or
a patch that gives the column. The value is NULL if there is none, or if that entry is a deletion. So the values depend
on the stream order only, and a replay finds the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.arrivals import Numbers
from psoup.model import DELETED_AT, FIRST_AT, TABLE_COLUMNS
from psoup.values.columns import Array, Batch, Column, concat_columns, null_column

Given = tuple[int, ...]
"""The positions of the columns that a batch with patches gives."""
Located = Callable[[Array], Iterator[tuple[Chunk, Array, Array]]]
"""Finds entries by their IDs: chunks, each with the positions of its entries in the IDs, and their rows."""


class PatchRows(NamedTuple):
    """Released rows of batches with patches. `rows`: int64[k], their positions. `given`: the columns of the batches."""

    rows: Array
    given: Given


class WaitingPatches:
    """The columns that batches with patches give, until all rows of a batch are released. Found by arrival numbers."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        """The arrival number of the first row of each batch, ascending."""
        self._counts: list[int] = []
        self._left: list[int] = []
        """The number of waiting rows of each batch."""
        self._given: list[Given] = []
        self._rooms: list[int] = []
        """The bytes that are reserved for the texts that the patches of each batch keep."""
        self.room = 0
        """The reserved bytes of all batches."""
        self._freed = 0

    def __len__(self) -> int:
        """The number of batches."""
        return len(self._firsts)

    def reserve(self, room: int) -> None:
        """Note bytes that are reserved for waiting patches. The newest batch gives them back."""
        self.room += room
        if self._rooms:
            self._rooms[-1] += room
        else:
            self._freed += room

    def take_freed(self) -> int:
        """The reserved bytes of batches whose rows were released since the last call."""
        freed, self._freed = self._freed, 0
        self.room -= freed
        return freed

    def add(self, first: int, count: int, given: Given) -> None:
        """Note a batch of `count` rows, which have arrival numbers from `first` on. `reserve` follows."""
        self._firsts.append(first)
        self._counts.append(count)
        self._left.append(count)
        self._given.append(given)
        self._rooms.append(0)

    def release(self, numbers: Numbers) -> list[PatchRows]:
        """The rows of batches with patches among released rows. `numbers`: their arrival numbers, in stream order.

        O(rows log batches), and O(1) if no batch waits.
        """
        if not self._firsts:
            return []
        arrived: Array = np.asarray(numbers, np.int64)
        firsts, counts = np.array(self._firsts, np.int64), np.array(self._counts, np.int64)
        batches = np.searchsorted(firsts, arrived, "right") - 1
        rows = np.flatnonzero((batches >= 0) & (arrived < firsts[batches] + counts[batches]))
        if not len(rows):
            return []
        rows = rows[np.argsort(batches[rows], kind="stable")]
        batch_places, starts = np.unique(batches[rows], return_index=True)
        released: dict[Given, list[Array]] = {}
        for batch, part in zip(batch_places.tolist(), np.split(rows, starts[1:]), strict=True):
            self._left[batch] -= len(part)
            released.setdefault(self._given[batch], []).append(part)
        self._forget(batch_places.tolist())
        return [PatchRows(np.concatenate(parts), given) for given, parts in released.items()]

    def _forget(self, batches: Sequence[int]) -> None:
        """Forget the batches without a waiting row, among some batches. `batches`: their places, ascending."""
        for batch in reversed(batches):
            if not self._left[batch]:
                self._freed += self._rooms[batch]
                for listed in (self._firsts, self._counts, self._left, self._given, self._rooms):
                    del listed[batch]


def resolved(batch: Batch, first_id: int, before: Array, patches: Sequence[PatchRows], located: Located) -> Batch:
    """The released rows of a table, with the values that patches keep. The rows get the IDs from `first_id` on.

    `batch`: the column at FIRST_AT says which rows are patches. `before`: int64[n], the ID of the entry before each
    row, or -1. `located`: finds entries with IDs below `first_id`. O(rows x columns), and O(log n) steps for n patches
    of one key.
    """
    keeping = _keeping(batch, patches)
    sources: dict[bytes, tuple[Array, list[tuple[Chunk, Array]]]] = {}
    columns = list(batch.columns)
    for place, keeps in keeping.items():
        name = keeps.tobytes()
        if name not in sources:
            sources[name] = _places(_sources(keeps, first_id, before), first_id, located)
        order, earlier = sources[name]
        column = columns[place]
        parts = [chunk.columns[place].take(rows) for chunk, rows in earlier]
        columns[place] = concat_columns([column, null_column(column.type, 1), *parts]).take(order)
    return Batch(tuple(columns), batch.times)


def _keeping(batch: Batch, patches: Sequence[PatchRows]) -> dict[int, Array]:
    """For each column that some row keeps: whether a row keeps it, bool[n]."""
    flags = _true(batch.columns[FIRST_AT]) & ~_true(batch.columns[DELETED_AT])
    keeping: dict[int, Array] = {}
    for rows, given in patches:
        rows = rows[flags[rows]]
        if not len(rows):
            continue
        for place in sorted(set(range(len(TABLE_COLUMNS), len(batch.columns))) - set(given)):
            keeping.setdefault(place, np.zeros(len(batch), np.bool_))[rows] = True
    return keeping


def _sources(keeps: Array, first_id: int, before: Array) -> Array:
    """For each row, the ID of the entry whose value it takes, or -1: int64[n]. `keeps`: bool[n]."""
    sources: Array = np.where(keeps, before, np.arange(first_id, first_id + len(keeps)))
    here = np.flatnonzero(keeps & (before >= first_id))
    while len(here):  # each step doubles the number of patches of a key that a row has passed
        further = sources[sources[here] - first_id]
        here, further = here[further != sources[here]], further[further != sources[here]]
        sources[here] = further
        here = here[further >= first_id]
    return sources


def _places(sources: Array, first_id: int, located: Located) -> tuple[Array, list[tuple[Chunk, Array]]]:
    """The rows of a column that has the batch's rows, a NULL, and then rows of chunks: int64[n].

    Also returns the chunks, each with its rows.
    """
    order = sources - first_id
    order[sources < 0] = len(sources)
    earlier, parts = np.flatnonzero((sources >= 0) & (sources < first_id)), list[tuple[Chunk, Array]]()
    start = len(sources) + 1
    for chunk, at, rows in located(sources[earlier]):
        order[earlier[at]] = np.arange(start, start + len(rows))
        parts.append((chunk, rows))
        start += len(rows)
    return order, parts


def _true(column: Column) -> Array:
    values: Array = column.values if column.valid is None else column.values & column.valid
    return values
