"""Fold packs: the states of many clauses in a span of closed chunks, as columns, kept for the next invocation.

    ids      5   7   9  12     SQC IDs, ascending: all of these are folded, and no other clause is
    at           1       3     places among `ids` of those that have a match; None: there is a state for each
    states      16      40     columns, in as few bytes as hold them

Spans are those of `psoup.aggregates.folds`: a chunk, or 16 of them, 256, … A span may have several packs, made at
different times for different clauses. A clause that is in none of them is not folded, which is not "no match". Packs
never change, and all of them may be dropped at any time. The order of the stream is that of the spans.
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
from psoup.aggregates.refusals import Refusals
from psoup.aggregates.spans import Span
from psoup.aggregates.state import Folding, State, size_of
from psoup.aggregates.sums import DoubleSum
from psoup.columns import Array, Column
from psoup.plan.nodes import Measure

_ONLY: Array = np.zeros(1, np.int64)
_NO_PLACES: Array = np.zeros(0, np.int64)

_NARROW = (np.int8, np.int16, np.int32)
_PACK_BYTES = 1_000
"""Bytes of the objects of a pack, beside arrays: about."""
_SMALL = 1 << 16
"""Bytes up to which the pack of a narrower span stays when a wider one has its states."""
_ROSTERS, _INNER = 64, 4
_COUNTED_ANEW = 256

MOST_PACKS = 32
"""Packs of a span: of more one is made. A call for a million queries goes in eight pieces with packs of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class FoldPack:
    """The states of clauses; see the module. `matched`: tuples, of each clause that has a state. `errors`: of WHERE
    and of arguments, of each clause, int64[k], or None: there are none."""

    ids: Array
    at: Array | None
    matched: Array
    errors: Array | None
    states: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        """Bytes but those of `ids`, which many packs share."""
        arrays = [self.at, self.matched, self.errors]
        held = sum(array.nbytes for array in arrays if array is not None)
        return _PACK_BYTES + held + sum(map(size_of, self.states))

    def lines(self, rows: Array | None, places: Array) -> tuple[Array | None, Array]:
        """The lines of the states of some clauses (None: of all), and their places; clauses without a match have none.

        `rows`: int64, where the clauses are among `ids`, ascending; `places`: int64, what each is called. O(rows).
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
        """Bytes of what `state` makes, at most. O(lines)."""
        return bytes_taken(self.states[which], lines)

    def state(self, which: int, folding: Folding, lines: Array | None) -> State:
        """One of the states, of some lines or of all, as `combine` takes it. O(lines)."""
        return tuple([_widened(part) for part in taken(folding, self.states[which], lines)])


def pack_of(ids: Array, at: Array | None, matched: Array, errors: Array | None, states: Sequence[State]) -> FoldPack:
    """Pack states of some of the clauses `ids`: those at some places, or None, of all. O(clauses)."""
    kept = tuple([tuple([_narrowed(part) for part in state]) for state in states])
    found = None if errors is None or not errors.any() else errors
    return FoldPack(ids, None if at is None else at.astype(np.int32), _narrow(matched), found, kept)


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
    """The integers in as few bytes as hold them all."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for kind in _NARROW:
        info = np.iinfo(kind)
        if info.min <= low and high <= info.max:
            return array.astype(kind)
    return array


def _narrowed(part: Array | Column) -> Array | Column:
    """Integers of 64 bits in fewer; of those that have two words but need one, one."""
    if not isinstance(part, np.ndarray) or part.dtype != np.int64:
        return part
    if part.ndim == 2 and part.shape[1] == 2 and bool((part[:, 0] >> 63 == part[:, 1]).all()):
        return _narrow(part[:, :1])
    return _narrow(part)


def _widened(part: Array | Column) -> Array | Column:
    """What was narrowed, as it was."""
    if not isinstance(part, np.ndarray) or part.dtype.kind != "i":
        return part
    if part.ndim == 2 and part.shape[1] == 1:
        words = np.empty((len(part), 2), np.int64)
        words[:, 0] = part[:, 0]
        np.right_shift(words[:, 0], 63, out=words[:, 1])
        return words
    return part.astype(np.int64, copy=False)


def fold_in(packs: Packs, span: Span, sqc_id: int, recipe: Recipe) -> Fold | None:
    """The fold of one clause in a span; None if no pack has it, or values failed there. O(log clauses)."""
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


class Use(NamedTuple):
    """Where the clauses of a pack are: among its own, int64, or None: all of these; and among those asked for."""

    pack: int
    rows: Array | None
    places: Array


class Uses(NamedTuple):
    """Which packs of a span are used, each clause once, and the places of clauses that none of them has."""

    uses: list[Use]
    lacking: Array


def uses_of(ids: Array, packs: Sequence[FoldPack]) -> Uses:
    """Where some clauses are among those of packs; two packs may have one clause, if two readers made them at once."""
    uses, lacking = list[Use](), np.arange(len(ids))
    for at, pack in enumerate(packs):
        own, wanted = pack.ids, ids if len(lacking) == len(ids) else ids[lacking]
        if not len(wanted) or own[-1] < wanted[0] or wanted[-1] < own[0]:
            continue
        if len(own) == len(wanted) and np.array_equal(own, wanted):
            uses.append(Use(at, None, lacking))
            lacking = _NO_PLACES
            continue
        rows = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        have = own[rows] == wanted
        if have.any():
            rows = rows[have]
            uses.append(Use(at, None if len(rows) == len(own) else rows, lacking[have]))
            lacking = lacking[~have]
    return Uses(uses, lacking)


@dataclass(slots=True, eq=False)
class Packs:
    """The packs of one stream for some states. Any thread: spans come and go in single steps."""

    measures: tuple[Measure, ...]
    """An entry for each state."""
    tenant: str = ""
    spans: dict[Span, tuple[FoldPack, ...]] = field(default_factory=dict)
    inner: dict[tuple[int, int], tuple[FoldPack, ...]] = field(default_factory=dict)
    """The packs of the chunks [first, stop) of windows that were asked for twice of late."""
    seen: list[tuple[int, int]] = field(default_factory=list)
    """The chunks of the latest windows."""
    rosters: list[Array] = field(default_factory=list)
    """The latest `ids`, so that packs of the same clauses share them."""
    fresh: set[Span] = field(default_factory=set)
    """Spans that are not on the disk as they are here."""
    ahead: int = 0
    """The number of the first chunk that was not folded ahead; packs that are dropped begin anew."""
    looked: set[Span] = field(default_factory=set)
    """Spans that were looked for on the disk since they were here the last time."""
    nbytes: int = 0
    changes: int = 0
    used: bool = True
    oldest: int | None = None

    def shared(self, ids: Array) -> Array:
        """Equal IDs that packs have already, or these. O(ids)."""
        for other in self.rosters:
            if other is ids or (len(other) == len(ids) and other[-1] == ids[-1] and np.array_equal(other, ids)):
                return other
        self.rosters = [ids, *self.rosters[: _ROSTERS - 1]]
        self.nbytes += ids.nbytes
        return ids

    def put(self, span: Span, pack: FoldPack, fan: int) -> None:
        """Keep a pack; large ones of its chunks go if it has all of their clauses. O(fan)."""
        self.spans[span] = (*self.spans.get(span, ()), pack)
        self.fresh.add(span)
        self.nbytes += pack.nbytes
        level, number = span
        for child in range(number * fan, (number + 1) * fan) if level else ():
            packs = self.spans.get((level - 1, child), ())
            left = tuple([own for own in packs if own.ids is not pack.ids or own.nbytes <= _SMALL])
            if len(left) < len(packs):
                self.spans[level - 1, child] = left
                self.fresh.discard((level - 1, child))
                self.looked.discard((level - 1, child))
                self.nbytes -= sum(own.nbytes for own in packs) - sum(own.nbytes for own in left)
        self._changed()

    def put_inner(self, chunks: tuple[int, int], pack: FoldPack) -> None:
        """Keep the pack of all inner chunks of a window, beside those of a few others."""
        for old in [other for other in self.inner if other != chunks][: 1 - _INNER]:
            self.nbytes -= sum(own.nbytes for own in self.inner.pop(old, ()))
        self.inner[chunks] = (*self.inner.get(chunks, ()), pack)[-MOST_PACKS:]
        self.nbytes += pack.nbytes
        self._changed()

    def met(self, chunks: tuple[int, int]) -> bool:
        """Whether the inner chunks of a window are those of one of the latest windows, which this is noted as."""
        seen = self.seen
        if chunks in seen:
            return True
        self.seen = [chunks, *seen[: 2 * _INNER]]
        return False

    def forget(self, oldest: int, fan: int) -> None:
        """Drop spans all of whose chunks have a number below `oldest`. O(spans) if chunks have gone."""
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
        """Count the bytes anew now and then: threads that change them at once may have miscounted."""
        self.changes += 1
        if not self.changes % _COUNTED_ANEW:
            self.count()

    def count(self) -> None:
        """Count the bytes anew. O(packs)."""
        packs = [pack for span in [*list(self.spans.values()), *list(self.inner.values())] for pack in span]
        rosters = {id(ids): ids.nbytes for ids in [*self.rosters, *(pack.ids for pack in packs)]}
        self.nbytes = sum(pack.nbytes for pack in packs) + sum(rosters.values())


class PackRoom:
    """The packs of all streams. Any thread: counts may be a little behind. `limit`: bytes.

    `fan`: how many spans make a wider one; 1: nothing is folded by chunks. `kept`: of each tenant, with others.
    """

    def __init__(self, limit: int, fan: int, kept: KeptBytes | None = None) -> None:
        self.limit, self.fan = limit, fan
        self._kept_bytes = kept or KeptBytes()
        self._kept_bytes.add(self.held_by)
        self._kept: dict[tuple[int, tuple[Name, ...]], Packs] = {}
        self.refusals = Refusals()
        """Packs that could not be made ahead, by the stream's ID and the names of the states."""

    def work_bytes(self, tenant: str) -> int:
        """The most bytes that one pack of a tenant may hold while it is made ahead."""
        return max(min(self.limit, self._kept_bytes.limit(tenant) or self.limit), LEAST_WORK)

    @property
    def held(self) -> int:
        """Bytes that are kept. O(what was asked for)."""
        return sum([packs.nbytes for packs in list(self._kept.values())])

    def held_by(self, tenant: str) -> int:
        """Those of one tenant. O(what was asked for)."""
        return sum([packs.nbytes for packs in list(self._kept.values()) if packs.tenant == tenant])

    @property
    def spans(self) -> int:
        """The number of packs that are kept. O(spans)."""
        return sum(len(span) for packs in list(self._kept.values()) for span in list(packs.spans.values()))

    def kept(self) -> list[tuple[int, Packs]]:
        """All packs, after the ID of their stream."""
        return [(stream_id, packs) for (stream_id, _), packs in self._kept.copy().items()]

    def known(self, stream_id: int, measures: Sequence[Measure], tenant: str = "") -> Packs | None:
        """The packs of a tenant's stream for what measures are made of; None if nobody has asked for the like before,
        which is noted."""
        names = states_for(measures)
        packs = self._kept.get((stream_id, tuple(names)))
        if packs is None:
            self._kept[stream_id, tuple(names)] = Packs(tuple(names.values()), tenant)
        else:
            packs.used = True
        return packs

    def of(self, stream_id: int, measures: Sequence[Measure]) -> Packs | None:
        """The packs for what measures are made of, if there are any."""
        return self._kept.get((stream_id, tuple(states_for(measures))))

    def put(self, packs: Packs, span: Span, pack: FoldPack) -> None:
        """Keep a pack, as far as there is room."""
        packs.put(span, pack, self.fan)
        self._settle(packs.tenant)

    def put_inner(self, packs: Packs, inside: tuple[int, int], pack: FoldPack) -> None:
        """Keep the pack of the chunks [first, stop) of a window, as far as there is room."""
        packs.put_inner(inside, pack)
        self._settle(packs.tenant)

    def _settle(self, tenant: str) -> None:
        """Drop packs as long as there are too many: first those of the tenant that got one."""
        if over := self._kept_bytes.over(tenant):
            self.give_up(over + self._kept_bytes.limit(tenant) // 8, tenant)
        if self.held > self.limit:
            self.give_up(self.held - self.limit + self.limit // 8)

    def give_up(self, wanted: int, tenant: str | None = None) -> int:
        """Drop packs, of one tenant if it is given, until `wanted` bytes are free, of what was not used of late first;
        returns the bytes freed."""
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
        """Drop all packs of a stream that is gone."""
        for name in list(self._kept):
            if name[0] == stream_id:
                self._kept.pop(name, None)
