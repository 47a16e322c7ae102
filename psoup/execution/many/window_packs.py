"""Aggregates of many queries over a window. Inner chunks come from packs, and only the two ends are read.

    window    …|··mmm|mmmmm|mmmmm|mmmmm|mm
                  └ end    └ spans of 16 chunks or one: packs      └ end: at the latest the open chunk

A pack has the states of many clauses over a span. The first call for some measures reads its whole window, and notes
the measures. The second call folds whole chunks and keeps the packs (`psoup.aggregates.packs`). If the packs of a span
lack clauses, the call makes a new pack for these. It folds their matches, or narrower spans. It adds spans in the order
of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import numpy as np

from psoup.aggregates.growth import states_bytes
from psoup.aggregates.leaves import leaf_of
from psoup.aggregates.packs import MOST_PACKS, FoldPack, Packs, Uses, uses_of
from psoup.aggregates.spans import Span, cover
from psoup.data.chunk import ChunkView
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.window_case import Inner, inner_of
from psoup.execution.many.many_folds import Folded
from psoup.execution.many.packs_store import PackShelf, one_of, pack_shelf
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.many_matches import Part, Progress, Together, parts_of
from psoup.invariants import ensure
from psoup.plan.nodes import Measure
from psoup.plan.way import TryNext
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.sets import all_evaluated, evaluated
from psoup.values.columns import Array
from psoup.work.read_budget import UNBOUNDED

_SHELVED = 64
"""The most spans whose packs one call writes to disk."""


class BeyondArchive(Exception):
    """Raised if a call would read too many tuples on disk. `clauses`: the clauses that need these tuples, bool[k]."""

    def __init__(self, problem: ResourceExhausted, clauses: Array) -> None:
        super().__init__()
        self.problem = problem
        self.clauses = clauses


def folded(
    measures: Sequence[Measure], together: Together, low: int, high: int, limit: int, reading: Reading
) -> Folded:
    """Fold the matches of all clauses with tuple IDs in [low, high), from packs where possible.

    Raises TooManyPairs if a chunk has more than `limit` matches, and BeyondArchive.
    """
    made, view = Folded(measures, reading, len(together.ids)), together.view
    inner = inner_of(view, low, high) if view.packs.fan > 1 else None
    packs = None if inner is None else _known(view, measures, inner)
    if inner is None or packs is None:
        parts = list(parts_of(view, low, high))
        made.read(together, parts, limit, together.begin(parts))
        return made
    packs.forget(view.chunks[0].data.number, view.packs.fan)
    first = view.chunks[inner.first].data.number
    spans = Spans(measures, packs, together, reading, limit)
    left, right = list(parts_of(view, low, inner.low)), list(parts_of(view, inner.high, high))
    inside = first, first + inner.stop - inner.first
    shelf = pack_shelf(together.snapshot, view, packs, reading.budget) if inner.first < view.archived else None
    if shelf is not None:
        spans.fetch(shelf, inside)
    beyond = [*left, *spans.missing(inside), *right]
    try:
        spans.progress = together.begin(beyond)
    except ResourceExhausted as problem:
        raise BeyondArchive(problem, spans.beyond(inside)) from problem
    made.read(together, left, limit, spans.progress)
    spans.add_inside(made, inside)
    made.read(together, right, limit, spans.progress)
    if shelf is not None:
        shelf.shelve(_SHELVED)
    return made


def _known(view: StreamView, measures: Sequence[Measure], inner: Inner) -> Packs | None:
    """The packs for some measures. None at the first call for these measures, unless inner chunks are on disk."""
    packs = view.packs.known(view.stream_id, measures, view.tenant, view.turns)
    if (
        packs is None and inner.first < view.archived
    ):  # a first call also folds chunks on disk, as reading them takes longer
        packs = view.packs.known(view.stream_id, measures, view.tenant, view.turns)
    return packs


@dataclass(slots=True)
class Spans:
    """The states of the clauses of `together` over spans of closed chunks, from packs. Makes missing packs."""

    measures: Sequence[Measure]
    packs: Packs
    together: Together
    reading: Reading
    limit: int
    """The most matches in one chunk."""
    progress: Progress = None
    _known: dict[tuple[int, ...], Uses] = field(default_factory=dict)
    _rosters: list[Array] = field(default_factory=list)
    """The arrays whose addresses are keys of `_known`. References keep the addresses valid."""
    _parts: dict[bytes, Spans] = field(default_factory=dict)
    _ids: Array | None = None

    def missing(self, inside: tuple[int, int]) -> Iterator[Part]:
        """The chunks of [first, stop) that the call must read, as their packs lack a clause."""
        if len(self._uses(self.packs.inner.get(inside, ())).lacking):
            yield from self._missing(cover(*inside, self.together.view.packs.fan))

    def fetch(self, shelf: PackShelf, inside: tuple[int, int]) -> None:
        """Load missing packs of the chunks [first, stop) from disk. Tries the widest spans first. O(spans)."""

        def take(level: int, number: int) -> None:
            if self.lacks((level, number)) and shelf.fetch((level, number)) and not self.lacks((level, number)):
                return
            for child in range(number * fan, (number + 1) * fan) if level and self.lacks((level, number)) else ():
                take(level - 1, child)

        fan = self.together.view.packs.fan
        if len(self._uses(self.packs.inner.get(inside, ())).lacking):
            for span in cover(*inside, fan):
                take(*span)

    def beyond(self, inside: tuple[int, int]) -> Array:
        """For each clause: whether it needs a chunk of [first, stop) on disk that is not evaluated for it. bool[k]."""
        fan, entries = self.together.view.packs.fan, self.together.view.chunks

        def lacks(level: int, number: int) -> Array:
            needed: Array = np.zeros(len(self.together.ids), np.bool_)
            needed[self._uses(self.packs.spans.get((level, number), ())).lacking] = True
            if not level:
                entry = entries[number - entries[0].data.number]
                return needed & ~evaluated(entry.results, self.together.ids) & (not entry.data.in_memory)
            if needed.any():
                needed &= np.logical_or.reduce([lacks(level - 1, number * fan + child) for child in range(fan)])
            return needed

        return np.logical_or.reduce([lacks(*span) for span in cover(*inside, fan)])

    def lacks(self, span: Span) -> bool:
        """Whether there is a clause that no pack of the span has."""
        return len(self._uses(self.packs.spans.get(span, ())).lacking) > 0

    def lacks_chunks(self, span: Span) -> bool:
        """Whether the call must read a chunk of a span, as packs lack a clause."""
        return next(iter(self._missing([span])), None) is not None

    def add_inside(self, into: Folded, inside: tuple[int, int]) -> None:
        """Add the states of all clauses over the chunks [first, stop). A repeated window keeps one pack for them."""
        spans = list(cover(*inside, self.together.view.packs.fan))
        if not self.packs.met(inside):
            for span in spans:
                self.add(into, span)
            return
        packs = self.packs.inner.get(inside, ())
        uses, lacking = self._uses(packs)
        for use in uses:
            into.join(packs[use.pack], use.rows, use.places)
        if len(lacking):
            part = self._part(lacking)
            with closing(Folded(self.measures, self.reading, len(lacking))) as fresh:
                for span in spans:
                    part.add(fresh, span)
                pack = fresh.packed(part.ids)
            self.together.view.packs.put_inner(self.packs, inside, pack)
            into.join(pack, None, lacking)

    def add(self, into: Folded, span: Span) -> None:
        """Add the states of all clauses over a span to `into`. The span must come after all tuples of `into`."""
        packs = self.packs.spans.get(span, ())
        uses, lacking = self._uses(packs)
        for use in uses:
            into.join(packs[use.pack], use.rows, use.places)
        if len(lacking):
            into.join(self._part(lacking).made(span), None, lacking)

    def complete(self, span: Span) -> None:
        """Fold a span for the clauses that its packs lack, and keep the new pack."""
        lacking = self._uses(self.packs.spans.get(span, ())).lacking
        if len(lacking):
            self._part(lacking).made(span)

    def made(self, span: Span) -> FoldPack:
        """Fold a span for all clauses, and keep the new pack. Returns the pack."""
        pack: FoldPack | None = None
        with suppress(TryNext):
            pack = self._leaf(span, self.ids)
        if pack is None:  # not in the handler: its exception would keep the arrays of the attempt alive
            pack = self._folded(span, self.ids)
        self._keep(span, pack)
        return pack

    @property
    def ids(self) -> Array:
        """The SQC IDs of the clauses, in the array that packs of the same clauses share."""
        if self._ids is None:
            self._ids = self.packs.shared(self.together.ids)
        return self._ids

    def _leaf(self, span: Span, ids: Array) -> FoldPack:
        """Make the pack of a sealed chunk from its stored lists of offsets.

        Raises TryNext for wider spans, for chunks on disk, and for chunks that are not evaluated for all clauses.
        """
        level, number = span
        if level:
            raise TryNext
        self.reading.budget.check()
        entry, _, _ = self._chunk(number)
        if not isinstance(entry.data, ChunkView) or not all_evaluated(entry.results, ids):
            raise TryNext
        room, size = self.reading.charged(), 2 * states_bytes(self.measures) * len(ids)
        room.hold(size)
        try:
            return leaf_of(entry.results, entry.data.columns, self.together.wanted, ids, self.measures)
        finally:
            room.give_back(size)

    def _folded(self, span: Span, ids: Array) -> FoldPack:
        """Make the pack of a span from narrower spans, or of a chunk from its matches."""
        (level, number), fan = span, self.together.view.packs.fan
        with closing(Folded(self.measures, self.reading, len(ids))) as fresh:
            if level:
                for child in range(number * fan, (number + 1) * fan):
                    self.add(fresh, (level - 1, child))
            else:
                fresh.read(self.together, [self._chunk(number)], self.limit, self.progress)
            return fresh.packed(ids)

    def _keep(self, span: Span, pack: FoldPack) -> None:
        """Keep a pack of a span. If the span has too many packs, merge them."""
        packs, room = (*self.packs.spans.get(span, ()), pack), self.together.view.packs
        if len(packs) > MOST_PACKS:
            ids = self.packs.shared(np.unique(np.concatenate([existing.ids for existing in packs])))
            self.packs.spans.pop(span, None)
            pack = one_of(self.measures, self.reading, packs, ids)
        room.put(self.packs, span, pack)

    def _missing(self, spans: Iterable[Span]) -> Iterator[Part]:
        """The chunks in the spans that the call must read, as packs lack a clause."""
        fan = self.together.view.packs.fan
        for level, number in spans:
            if len(self._uses(self.packs.spans.get((level, number), ())).lacking):
                if level:
                    yield from self._missing([(level - 1, child) for child in range(number * fan, (number + 1) * fan)])
                else:
                    yield self._chunk(number)

    def _chunk(self, number: int) -> Part:
        chunks = self.together.view.chunks
        entry = chunks[number - chunks[0].data.number]
        return entry, 0, len(entry.data)

    def _part(self, lacking: Array) -> Spans:
        """The same spans, for the clauses at the places `lacking` only."""
        if len(lacking) == len(self.together.ids):
            return self
        part = self._parts.get(lacking.tobytes())
        if part is None:
            whole = self.together
            some = Together(whole.snapshot, whole.view, whole.ids[lacking], whole.budget)
            part = Spans(self.measures, self.packs, some, self.reading, self.limit, self.progress)
            self._parts[lacking.tobytes()] = part
        return part

    def _uses(self, packs: Sequence[FoldPack]) -> Uses:
        """Choose the packs to use for each clause. O(1) if an earlier span had packs of the same clauses."""
        key = tuple([id(pack.ids) for pack in packs])
        uses = self._known.get(key)
        if uses is None:
            self._rosters += [pack.ids for pack in packs]
            uses = self._known[key] = uses_of(self.together.ids, packs)
        return uses


def check_packs(snapshot: Snapshot) -> None:
    """Check that every kept pack equals a recomputed fold of its chunks. O(matches in these chunks)."""
    rooms = {id(view.packs): view.packs for view in snapshot.by_id.values()}
    for room in rooms.values():
        for stream_id, packs in room.kept():
            if packs.turn != snapshot.by_id[stream_id].turns[0]:  # the next reader drops packs of thinned chunks
                continue
            for (level, number), stored_packs in packs.spans.items():
                first, stop = number * room.fan**level, (number + 1) * room.fan**level
                for pack in stored_packs:
                    _check_pack(snapshot, snapshot.by_id[stream_id], packs.measures, pack, range(first, stop))
            for (first, stop), stored_packs in packs.inner.items():
                for pack in stored_packs:
                    _check_pack(snapshot, snapshot.by_id[stream_id], packs.measures, pack, range(first, stop))


def _check_pack(
    snapshot: Snapshot, view: StreamView, measures: Sequence[Measure], pack: FoldPack, numbers: range
) -> None:
    base = view.chunks[0].data.number
    ensure((np.diff(pack.ids) > 0).all(), pack, "SQC IDs are not ascending", span=numbers)
    if numbers[0] < base or numbers[-1] >= base + len(view.chunks) - 1:
        ensure(numbers[0] < base, pack, "a pack has the open chunk", span=numbers)
        return
    rows = np.array([row for row, sqc_id in enumerate(pack.ids.tolist()) if snapshot.clauses.get(sqc_id)], np.int64)
    if len(rows):
        reading = Reading([], None, snapshot.config.texts, UNBOUNDED, 0)  # a check has no limits
        together = Together(snapshot, view, pack.ids[rows], reading.budget)
        stored, anew = (Folded(measures, reading, len(rows)) for _ in range(2))
        stored.join(pack, rows, np.arange(len(rows)))
        parts = [(entry, 0, len(entry.data)) for entry in view.chunks[numbers[0] - base : numbers[-1] - base + 1]]
        anew.read(together, parts, 2**62, None)
        shown = [repr(states.plain()) for states in (stored, anew)]
        ensure(
            shown[0] == shown[1], pack, "a pack is not that of its chunks", span=numbers, kept=shown[0], anew=shown[1]
        )
