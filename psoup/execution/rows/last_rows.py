"""The rows of a partitioned window: the last n tuples of each key, found from the newest chunk backwards.

    chunk            3   A B A        the newest: A and B take two rows each
                     2   B B A        B takes one row more, A is full
                     1   A A A        its only key is full: coded columns say so, and no row is read
                     0   …            older than all matches: not read at all

    matches of WHERE ─┐
    rows of keys     ─┴─> the matches that are in the window

Nothing is kept between invocations. The window counts all tuples, whatever WHERE says. So it is read only down to the
oldest match. A window with WHERE in its brackets counts matches only. So does a window whose WHERE reads keys only,
such as `[PARTITION BY sym ROWS 10] WHERE sym = 'A'`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psoup.aggregates.keys import Keys, coded_column
from psoup.config import GroupLimits, TextLimits
from psoup.data.chunk import ChunkView
from psoup.data.dictionary_column import Coded
from psoup.execution.rows.select_list import computed
from psoup.execution.select.clause_matches import Side
from psoup.execution.select.match_forms import ChunkMatches, KeptBits, Known
from psoup.expressions.tree import Expr, attributes_of, of_source
from psoup.kernels.fold.group_numbers import map_codes, mark_codes
from psoup.kernels.fold.last_of_group import keep_last
from psoup.plan.factors import Factor
from psoup.plan.inputs import RowsPerKey, Source
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.values.columns import Array, Column
from psoup.work.read_budget import GroupBytes, ReadBudget
from psoup.work.runner import Runner

_MOST_BYTES = 1 << 28
"""The bytes of keys that a read without a limit assumes, to derive the size of its pieces of texts."""
_PIECE_SHARE = 16
"""The texts of one piece take at most a sixteenth of the bytes of keys."""
_CODED_FROM = 64
"""The fewest rows of a chunk for which its columns are worth a dictionary."""
_COMBINED = 1 << 16
"""The most possible combinations of the values of several key columns for which codes are made, of 16 bits each."""
_LONG = 65_536
"""The most tuples of a window that take at most a millisecond."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a read of windows: on texts, on bytes, and on keys. `run`: the threads that read the disk."""

    texts: TextLimits
    budget: ReadBudget
    groups: GroupLimits
    run: Runner


def limits_of(snapshot: Snapshot, tenant: str, budget: ReadBudget) -> Limits:
    """The limits of a read of a tenant's query."""
    return Limits(snapshot.config.texts, budget, snapshot.groups_of(tenant), snapshot.run)


@dataclass(slots=True)
class WindowFigures:
    """The figures of a window for EXPLAIN. `keys`: the different keys that were met. `chunks`: the chunks looked at.

    `read`: the tuples whose keys were read. `skipped`: the chunks that were left out as all their keys were full.
    """

    keys: int = 0
    read: int = 0
    chunks: int = 0
    skipped: int = 0


def in_windows(
    sources: Mapping[int, Source],
    sides: Sequence[Side],
    matches: Sequence[Sequence[Known]],
    limits: Limits,
) -> list[Sequence[Known]]:
    """The matches of all sources of a query, cut to the partitioned windows of some of them.

    `sources`: the sources with such a window, by place. `sides`: for each source its stream, its clause, and the range
    of tuple IDs [low, high) up to NOW. Raises ResourceExhausted (GROUP_BUDGET) if the keys are too many or too large.
    """
    narrowed = list(matches)
    for place, source in sources.items():
        view, clause, low, high = sides[place]
        narrowed[place] = in_window(source, view, low, high, matches[place], limits, clause.factors)
    return narrowed


def in_window(
    source: Source,
    view: StreamView,
    low: int,
    high: int,
    matches: Sequence[Known],
    limits: Limits,
    factors: Sequence[Factor] = (),
    figures: WindowFigures | None = None,
) -> list[ChunkMatches]:
    """The matches of one source that are in its partitioned window. `figures`: gets the figures of the window.

    `factors`: the conditions, if `matches` has all tuples that satisfy them. If they read keys only, each key has all
    its tuples among the matches, or none. Then only matches are counted. O(tuples from the oldest match on), or
    O(matches). Raises as `in_windows`.
    """
    assert source.partition is not None
    figures = WindowFigures() if figures is None else figures
    if high - low > _LONG and len(matches):
        limits.budget.before_long()
    if source.partition.matching or _read_keys_only(factors, source.partition):
        return _last_matches(source.partition, matches, limits, figures)
    places = {entry.data.first_id: at for at, entry in enumerate(view.chunks)}
    waiting: dict[int, list[Known]] = {}
    for match in matches:
        waiting.setdefault(places[match.data.first_id], []).append(match)
    narrowed = list[ChunkMatches]()
    with closing(_LastOfKeys(source.partition, limits, figures)) as window:
        for at in range(len(view.chunks) - 1, -1, -1):
            if not waiting:
                break
            entry = view.chunks[at]
            start, stop = _rows(entry, low, high)
            if start < stop:
                flags = window.flags_of(entry, slice(start, stop))
                narrowed += [_among(match, flags, start) for match in reversed(waiting.pop(at, []))]
    return narrowed[::-1]


def _last_matches(
    partition: RowsPerKey, matches: Sequence[Known], limits: Limits, figures: WindowFigures
) -> list[ChunkMatches]:
    """The last matches of each key: a window that counts matches only. Without keys, the last matches of all."""
    narrowed, left = list[ChunkMatches](), partition.rows
    if not partition.keys:
        for match in reversed(matches):
            rows = match.offsets[max(match.count - left, 0) :]
            left -= len(rows)
            narrowed.append(_with_rows(match, rows))
        return narrowed[::-1]
    with closing(_LastOfKeys(partition, limits, figures)) as window:
        for match in reversed(matches):
            rows = match.offsets
            flags = window.flags_of(match.entry, rows) if len(rows) else None
            narrowed.append(_with_rows(match, rows[:0] if flags is None else rows[flags]))
    return narrowed[::-1]


def _read_keys_only(factors: Sequence[Factor], partition: RowsPerKey) -> bool:
    """Whether there are factors, and all of them read only keys of a window."""
    keys = {key.index for key in partition.keys}
    return bool(factors) and all(attributes_of(term.attribute) <= keys for each in factors for term in each.terms)


def _rows(entry: ChunkEntry, low: int, high: int) -> tuple[int, int]:
    """The rows [start, stop) of a chunk with IDs in [low, high). start >= stop if there are none."""
    data = entry.data
    if data.first_id >= high or data.end_id <= low:
        return 0, 0
    start = data.places.row_from(low) if low > data.first_id else 0
    return start, data.places.row_from(high) if high < data.end_id else len(data)


def _among(match: Known, flags: Array | None, start: int) -> ChunkMatches:
    """The matches that are in the window. `flags`: flags of the rows from `start` on, or None for no row."""
    rows = match.offsets
    if flags is None:
        return _with_rows(match, rows[:0])
    return _with_rows(match, np.flatnonzero(flags) + start if len(rows) == len(flags) else rows[flags[rows - start]])


def _with_rows(match: Known, rows: Array) -> ChunkMatches:
    """The matches with other rows. `rows`: int64, ascending offsets."""
    return ChunkMatches(match.entry, rows, match.errors, isinstance(match, KeptBits) or match.covered)


class _LastOfKeys:
    """The keys of a window that were met so far, and how many rows each still takes."""

    def __init__(self, partition: RowsPerKey, limits: Limits, figures: WindowFigures) -> None:
        self._limits = limits
        self._figures = figures
        self._room = GroupBytes(limits.budget)
        self._columns = partition.keys
        self._exprs: list[Expr] = [of_source(key, 0) for key in partition.keys]
        self._keys = Keys([key.type for key in partition.keys], limits.groups.keys, self._room.hold)
        self._rows = partition.rows
        self._left: Array = np.zeros(0, np.int32)
        self._texts = limits.texts.in_pieces(min(limits.budget.sort_bytes, _MOST_BYTES) // _PIECE_SHARE)

    def close(self) -> None:
        """Return all bytes to the budget."""
        self._room.give_back()

    def flags_of(self, entry: ChunkEntry, rows: slice | Array) -> Array | None:
        """Flags of the rows of a chunk that are in the window, bool. `rows`: a slice, or ascending offsets. None if no
        row is in it.

        The caller asks for chunks from the newest to the oldest.
        """
        figures, count = self._figures, rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        self._limits.budget.check()
        figures.chunks += 1
        coded = self._coded(entry) if count >= _CODED_FROM else None
        parts = None if coded is None else [_part(column, rows) for column in coded]
        combined = None if parts is None or len(parts) == 1 else _combined(parts)
        met = self._met(coded, combined)
        if met is not None and not self._left[met].any():
            figures.skipped += 1
            return None
        flags: Array = np.zeros(count, np.uint8)
        end = count
        whole = None if combined is None or met is None else combined.numbers(met)
        for numbers in self._numbers(entry, rows, parts) if whole is None else (whole,):
            keep_last(numbers, self._left, flags[end - len(numbers) : end])
            end -= len(numbers)
        figures.read += count
        figures.keys = self._keys.count
        return flags.view(np.bool_)

    def _coded(self, entry: ChunkEntry) -> list[Coded] | None:
        """The key columns of a chunk in dictionary encoding. None if one of them is not kept so."""
        data = entry.data
        if not isinstance(data, ChunkView) or any(column.index < 0 for column in self._columns):
            return None
        columns = [coded_column(data, column.index) for column in self._columns]
        coded = [column for column in columns if column is not None]
        return coded if len(coded) == len(columns) else None

    def _met(self, coded: list[Coded] | None, combined: _Combined | None) -> Array | None:
        """The numbers of the keys that some rows may have, int32. None if only the rows show them.

        For a single key column these are the keys of all rows of the chunk.
        """
        if combined is not None:
            return self._numbered(combined.keys).copy()
        return None if coded is None or len(coded) > 1 else self._numbered([coded[0].values])

    def _numbers(self, entry: ChunkEntry, rows: slice | Array, parts: list[Coded] | None) -> Iterator[Array]:
        """Yield the numbers of the keys of some rows, in pieces from the last row to the first.

        `parts`: the key columns of these rows in dictionary encoding, or None.
        """
        if parts is not None:
            yield self._numbered(parts)
            return
        limits = self._limits
        group = [(entry.data, np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)]
        pieces = [
            self._numbered(columns).copy()
            for columns in computed(self._exprs, group, None, self._texts, limits.budget, limits.run)
        ]
        yield from reversed(pieces)

    def _numbered(self, columns: Sequence[Column | Coded]) -> Array:
        """The numbers of the keys, int32. The next call overwrites them. Makes room for new keys."""
        numbers, count = self._keys.number(columns), self._keys.count
        if count > len(self._left):
            left: Array = np.full(max(count, 2 * len(self._left)), self._rows, np.int32)
            self._room.hold(left.nbytes - self._left.nbytes)
            left[: len(self._left)] = self._left
            self._left = left
        return numbers


class _Combined(NamedTuple):
    """The combinations of the values of several key columns in some rows.

    `codes`: uint16[n], for each row the code of its combination. `present`: int64[k], the codes that occur, ascending.
    `keys`: for each column its values in these k combinations. `possible`: the number of codes.
    """

    codes: Array
    present: Array
    keys: list[Coded]
    possible: int

    def numbers(self, of_present: Array) -> Array:
        """The key number of each row, int32[n]. `of_present`: the numbers of the combinations that occur."""
        of_code: Array = np.zeros(self.possible, np.int32)
        of_code[self.present] = of_present
        numbers: Array = np.empty(len(self.codes), np.int32)
        map_codes(self.codes, of_code, numbers)
        return numbers


def _combined(columns: Sequence[Coded]) -> _Combined | None:
    """The combinations of some key columns. None if there may be too many. O(rows + possible combinations)."""
    sizes = [len(column.values) for column in columns]
    possible = math.prod(sizes)
    if possible > _COMBINED:
        return None
    codes = columns[0].codes
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        codes = codes * np.uint16(size) + column.codes
    seen: Array = np.zeros(possible, np.uint8)
    mark_codes(codes, seen)
    present = np.flatnonzero(seen)
    each = zip(np.unravel_index(present, sizes), columns, strict=True)
    keys = [Coded(places.astype(np.uint16), column.values, False) for places, column in each]
    return _Combined(codes, present, keys, possible)


def _part(column: Coded, rows: slice | Array) -> Coded:
    """The values of a column in some rows."""
    return column.slice(rows.start, rows.stop) if isinstance(rows, slice) else column.take(rows)
