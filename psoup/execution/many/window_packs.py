"""Aggregates of many queries over a window: its inner chunks come from fold packs, and only its two ends are read.

    window    …|··mmm|mmmmm|mmmmm|mmmmm|mm
                  └ end    └ spans: 16 chunks, or one: packs       └ end: the open chunk at the latest

The first call for some measures reads all of its window, and is noted; from the second one on whole chunks are folded
once (`psoup.aggregates.packs`). Clauses that a span's packs lack are folded there, from its matches or from narrower
spans, and kept for the next call. Spans come in the order of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from psoup.aggregates.growth import states_bytes
from psoup.aggregates.leaves import leaf_of
from psoup.aggregates.packs import MOST_PACKS, FoldPack, Packs, Uses, uses_of
from psoup.aggregates.spans import Span, cover
from psoup.columns import Array
from psoup.data.chunk import ChunkView
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.window_case import Inner, inner_of
from psoup.execution.many.many_folds import Folded
from psoup.execution.many.packs_store import PackShelf, one_of, pack_shelf
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.many_matches import Part, Progress, Together, parts_of
from psoup.invariants import ensure
from psoup.plan.nodes import Measure
from psoup.published.snapshot import Snapshot, StreamView
from psoup.reading import UNBOUNDED
from psoup.results.sets import all_evaluated, evaluated

_SHELVED = 64
"""Spans that a reader puts on the disk at once, at most."""


class BeyondArchive(Exception):
    """Raised if too much would be read from the disk; `clauses`: for which of them it would be, bool[k]."""

    def __init__(self, problem: ResourceExhausted, clauses: Array) -> None:
        super().__init__()
        self.problem, self.clauses = problem, clauses


def folded(measures: Sequence[Measure], together: Together, low: int, high: int, most: int, reading: Reading) -> Folded:
    """The aggregates of all clauses over the tuples with IDs in [low, high).

    Raises TooManyPairs, and BeyondArchive.
    """
    made, view = Folded(measures, reading, len(together.ids)), together.view
    inner = inner_of(view, low, high) if view.packs.fan > 1 else None
    packs = None if inner is None else _known(view, measures, inner)
    if inner is None or packs is None:
        parts = list(parts_of(view, low, high))
        made.read(together, parts, most, together.begin(parts))
        return made
    packs.forget(view.chunks[0].data.number, view.packs.fan)
    first = view.chunks[inner.first].data.number
    spans = Spans(measures, packs, together, reading, most)
    left, right = list(parts_of(view, low, inner.low)), list(parts_of(view, inner.high, high))
    inside = first, first + inner.stop - inner.first
    shelf = pack_shelf(together.snapshot, view, packs, reading.budget) if inner.first < view.archived else None
    if shelf is not None:
        spans.fetch(shelf, inside)
    beyond = [*left, *spans.missing(inside), *right]
    try:
        spans.told = together.begin(beyond)
    except ResourceExhausted as problem:
        raise BeyondArchive(problem, spans.beyond(inside)) from problem
    made.read(together, left, most, spans.told)
    spans.add_inside(made, inside)
    made.read(together, right, most, spans.told)
    if shelf is not None:
        shelf.shelve(_SHELVED)
    return made


def _known(view: StreamView, measures: Sequence[Measure], inner: Inner) -> Packs | None:
    """The packs for some measures; None if the window is to be read tuple by tuple."""
    packs = view.packs.known(view.stream_id, measures, view.tenant)
    if packs is None and inner.first < view.archived:  # to read from the disk takes longer: it is folded at once
        packs = view.packs.known(view.stream_id, measures, view.tenant)
    return packs


@dataclass(slots=True)
class Spans:
    """The states of the clauses of `together` in spans of closed chunks, from packs, which are made where they lack."""

    measures: Sequence[Measure]
    packs: Packs
    together: Together
    reading: Reading
    most: int
    told: Progress = None
    _known: dict[tuple[int, ...], Uses] = field(default_factory=dict)
    _rosters: list[Array] = field(default_factory=list)
    """Keeps the arrays whose addresses are names in `_known`."""
    _parts: dict[bytes, Spans] = field(default_factory=dict)
    _ids: Array | None = None

    def missing(self, inside: tuple[int, int]) -> Iterator[Part]:
        """The chunks of [first, stop) that have to be read, as some clause is in no pack of them."""
        if len(self._uses(self.packs.inner.get(inside, ())).lacking):
            yield from self._missing(cover(*inside, self.together.view.packs.fan))

    def fetch(self, shelf: PackShelf, inside: tuple[int, int]) -> None:
        """Take from the disk what the clauses lack in chunks [first, stop), the widest spans first. O(spans)."""

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
        """Which clauses need a chunk of [first, stop) that is on disk and was not evaluated for them: bool[k]."""
        fan, entries = self.together.view.packs.fan, self.together.view.chunks

        def lacks(level: int, number: int) -> Array:
            own: Array = np.zeros(len(self.together.ids), np.bool_)
            own[self._uses(self.packs.spans.get((level, number), ())).lacking] = True
            if not level:
                entry = entries[number - entries[0].data.number]
                return own & ~evaluated(entry.results, self.together.ids) & (not entry.data.in_memory)
            if own.any():
                own &= np.logical_or.reduce([lacks(level - 1, number * fan + child) for child in range(fan)])
            return own

        return np.logical_or.reduce([lacks(*span) for span in cover(*inside, fan)])

    def lacks(self, span: Span) -> bool:
        """Whether some of the clauses are in no pack of a span."""
        return len(self._uses(self.packs.spans.get(span, ())).lacking) > 0

    def lacks_chunks(self, span: Span) -> bool:
        """Whether chunks of a span would have to be read for some of the clauses."""
        return next(iter(self._missing([span])), None) is not None

    def add_inside(self, into: Folded, inside: tuple[int, int]) -> None:
        """Add the states of all clauses in chunks [first, stop): of a window that comes again from one pack."""
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
        """Add the states of all clauses in a span, which is later than what `into` has."""
        packs = self.packs.spans.get(span, ())
        uses, lacking = self._uses(packs)
        for use in uses:
            into.join(packs[use.pack], use.rows, use.places)
        if len(lacking):
            into.join(self._part(lacking).made(span), None, lacking)

    def complete(self, span: Span) -> None:
        """Fold the clauses that are in no pack of a span, and keep that."""
        lacking = self._uses(self.packs.spans.get(span, ())).lacking
        if len(lacking):
            self._part(lacking).made(span)

    def made(self, span: Span) -> FoldPack:
        """Fold all clauses in a span anew, and keep that."""
        pack = (None if span[0] else self._leaf(span[1], self.ids)) or self._folded(span, self.ids)
        self._keep(span, pack)
        return pack

    @property
    def ids(self) -> Array:
        """The SQC IDs of the clauses, as packs share them."""
        if self._ids is None:
            self._ids = self.packs.shared(self.together.ids)
        return self._ids

    def _leaf(self, number: int, ids: Array) -> FoldPack | None:
        """The pack of a chunk from its lists, if all of the clauses were evaluated and it is in memory."""
        self.reading.budget.check()
        entry, _, _ = self._chunk(number)
        if not isinstance(entry.data, ChunkView) or not all_evaluated(entry.results, ids):
            return None
        room, size = self.reading.charged(), 2 * states_bytes(self.measures) * len(ids)
        room.hold(size)
        try:
            return leaf_of(entry.results, entry.data.columns, self.together.wanted, ids, self.measures)
        finally:
            room.give_back(size)

    def _folded(self, span: Span, ids: Array) -> FoldPack:
        """The pack of a span from what is narrower: of a chunk from its matches."""
        (level, number), fan = span, self.together.view.packs.fan
        with closing(Folded(self.measures, self.reading, len(ids))) as fresh:
            if level:
                for child in range(number * fan, (number + 1) * fan):
                    self.add(fresh, (level - 1, child))
            else:
                fresh.read(self.together, [self._chunk(number)], self.most, self.told)
            return fresh.packed(ids)

    def _keep(self, span: Span, pack: FoldPack) -> None:
        """Keep a pack of a span; of many one is made."""
        packs, room = (*self.packs.spans.get(span, ()), pack), self.together.view.packs
        if len(packs) > MOST_PACKS:
            ids = self.packs.shared(np.unique(np.concatenate([own.ids for own in packs])))
            self.packs.spans.pop(span, None)
            pack = one_of(self.measures, self.reading, packs, ids)
        room.put(self.packs, span, pack)

    def _missing(self, spans: Iterable[Span]) -> Iterator[Part]:
        """The chunks in some spans that have to be read."""
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
        """The same of some of the clauses."""
        if len(lacking) == len(self.together.ids):
            return self
        part = self._parts.get(lacking.tobytes())
        if part is None:
            whole = self.together
            some = Together(whole.snapshot, whole.view, whole.ids[lacking], whole.budget)
            part = Spans(self.measures, self.packs, some, self.reading, self.most, self.told)
            self._parts[lacking.tobytes()] = part
        return part

    def _uses(self, packs: Sequence[FoldPack]) -> Uses:
        """Which of some packs are used for which clauses. O(1) for packs of clauses that were met before."""
        key = tuple([id(pack.ids) for pack in packs])
        known = self._known.get(key)
        if known is None:
            self._rosters += [pack.ids for pack in packs]
            known = self._known[key] = uses_of(self.together.ids, packs)
        return known


def check_packs(snapshot: Snapshot) -> None:
    """Check that every pack which is kept is what its chunks come to now. O(matches in these chunks)."""
    rooms = {id(view.packs): view.packs for view in snapshot.by_id.values()}
    for room in rooms.values():
        for stream_id, packs in room.kept():
            for (level, number), own in packs.spans.items():
                first, stop = number * room.fan**level, (number + 1) * room.fan**level
                for pack in own:
                    _check_pack(snapshot, snapshot.by_id[stream_id], packs.measures, pack, range(first, stop))
            for (first, stop), own in packs.inner.items():
                for pack in own:
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
        reading = Reading([], None, snapshot.config.texts, UNBOUNDED, 0)  # a check, on demand
        together = Together(snapshot, view, pack.ids[rows], reading.budget)
        kept, anew = (Folded(measures, reading, len(rows)) for _ in range(2))
        kept.join(pack, rows, np.arange(len(rows)))
        parts = [(entry, 0, len(entry.data)) for entry in view.chunks[numbers[0] - base : numbers[-1] - base + 1]]
        anew.read(together, parts, 2**62, None)
        shown = [repr(states.plain()) for states in (kept, anew)]
        ensure(
            shown[0] == shown[1], pack, "a pack is not that of its chunks", span=numbers, kept=shown[0], anew=shown[1]
        )
