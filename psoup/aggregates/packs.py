"""Fold packs: the states of many clauses in a span of closed chunks, as columns, kept for the next invocation.

    ids      5   7   9  12     SQC IDs, ascending: exactly these clauses are folded
    at           1       3     places among `ids` of the clauses with a match; None: every clause has a state
    states      16      40     columns, in the narrowest integers that hold them

The spans are those of `psoup.aggregates.folds`: a chunk, or 16 of them, 256, … A span may have several packs, made at
different times for different clauses. A clause in none of them is not folded, which is not the same as "no match".
Packs never change, and every pack may be dropped at any time. Spans are combined in the order of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from psoup.aggregates.folds import LEAST_WORK
from psoup.aggregates.growth import bytes_taken
from psoup.aggregates.kept import KeptBytes
from psoup.aggregates.measures import Name, counts_rows, state_of, states_for
from psoup.aggregates.recipes import Fold, Recipe
from psoup.aggregates.refusals import FoldRefusals
from psoup.aggregates.spans import Span
from psoup.aggregates.state import Folding, State, size_of
from psoup.aggregates.sums import DoubleSum
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column

_ONLY: Array = np.zeros(1, np.int64)
_NO_PLACES: Array = np.zeros(0, np.int64)

_NARROW = (np.int8, np.int16, np.int32)
_PACK_BYTES = 1_000
"""Approximate bytes of the objects of a pack, without its arrays."""
_SMALL = 1 << 16
"""Greatest bytes of a narrower span's pack that stays when a wider span gets the same states."""
_ROSTERS = 64
"""Arrays of IDs that new packs may share."""
_INNER = 4
"""Windows whose inner chunks have a pack."""
_COUNTED_ANEW = 256
"""Changes after which bytes are counted again."""

MOST_PACKS = 32
"""The most packs of a span; more are merged. A call for a million queries goes in eight pieces, with a pack each."""


@dataclass(frozen=True, slots=True, eq=False)
class FoldPack:
    """The states of clauses; see the module.

    `matched`: the tuples of each clause that has a state. `errors`: int64[k], errors of WHERE and of arguments for each
    clause; None: there are none.
    """

    ids: Array
    at: Array | None
    matched: Array
    errors: Array | None
    states: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        """Bytes without `ids`, which many packs share."""
        arrays = [self.at, self.matched, self.errors]
        size = sum(array.nbytes for array in arrays if array is not None)
        return _PACK_BYTES + size + sum(map(size_of, self.states))

    def lines(self, rows: Array | None, places: Array) -> tuple[Array | None, Array]:
        """The lines of some clauses' states (None: all lines), and the clauses' places. Clauses without a match have no
        line.

        `rows`: int64, the clauses' places among `ids`, ascending; `places`: int64, their places in the result. O(rows).
        """
        if self.at is None:
            return rows, places
        if rows is None:
            return None, places[self.at]
        if not len(self.at):
            return rows[:0], places[:0]
        line = np.minimum(np.searchsorted(self.at, rows), len(self.at) - 1)
        some = np.flatnonzero(self.at[line] == rows)
        return line[some], places[some]

    def bytes_of(self, which: int, lines: Array | None) -> int:
        """The most bytes that `state` allocates. O(lines)."""
        return bytes_taken(self.states[which], lines)

    def state(self, which: int, folding: Folding, lines: Array | None) -> State:
        """A state for some lines, or for all, in the form that `combine` takes. O(lines)."""
        return tuple([_widened(part) for part in taken(folding, self.states[which], lines)])


def pack_of(ids: Array, at: Array | None, matched: Array, errors: Array | None, states: Sequence[State]) -> FoldPack:
    """Pack states of clauses `ids`: of those at some places, or of all (None). O(clauses)."""
    narrow_states = tuple([tuple([_narrowed(part) for part in state]) for state in states])
    error_counts = None if errors is None or not errors.any() else errors
    return FoldPack(ids, None if at is None else at.astype(np.int32), _narrow(matched), error_counts, narrow_states)


def taken(folding: Folding, state: State, groups: Array | None) -> State:
    """The state of some of its groups, int64; None: of all."""
    if groups is None:
        return state
    if isinstance(folding, DoubleSum):
        counts, sums, scale, odd = state
        return counts.take(groups), _rows(sums, groups), scale, _rows(odd, groups) if len(odd) else odd
    return tuple([_rows(part, groups) for part in state])


def _rows(part: Array | Column, groups: Array) -> Array | Column:
    return part.take(groups, 0) if isinstance(part, np.ndarray) else part.take(groups)


def _narrow(array: Array) -> Array:
    """The integers in the narrowest type that holds them all."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for kind in _NARROW:
        info = np.iinfo(kind)
        if info.min <= low and high <= info.max:
            return array.astype(kind)
    return array


def _narrowed(part: Array | Column) -> Array | Column:
    """A part with narrower integers; of two words that hold a sign-extended one, one word."""
    if not isinstance(part, np.ndarray) or part.dtype != np.int64:
        return part
    if part.ndim == 2 and part.shape[1] == 2 and bool((part[:, 0] >> 63 == part[:, 1]).all()):
        return _narrow(part[:, :1])
    return _narrow(part)


def _widened(part: Array | Column) -> Array | Column:
    """The inverse of `_narrowed`."""
    if not isinstance(part, np.ndarray) or part.dtype.kind != "i":
        return part
    if part.ndim == 2 and part.shape[1] == 1:
        words = np.empty((len(part), 2), np.int64)
        words[:, 0] = part[:, 0]
        np.right_shift(words[:, 0], 63, out=words[:, 1])
        return words
    return part.astype(np.int64, copy=False)


def fold_in(packs: Packs, span: Span, sqc_id: int, recipe: Recipe) -> Fold | None:
    """The fold of one clause in a span; None if no pack has the clause, or values failed there. O(log clauses)."""
    for pack in packs.spans.get(span, ()):
        row = int(pack.ids.searchsorted(sqc_id))
        if row == len(pack.ids) or pack.ids[row] != sqc_id:
            continue
        if pack.errors is not None and pack.errors[row]:
            return None
        lines, _ = pack.lines(np.array([row]), _ONLY)
        if lines is None or not len(lines):
            return Fold(0, 0, 0, tuple([folding.empty(1) for folding in recipe.foldings]))
        matched, names = int(pack.matched[lines[0]]), [state_of(measure) for measure in packs.measures]
        states = list[State]()
        for folding, measure in zip(recipe.foldings, recipe.firsts, strict=True):
            counted = counts_rows(measure)
            which = 0 if counted else names.index(state_of(measure))
            states.append((np.array([matched]),) if counted else pack.state(which, folding, lines))
        return Fold(matched, 0, 0, tuple(states))
    return None


class PackUse(NamedTuple):
    """The clauses of one pack that a question needs: their rows in the pack, int64 (None: all), and in the question."""

    pack: int
    rows: Array | None
    places: Array


class Uses(NamedTuple):
    """The packs of a span to use, each clause once, and the places of clauses in no pack."""

    uses: list[PackUse]
    lacking: Array


def uses_of(ids: Array, packs: Sequence[FoldPack]) -> Uses:
    """The packs that have some clauses, and where. Two packs may have the same clause, if two readers made them at
    once.
    """
    uses, lacking = list[PackUse](), np.arange(len(ids))
    for at, pack in enumerate(packs):
        pack_ids, wanted = pack.ids, ids if len(lacking) == len(ids) else ids[lacking]
        if not len(wanted) or pack_ids[-1] < wanted[0] or wanted[-1] < pack_ids[0]:
            continue
        if len(pack_ids) == len(wanted) and np.array_equal(pack_ids, wanted):
            uses.append(PackUse(at, None, lacking))
            lacking = _NO_PLACES
            continue
        rows = np.minimum(np.searchsorted(pack_ids, wanted), len(pack_ids) - 1)
        have = pack_ids[rows] == wanted
        if have.any():
            rows = rows[have]
            uses.append(PackUse(at, None if len(rows) == len(pack_ids) else rows, lacking[have]))
            lacking = lacking[~have]
    return Uses(uses, lacking)


@dataclass(slots=True, eq=False)
class Packs:
    """The packs of one stream for some states. Any thread: spans come and go in single steps."""

    measures: tuple[Measure, ...]
    """The measures, each for the state at its place."""
    tenant: str = ""
    spans: dict[Span, tuple[FoldPack, ...]] = field(default_factory=dict)
    inner: dict[tuple[int, int], tuple[FoldPack, ...]] = field(default_factory=dict)
    """The packs of the inner chunks [first, stop) of windows that were requested twice lately."""
    seen: list[tuple[int, int]] = field(default_factory=list)
    """The chunks [first, stop) of the latest windows."""
    rosters: list[Array] = field(default_factory=list)
    """The latest arrays of IDs, which packs of the same clauses share."""
    fresh: set[Span] = field(default_factory=set)
    """Spans whose packs have changed since they were written to disk."""
    ahead: int = 0
    """The number of the first chunk that is not folded ahead; new after packs were dropped."""
    looked: set[Span] = field(default_factory=set)
    """Spans that were looked up on disk since their packs last changed."""
    nbytes: int = 0
    changes: int = 0
    used: bool = True
    oldest: int | None = None

    def shared(self, ids: Array) -> Array:
        """An equal array of IDs from an earlier pack, or the given one. O(ids)."""
        for other in self.rosters:
            if other is ids or (len(other) == len(ids) and other[-1] == ids[-1] and np.array_equal(other, ids)):
                return other
        self.rosters = [ids, *self.rosters[: _ROSTERS - 1]]
        self.nbytes += ids.nbytes
        return ids

    def put(self, span: Span, pack: FoldPack, fan: int) -> None:
        """Keep a pack. Large packs of its chunks with the same clauses are dropped. O(fan)."""
        self.spans[span] = (*self.spans.get(span, ()), pack)
        self.fresh.add(span)
        self.nbytes += pack.nbytes
        level, number = span
        for child in range(number * fan, (number + 1) * fan) if level else ():
            packs = self.spans.get((level - 1, child), ())
            left = tuple([part for part in packs if part.ids is not pack.ids or part.nbytes <= _SMALL])
            if len(left) < len(packs):
                self.spans[level - 1, child] = left
                self.fresh.discard((level - 1, child))
                self.looked.discard((level - 1, child))
                self.nbytes -= sum(part.nbytes for part in packs) - sum(part.nbytes for part in left)
        self._changed()

    def put_inner(self, chunks: tuple[int, int], pack: FoldPack) -> None:
        """Keep the pack of a window's inner chunks, and those of the few latest windows."""
        for old in [other for other in self.inner if other != chunks][: 1 - _INNER]:
            self.nbytes -= sum(inner_pack.nbytes for inner_pack in self.inner.pop(old, ()))
        self.inner[chunks] = (*self.inner.get(chunks, ()), pack)[-MOST_PACKS:]
        self.nbytes += pack.nbytes
        self._changed()

    def met(self, chunks: tuple[int, int]) -> bool:
        """Whether one of the latest windows had the same inner chunks; records this window."""
        seen = self.seen
        if chunks in seen:
            return True
        self.seen = [chunks, *seen[: 2 * _INNER]]
        return False

    def forget(self, oldest: int, fan: int) -> None:
        """Drop spans whose chunks all have a number below `oldest`. O(spans) if chunks are gone."""
        if oldest != self.oldest:
            self.oldest = oldest
            for chunks in [chunks for chunks in list(self.inner) if chunks[0] < oldest]:
                self.inner.pop(chunks, None)
            for level, number in list(self.spans):
                if (number + 1) * fan**level <= oldest:
                    self.spans.pop((level, number), None)
                    self.fresh.discard((level, number))
                    self.looked.discard((level, number))
            self.count()

    def _changed(self) -> None:
        """Count the bytes again now and then: concurrent changes may have miscounted them."""
        self.changes += 1
        if not self.changes % _COUNTED_ANEW:
            self.count()

    def count(self) -> None:
        """Count the bytes again. O(packs)."""
        packs = [pack for span in [*list(self.spans.values()), *list(self.inner.values())] for pack in span]
        rosters = {id(ids): ids.nbytes for ids in [*self.rosters, *(pack.ids for pack in packs)]}
        self.nbytes = sum(pack.nbytes for pack in packs) + sum(rosters.values())


class PackRoom:
    """The packs of all streams. Any thread: counts may lag a little. `limit`: bytes.

    `fan`: spans that make up the next wider one; 1: nothing is folded by chunks. `tenant_bytes`: bytes of each tenant
    in all rooms.
    """

    def __init__(self, limit: int, fan: int, tenant_bytes: KeptBytes | None = None) -> None:
        self.limit = limit
        self.fan = fan
        self._kept_bytes = tenant_bytes or KeptBytes()
        self._kept_bytes.add(self.held_by)
        self._kept: dict[tuple[int, tuple[Name, ...]], Packs] = {}
        self.refusals = FoldRefusals()
        """Packs that could not be made ahead, by the stream's ID and the names of the states."""

    def work_bytes(self, tenant: str) -> int:
        """The most bytes that one pack of a tenant may take while it is made ahead."""
        return max(min(self.limit, self._kept_bytes.limit(tenant) or self.limit), LEAST_WORK)

    @property
    def held(self) -> int:
        """Bytes of all packs. O(streams and states)."""
        return sum([packs.nbytes for packs in list(self._kept.values())])

    def held_by(self, tenant: str) -> int:
        """Bytes of the packs of one tenant. O(streams and states)."""
        return sum([packs.nbytes for packs in list(self._kept.values()) if packs.tenant == tenant])

    @property
    def spans(self) -> int:
        """The number of packs. O(spans)."""
        return sum(len(span) for packs in list(self._kept.values()) for span in list(packs.spans.values()))

    def kept(self) -> list[tuple[int, Packs]]:
        """All packs, each after the ID of its stream."""
        return [(stream_id, packs) for (stream_id, _), packs in self._kept.copy().items()]

    def known(self, stream_id: int, measures: Sequence[Measure], tenant: str = "") -> Packs | None:
        """The packs of a tenant's stream for the states of measures; None at the first request, which is recorded."""
        names = states_for(measures)
        packs = self._kept.get((stream_id, tuple(names)))
        if packs is None:
            self._kept[stream_id, tuple(names)] = Packs(tuple(names.values()), tenant)
        else:
            packs.used = True
        return packs

    def of(self, stream_id: int, measures: Sequence[Measure]) -> Packs | None:
        """The packs for the states of measures, if there are any."""
        return self._kept.get((stream_id, tuple(states_for(measures))))

    def put(self, packs: Packs, span: Span, pack: FoldPack) -> None:
        """Keep a pack, and drop others if there is no room."""
        packs.put(span, pack, self.fan)
        self._settle(packs.tenant)

    def put_inner(self, packs: Packs, inside: tuple[int, int], pack: FoldPack) -> None:
        """Keep the pack of the chunks [first, stop) of a window, and drop others if there is no room."""
        packs.put_inner(inside, pack)
        self._settle(packs.tenant)

    def _settle(self, tenant: str) -> None:
        """Drop packs above a limit: first those of the tenant that got a new one."""
        if over := self._kept_bytes.over(tenant):
            self.give_up(over + self._kept_bytes.limit(tenant) // 8, tenant)
        if self.held > self.limit:
            self.give_up(self.held - self.limit + self.limit // 8)

    def give_up(self, wanted: int, tenant: str | None = None) -> int:
        """Drop packs until `wanted` bytes are free, least recently used first; of one tenant if given. Returns bytes
        freed.
        """
        freed, every = 0, [item for item in list(self._kept.items()) if tenant is None or item[1].tenant == tenant]
        for name, packs in sorted(every, key=lambda item: item[1].used):
            if freed >= wanted:
                break
            if self._kept.pop(name, None) is not None:
                freed += packs.nbytes
        for _, packs in every:
            packs.used = False
        return freed

    def drop(self, stream_id: int) -> None:
        """Drop all packs of a dropped stream."""
        for name in list(self._kept):
            if name[0] == stream_id:
                self._kept.pop(name, None)
