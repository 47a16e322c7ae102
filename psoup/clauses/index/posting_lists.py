"""Posting lists: for each cell, a range of an attribute's values, the clauses that a value in it may satisfy.

    a = 5 AND b < 9             one cell of a; tested on b                  anchor: a = 5
    a IN (5, 7) AND b < 9       two cells of a; tested on b
    c >= 100 AND c < 140        two or three cells of c, each about as wide as half the interval; tested on c
    d > 0                       none: too many tuples would reach it; it is in `rest`

The *anchor* of a clause is its most selective factor. The estimated selectivity is the share of the attribute's codes
that pass. A clause may be in several cells, but a tuple reaches it once. `psoup.kernels.arrive.posting_lists` reads the
lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.clauses.index.clause_rows import ClauseRows, gather
from psoup.kernels.compile.lanes import LANES
from psoup.values.columns import Array

_WHOLE, _SOLE = 1, 2
"""Flags of a kind of entries; see `psoup.kernels.arrive.posting_lists`."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Limits for the choice of anchors."""

    points_share: int = 8
    """An IN list can be an anchor if at most one of so many codes passes it. A single value always can."""

    narrow_share: int = 64
    """An interval can be an anchor if at most one of so many codes passes it. See `narrow_rows`."""

    narrow_rows: int = 1_024
    """The least number of codes of an attribute whose intervals can be anchors."""

    least: int = 128
    """The least number of anchors' intervals of similar length. Each length costs a look-up for every tuple, which does
    not pay for few clauses."""

    intervals: int = 64
    """The most intervals of an anchor. Each interval adds entries to the lists."""

    tests: int = 4
    """The most other factors that the list itself has. The remaining factors are tested if these hold."""


STANDARD = Layout()


@dataclass(frozen=True, slots=True)
class PostingLists:
    """Grids of cells. A cell has groups of entries, and a group has entries of one kind.

    The kernels `reach` and `match_lists` of `psoup.kernels.arrive.posting_lists` explain the arrays.

    `grid_attr`, `grid_shift`: int32[K]. `grid_first`: int64[K]. `cell_ptr`: int32[cells + 1]. `group_ptr`: int32[G +
    1]. `group_kind`: int32[G]. `group_test`: int64[G + 1]. `kind_ptr`: int32[X + 1]. `kind_attr`: int32[…].
    `kind_flags`: uint8[X]. `entries`: int32[E], positions of clauses. `tests`: uint16 or int32[…], codes. LANES unused
    elements follow the entries and the tests, as kernels read so many at a time.
    """

    grid_attr: Array
    grid_shift: Array
    grid_first: Array
    cell_ptr: Array
    group_ptr: Array
    group_kind: Array
    group_test: Array
    kind_ptr: Array
    kind_attr: Array
    kind_flags: Array
    entries: Array
    tests: Array

    def __len__(self) -> int:
        """The number of entries."""
        return int(self.group_ptr[-1])

    @property
    def alone(self) -> bool:
        """Whether no clause is in more than one cell. Then its matches come in order, for any order of the cells."""
        return bool((self.kind_flags & _SOLE).all())

    @property
    def listed_bytes(self) -> int:
        """Bytes of the entries and their tests."""
        return self.entries.nbytes + self.tests.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        cells = (self.grid_attr, self.grid_shift, self.grid_first, self.cell_ptr)
        groups = (self.group_ptr, self.group_kind, self.group_test, self.kind_ptr, self.kind_attr, self.kind_flags)
        return sum(array.nbytes for array in (*cells, *groups)) + self.listed_bytes


@dataclass(frozen=True, slots=True)
class _AnchorEntries:
    """Entries to be listed: pairs of an anchor's interval and a cell, with the clause.

    `exact`: whether the cell is one code wide.
    """

    clause: Array
    interval: Array
    cell: Array
    exact: Array


def list_clauses(rows: ClauseRows, attr: Array, base: Array, layout: Layout) -> tuple[PostingLists, Array]:
    """Make the lists of some clauses. Returns them and the positions of clauses in no list (int32, ascending).

    `rows`: the clauses, with rows of the index. `attr`: int32, the attribute's position for each interval. `base`:
    int64[A + 1]. O(n log n).
    """
    anchor = _anchors(rows, attr, np.diff(base), layout)
    grids, listed = _cells(rows, attr, base, anchor)
    rest = np.flatnonzero(anchor < 0).astype(np.int32)
    return _lay_out(rows, attr, base, anchor, grids, listed, layout), rest


def unlisted(clauses: int) -> tuple[PostingLists, Array]:
    """Make empty lists. Returns them and the positions of all clauses, as these are in no list. O(clauses)."""
    none, start = np.zeros(0, np.int32), np.zeros(1, np.int32)
    kinds = (none, np.zeros(1, np.int64), start, none, np.zeros(0, np.uint8))
    first = np.zeros(0, np.int64)
    lists = PostingLists(none, none, first, start, start, *kinds, none, np.zeros(0, np.uint16))
    return lists, np.arange(clauses, dtype=np.int32)


def _anchors(rows: ClauseRows, attr: Array, sizes: Array, layout: Layout) -> Array:
    """The anchor of each clause, a factor or -1: int64[S]. A clause with a factor that is never true has no anchor."""
    count = np.diff(rows.factor_ptr)
    clause = np.repeat(np.arange(len(rows.slots)), np.diff(rows.clause_ptr))
    anchor = np.full(len(rows.slots), -1, np.int64)
    factors = np.flatnonzero((count > 0) & (count <= layout.intervals))
    first, last = rows.factor_ptr[factors], rows.factor_ptr[factors + 1] - 1
    factors = factors[attr[first] == attr[last]]
    first, count = rows.factor_ptr[factors], count[factors]
    spans = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.high.astype(np.int64) - rows.low)])
    covered = spans[rows.factor_ptr[factors + 1]] - spans[first]
    codes = sizes[attr[first]]
    wide = (layout.narrow_rows <= codes) & (covered * layout.narrow_share <= codes)
    few = (covered == 1) | ((covered == count) & (covered * layout.points_share <= codes)) | wide
    factors, share = factors[few], covered[few] / codes[few]
    best = np.lexsort((share, clause[factors]))
    chosen, place = np.unique(clause[factors[best]], return_index=True)
    anchor[chosen] = factors[best[place]]
    anchor[clause[np.diff(rows.factor_ptr) == 0]] = -1
    _drop_rare_lengths(rows, attr, anchor, layout)
    return anchor


def _intervals(rows: ClauseRows, anchor: Array) -> tuple[Array, Array]:
    """The intervals of all anchors, and the clause of each: int64[i] each."""
    clauses = np.flatnonzero(anchor >= 0)
    pointers, intervals = gather(rows.factor_ptr, anchor[clauses])
    return intervals, np.repeat(clauses, np.diff(pointers))


def _shifts(rows: ClauseRows, intervals: Array) -> Array:
    """The binary logarithm of the cell width for each interval. An interval then covers two or three cells, or one or
    two cells that are one code wide."""
    return np.maximum(np.ceil(np.log2(rows.high[intervals] - rows.low[intervals])).astype(np.int64) - 1, 0)


def _drop_rare_lengths(rows: ClauseRows, attr: Array, anchor: Array, layout: Layout) -> None:
    """Set an anchor to -1 if its cell width would need a grid for few intervals."""
    intervals, clause = _intervals(rows, anchor)
    shift = _shifts(rows, intervals)
    _, grid, uses = np.unique(attr[intervals].astype(np.int64) << 6 | shift, return_inverse=True, return_counts=True)
    anchor[clause[uses[grid] < layout.least]] = -1


def _cells(
    rows: ClauseRows, attr: Array, base: Array, anchor: Array
) -> tuple[tuple[Array, Array, Array, int], _AnchorEntries]:
    """Make the grids (attributes, shifts, first cells, and the number of all cells). Also returns the entries."""
    intervals, clause = _intervals(rows, anchor)
    shift = _shifts(rows, intervals)
    names, grid = np.unique(attr[intervals].astype(np.int64) << 6 | shift, return_inverse=True)
    grid_attr, grid_shift = names >> 6, names & 63
    ends = np.cumsum(((np.diff(base)[grid_attr] - 1) >> grid_shift) + 1)
    grid_first = np.concatenate([np.zeros(1, np.int64), ends])
    low = (rows.low[intervals] - base[attr[intervals]]) >> shift
    high = (rows.high[intervals] - 1 - base[attr[intervals]]) >> shift
    times = high - low + 1
    starts = np.cumsum(times) - times
    which = np.repeat(np.arange(len(intervals)), times)
    cell = (grid_first[grid] + low - starts)[which] + np.arange(len(which))
    listed = _AnchorEntries(clause[which], intervals[which], cell, shift[which] == 0)
    return (grid_attr.astype(np.int32), grid_shift.astype(np.int32), grid_first[:-1], int(grid_first[-1])), listed


def _tested(rows: ClauseRows, anchor: Array, limit: int) -> tuple[Array, Array]:
    """The other intervals that the lists test for each clause: int32[S, limit], -1 for none.

    Also returns flags of the clauses whose factors are all tested in the lists.
    """
    owner = np.repeat(np.arange(len(rows.slots)), np.diff(rows.clause_ptr))
    other = np.diff(rows.factor_ptr) == 1
    other[anchor[anchor >= 0]] = False
    factors = np.flatnonzero(other)
    clause = owner[factors]
    place = np.arange(len(factors)) - np.searchsorted(clause, clause)
    fits = place < limit
    tested = np.full((len(rows.slots), limit), -1, np.int32)
    tested[clause[fits], place[fits]] = rows.factor_ptr[factors[fits]]
    return tested, (tested >= 0).sum(1) + 1 == np.diff(rows.clause_ptr)


def _lay_out(
    rows: ClauseRows, attr: Array, base: Array, anchor: Array, grids: tuple[Array, Array, Array, int], listed:
    _AnchorEntries, layout: Layout,
) -> PostingLists:  # fmt: skip
    """Sort the entries by cell and kind, and store the tests of each group column by column."""
    bits = len(base).bit_length()
    test_limit = max(0, min(layout.tests, 56 // bits - 1))
    tested, whole = _tested(rows, anchor, test_limit)
    tests = np.concatenate([tested[listed.clause], np.where(listed.exact, -1, listed.interval)[:, None]], axis=1)
    sole = listed.exact & (np.bincount(listed.clause, minlength=len(rows.slots)) == 1)[listed.clause]
    name = whole[listed.clause] * _WHOLE + sole * np.int64(_SOLE)
    for k in range(test_limit + 1):
        name |= np.where(tests[:, k] >= 0, attr[tests[:, k]].astype(np.int64) + 1, 0) << (2 + bits * k)
    names, kind = np.unique(name, return_inverse=True)
    key = listed.cell * max(len(names), 1) + kind
    order = np.argsort(key, kind="stable")
    key, kind, tests = key[order], kind[order], tests[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    group_ptr = np.append(starts, len(key))
    fields = (names[:, None] >> (2 + bits * np.arange(test_limit + 1))) & ((1 << bits) - 1)
    group_kind, sizes = kind[starts], np.diff(group_ptr)
    group_test = np.concatenate([np.zeros(1, np.int64), np.cumsum(2 * sizes * (fields > 0).sum(1)[group_kind])])
    grid_attr, grid_shift, grid_first, cells = grids
    return PostingLists(
        grid_attr,
        grid_shift,
        grid_first,
        np.searchsorted(listed.cell[order][starts], np.arange(cells + 1)).astype(np.int32),
        group_ptr.astype(np.int32),
        group_kind.astype(np.int32),
        group_test,
        np.concatenate([np.zeros(1, np.int64), np.cumsum((fields > 0).sum(1))]).astype(np.int32),
        (fields[fields > 0] - 1).astype(np.int32),
        (names & (_WHOLE | _SOLE)).astype(np.uint8),
        _entries(listed.clause, order),
        _tests(rows, attr, base, tests, group_ptr, group_test),
    )


def _entries(clause: Array, order: Array) -> Array:
    """The clauses of the entries in the given order, followed by `LANES` unused elements."""
    entries = np.zeros(len(order) + LANES, np.int32)
    entries[: len(order)] = clause[order]
    return entries


def _tests(rows: ClauseRows, attr: Array, base: Array, tested: Array, group_ptr: Array, group_test: Array) -> Array:
    """The ends of the intervals `tested` (int[E, k], -1 for none), test by test within each group."""
    narrow = bool((np.diff(base) <= np.iinfo(np.uint16).max).all())
    tests = np.zeros(int(group_test[-1]) + LANES, np.uint16 if narrow else np.int32)
    sizes = np.diff(group_ptr)
    group = np.repeat(np.arange(len(sizes)), sizes)
    place = group_test[group] + np.arange(len(group)) - group_ptr[group]
    for k in range(tested.shape[1]):
        mine = np.flatnonzero(tested[:, k] >= 0)
        interval = tested[mine, k]
        origin = base[attr[interval]]
        at = place[mine]
        tests[at] = rows.low[interval] - origin
        tests[at + sizes[group[mine]]] = rows.high[interval] - origin
        place[mine] += 2 * sizes[group[mine]]
    return tests
