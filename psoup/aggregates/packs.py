"""Fold packs: the states of many clauses over a span of closed chunks, as columns, kept for the next invocation.

    ids      5   7   9  12     SQC IDs, ascending: exactly these clauses are folded
    at           1       3     places among `ids` of the clauses with a match; None: every clause has a state
    states      16      40     columns, in the narrowest integers that hold them

The spans are as in `psoup.aggregates.folds`: a chunk, 16 chunks, 256 chunks and so on. A span may have several packs.
Readers made them at different times, for different clauses. If a clause is in no pack, its matches are unknown: a
reader must fold it. Packs never change, and every pack may be dropped at any time. Spans are combined in the order of
the stream.
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
from psoup.aggregates.narrow_states import narrow_array, narrowed_part, widened_part
from psoup.aggregates.recipes import Fold, Recipe
from psoup.aggregates.refusals import FoldRefusals
from psoup.aggregates.spans import Span
from psoup.aggregates.state import Folding, State, size_of
from psoup.aggregates.sums import DoubleSum
from psoup.aggregates.turns import NO_TURNS, Turns, turned_packs
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column

_ONLY: Array = np.zeros(1, np.int64)
_NO_PLACES: Array = np.zeros(0, np.int64)

_PACK_BYTES = 1_000
"""Approximate bytes of the objects of a pack, without its arrays."""
_SMALL = 1 << 16
"""If a wider span gets a pack of the same clauses, narrower spans keep packs of at most these bytes."""
_ROSTERS = 64
"""The number of arrays of IDs that are remembered, so that new packs of the same clauses share them."""
_INNER = 4
"""The number of latest windows whose whole chunks have one pack."""
_COUNTED_ANEW = 256
"""The number of changes after which the bytes are counted again."""

MOST_PACKS = 32
"""The most packs of a span. If there are more, they are merged. A call for a million queries makes eight packs."""


@dataclass(frozen=True, slots=True, eq=False)
class FoldPack:
    """The states of many clauses over a span; see the module. A *line* is the place of a clause's state in the columns.

    `matched`: the number of matching tuples of each line. `errors`: int64[k], the number of errors of WHERE and of
    arguments for each clause. None if there are no errors.
    """

    ids: Array
    at: Array | None
    matched: Array
    errors: Array | None
    states: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of the pack without `ids`, which many packs share."""
        arrays = [self.at, self.matched, self.errors]
        size = sum(array.nbytes for array in arrays if array is not None)
        return _PACK_BYTES + size + sum(map(size_of, self.states))

    def lines(self, rows: Array | None, places: Array) -> tuple[Array | None, Array]:
        """The lines of the clauses that have one, and the places of these clauses in the caller's result. O(rows).

        `rows`: the places of the clauses among `ids`, int64, ascending; None for all. `places`: their places in the
        result, int64. A clause without a match has no line. Returns None for the lines if they are all lines.
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
        """An upper bound of the bytes that `state` allocates. O(lines)."""
        return bytes_taken(self.states[which], lines)

    def state(self, which: int, folding: Folding, lines: Array | None) -> State:
        """The state number `which` of some lines, or of all (None), in the form that `combine` takes. O(lines)."""
        return tuple([widened_part(part) for part in taken(folding, self.states[which], lines)])


def pack_of(ids: Array, at: Array | None, matched: Array, errors: Array | None, states: Sequence[State]) -> FoldPack:
    """Make the pack of the clauses `ids`. `at`: the places of clauses with a state; None for all. O(clauses)."""
    narrow_states = tuple([tuple([narrowed_part(part) for part in state]) for state in states])
    error_counts = None if errors is None or not errors.any() else errors
    return FoldPack(
        ids, None if at is None else at.astype(np.int32), narrow_array(matched), error_counts, narrow_states
    )


def taken(folding: Folding, state: State, groups: Array | None) -> State:
    """The part of a state for some of its groups (int64), or the whole state (None)."""
    if groups is None:
        return state
    if isinstance(folding, DoubleSum):
        counts, sums, scale, odd = state
        return counts.take(groups), _rows(sums, groups), scale, _rows(odd, groups) if len(odd) else odd
    return tuple([_rows(part, groups) for part in state])


def _rows(part: Array | Column, groups: Array) -> Array | Column:
    return part.take(groups, 0) if isinstance(part, np.ndarray) else part.take(groups)


def fold_in(packs: Packs, span: Span, sqc_id: int, recipe: Recipe) -> Fold | None:
    """The fold of one clause over a span, from its pack. Returns None if no pack has the clause, or it has errors.

    O(packs * log clauses).
    """
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
    """The clauses of one pack that a call needs. `pack`: the place of the pack in its span.

    `rows`: the places of the clauses in the pack, int64; None for all. `places`: their places in the call.
    """

    pack: int
    rows: Array | None
    places: Array


class Uses(NamedTuple):
    """The packs of a span that serve a call, with each clause once. `lacking`: the places of clauses in no pack."""

    uses: list[PackUse]
    lacking: Array


def uses_of(ids: Array, packs: Sequence[FoldPack]) -> Uses:
    """Find the clauses `ids` in the packs of a span. If several packs have a clause, the first one serves it.

    Two readers that fold the same clause at the same time make such packs.
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
    """The packs of one stream for some states. Any thread may use them, as spans come and go in atomic steps."""

    measures: tuple[Measure, ...]
    """For each state, the first measure that needs it."""
    tenant: str = ""
    spans: dict[Span, tuple[FoldPack, ...]] = field(default_factory=dict)
    inner: dict[tuple[int, int], tuple[FoldPack, ...]] = field(default_factory=dict)
    """The packs of the whole chunks of latest windows that were requested twice, by (first, stop)."""
    seen: list[tuple[int, int]] = field(default_factory=list)
    """The whole chunks (first, stop) of the latest windows."""
    rosters: list[Array] = field(default_factory=list)
    """The latest arrays of IDs, which packs of the same clauses share."""
    fresh: set[Span] = field(default_factory=set)
    """Spans whose packs have changed since they were written to disk."""
    ahead: int = 0
    """The number of the first chunk that the background task has not folded yet."""
    looked: set[Span] = field(default_factory=set)
    """Spans that were looked up on disk since their packs last changed."""
    nbytes: int = 0
    changes: int = 0
    used: bool = True
    oldest: int | None = None
    turn: int = 0
    """The number of thinnings of the stream that these packs know."""

    def shared(self, ids: Array) -> Array:
        """An equal array of IDs from an earlier pack, or `ids` itself. O(ids)."""
        for other in self.rosters:
            if other is ids or (len(other) == len(ids) and other[-1] == ids[-1] and np.array_equal(other, ids)):
                return other
        self.rosters = [ids, *self.rosters[: _ROSTERS - 1]]
        self.nbytes += ids.nbytes
        return ids

    def put(self, span: Span, pack: FoldPack, fan: int) -> None:
        """Keep the pack of a span. Drop large packs of narrower spans in it that have the same clauses. O(fan)."""
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
        """Keep the pack of a window's whole chunks. Drop the packs of all but the latest windows."""
        for old in [other for other in self.inner if other != chunks][: 1 - _INNER]:
            self.nbytes -= sum(inner_pack.nbytes for inner_pack in self.inner.pop(old, ()))
        self.inner[chunks] = (*self.inner.get(chunks, ()), pack)[-MOST_PACKS:]
        self.nbytes += pack.nbytes
        self._changed()

    def met(self, chunks: tuple[int, int]) -> bool:
        """Whether one of the latest windows had the same whole chunks. Records this window."""
        seen = self.seen
        if chunks in seen:
            return True
        self.seen = [chunks, *seen[: 2 * _INNER]]
        return False

    def forget(self, oldest: int, fan: int) -> None:
        """Drop spans whose chunks all have numbers below `oldest`. O(1) if `oldest` has not changed, else O(spans)."""
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
        """Count the bytes again after some changes, as concurrent changes may have miscounted them."""
        self.changes += 1
        if not self.changes % _COUNTED_ANEW:
            self.count()

    def count(self) -> None:
        """Count the bytes of all packs again. O(packs)."""
        packs = [pack for span in [*list(self.spans.values()), *list(self.inner.values())] for pack in span]
        rosters = {id(ids): ids.nbytes for ids in [*self.rosters, *(pack.ids for pack in packs)]}
        self.nbytes = sum(pack.nbytes for pack in packs) + sum(rosters.values())


class PackRoom:
    """The cache of the packs of all streams, of at most `limit` bytes. Any thread may use it; counts may lag a little.

    `fan`: the number of spans that make up the next wider one. 1: no pack is kept. `tenant_bytes`: counts the bytes of
    each tenant in all caches.
    """

    def __init__(self, limit: int, fan: int, tenant_bytes: KeptBytes | None = None) -> None:
        self.limit = limit
        self.fan = fan
        self._kept_bytes = tenant_bytes or KeptBytes()
        self._kept_bytes.add(self.held_by)
        self._kept: dict[tuple[int, tuple[Name, ...]], Packs] = {}
        self.refusals = FoldRefusals()
        """The refusals of packs that a background task could not make ahead, by stream ID and names of the states."""

    def work_bytes(self, tenant: str) -> int:
        """The most bytes that one pack of a tenant may take while a background task makes it ahead."""
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
        """All packs, as pairs of a stream ID and its packs for some states."""
        return [(stream_id, packs) for (stream_id, _), packs in self._kept.copy().items()]

    def known(
        self, stream_id: int, measures: Sequence[Measure], tenant: str = "", turns: Turns = NO_TURNS
    ) -> Packs | None:
        """The packs of a tenant's stream for the states of measures. The first request only records it: None.

        `turns`: the thinnings of the caller's snapshot. Returns None if the kept packs know later ones.
        """
        names = states_for(measures)
        key = stream_id, tuple(names)
        packs = self._kept.get(key)
        if packs is None:
            self._kept[key] = Packs(tuple(names.values()), tenant, turn=turns[0])
            return None
        if packs.turn < turns[0]:
            packs = self._kept[key] = turned_packs(packs, turns, self.fan)
        packs.used = True
        return packs if packs.turn == turns[0] else None

    def of(self, stream_id: int, measures: Sequence[Measure], turn: int = 0) -> Packs | None:
        """The packs for the states of measures, if there are any. `turn`: the number of thinnings of the stream."""
        packs = self._kept.get((stream_id, tuple(states_for(measures))))
        return None if packs is None or packs.turn != turn else packs

    def put(self, packs: Packs, span: Span, pack: FoldPack) -> None:
        """Keep a pack, and drop others if there is no room."""
        packs.put(span, pack, self.fan)
        self._settle(packs.tenant)

    def put_inner(self, packs: Packs, inside: tuple[int, int], pack: FoldPack) -> None:
        """Keep the pack of the chunks [first, stop) of a window, and drop others if there is no room."""
        packs.put_inner(inside, pack)
        self._settle(packs.tenant)

    def _settle(self, tenant: str) -> None:
        """Drop packs if a limit is exceeded: first the tenant's limit, then the room's."""
        if over := self._kept_bytes.over(tenant):
            self.give_up(over + self._kept_bytes.limit(tenant) // 8, tenant)
        if self.held > self.limit:
            self.give_up(self.held - self.limit + self.limit // 8)

    def give_up(self, wanted: int, tenant: str | None = None) -> int:
        """Drop packs until `wanted` bytes are free. Packs that were not used since the last call come first.

        `tenant`: drop only packs of this tenant. Returns the bytes freed.
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
