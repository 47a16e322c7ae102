"""Results of one chunk: the open form until it is sealed, packs afterwards, and the coverage by clauses.

    covered_before   clauses with a smaller SQC ID were evaluated while the chunk was open, or all at once later
    late             SQC IDs evaluated one by one afterwards
    gaps             exceptions: clauses that were not evaluated over all of the chunk, or not over any tuple of it
    not covered      is not "no match": a reader evaluates the clause over the chunk itself

Immutable: every change is a new value, so the value that a reader holds never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from psoup.config import Shape
from psoup.invariants import ensure
from psoup.results.failures import NO_FAILURES, Failures
from psoup.results.gaps import NO_GAPS, WHOLE, Gaps
from psoup.results.open import OpenView
from psoup.results.pack import Pack, merge_packs
from psoup.results.places import ChunkPlaces, places_of
from psoup.values.columns import Array

ALL = 2**62
"""A `covered_before` above the SQC IDs of all clauses in the index, which the open chunk covers. No chunk covers an ID
from here on: of an idle clause, or of a query that is not registered (`psoup.published.idle_clauses`)."""

_MOST_PACKS = Shape().most_packs
_NO_ERRORS: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChunkResults:
    """The results of one chunk, and the clauses that were evaluated over it."""

    open: OpenView | None
    packs: tuple[Pack, ...] = ()
    covered_before: int = ALL
    late: frozenset[int] = frozenset()
    errors: Mapping[int, int] = field(default_factory=lambda: _NO_ERRORS)
    """The number of evaluation errors of each derived attribute that was evaluated for all tuples of the chunk."""
    failures: Failures = NO_FAILURES
    """The failures of clauses, by SQC ID."""
    evicted: bool = False
    """Whether results were dropped to free memory. Maintenance does not restore them on its own, but readers may offer
    some."""
    evictions: int = 0
    """The number of times that results were dropped."""
    met_before: int = 0
    """Clauses with a smaller SQC ID were evaluated over the chunk before its results were dropped."""
    met_late: frozenset[int] = frozenset()
    """Further clauses that were evaluated over the chunk before its results were dropped."""
    compacted: int = 0
    """The number of dropped clauses when the packs were last compacted (`psoup.engine.stream.deaths`)."""
    charged: int = 0
    """The bytes of the open form; 0 after the chunk is sealed."""
    gaps: Gaps = NO_GAPS
    """Exceptions to the coverage."""
    _places: list[ChunkPlaces] = field(init=False, default_factory=list, compare=False, repr=False)

    @property
    def places(self) -> ChunkPlaces:
        """Addresses of the arrays, for kernels, valid as long as the results live. Computed once in O(packs + runs)."""
        if not self._places:
            self._places.append(places_of(self.open, self.packs, self.covered_before))
        return self._places[0]

    @property
    def closed(self) -> bool:
        """Whether the chunk gets no more tuples. An open chunk covers also every future clause of the index."""
        return self.covered_before < ALL

    def covers(self, sqc_id: int) -> bool:
        """Whether the clause has been evaluated over all of this chunk."""
        return self.covered_to(sqc_id) == WHOLE

    def covered_to(self, sqc_id: int) -> int:
        """The offset up to which the clause has been evaluated: WHOLE, or 0 if it has not met the chunk."""
        if sqc_id < self.covered_before or sqc_id in self.late:
            return self.gaps.of(sqc_id)
        return 0

    def offsets(self, sqc_id: int, slot: int, start: int, stop: int) -> Array:
        """The offsets in [start, stop) that a clause matched, ascending, int64.

        The clause must have been evaluated up to `stop`.
        """
        if self.open is not None and sqc_id < self.covered_before:
            return self.open.offsets(slot, start, stop)
        for pack in self.packs:
            at = pack.find(sqc_id)
            if at >= 0:
                return pack.offsets(at, start, stop)
        return np.zeros(0, np.int64)

    def bitmap(self, sqc_id: int) -> tuple[Array, int] | None:
        """The matches of a clause as a bitmap, and their number. None if they are not stored as a bitmap."""
        if self.open is None or sqc_id >= self.covered_before:
            for pack in self.packs:
                at = pack.find(sqc_id)
                if at >= 0:
                    return None if pack.is_list(at) else (pack.bitmaps[~int(pack.place[at])], int(pack.counts[at]))
        return None

    def bits(self, sqc_id: int, slot: int) -> Array | None:
        """The matches of a clause as bits, in an open or a closed chunk. None if they are not stored as bits.
        O(words)."""
        if self.open is not None and sqc_id < self.covered_before:
            return self.open.bits(slot)
        column = self.bitmap(sqc_id)
        return None if column is None else column[0]

    def form(self, sqc_id: int, slot: int) -> str:
        """The form of the clause's column: row, run, row+run, list, bitmap, empty, or uncovered."""
        if not self.covers(sqc_id):
            return "uncovered"
        if self.open is not None and sqc_id < self.covered_before:
            return self.open.form(slot)
        for pack in self.packs:
            at = pack.find(sqc_id)
            if at >= 0:
                return "list" if pack.is_list(at) else "bitmap"
        return "empty"

    def sealed(self, pack: Pack, most_packs: int = _MOST_PACKS) -> ChunkResults:
        """The results with `pack` in place of the open form. Packs of clauses that were covered later stay."""
        return replace(self, open=None, charged=0).with_pack(pack, most_packs)

    def with_pack(self, pack: Pack, most_packs: int = _MOST_PACKS) -> ChunkResults:
        """The results with one more pack. If there are more than `most_packs` packs, they are merged into one."""
        packs = [*self.packs, pack] if len(pack.ids) else [*self.packs]
        if len(packs) > most_packs:
            packs = [merge_packs(packs)]
        return replace(self, packs=tuple(packs))

    def covered(
        self,
        pack: Pack,
        sqc_ids: frozenset[int],
        before: int,
        errors: Mapping[int, int],
        failures: Failures,
        except_for: Array = NO_GAPS.ids,
        most_packs: int = _MOST_PACKS,
    ) -> ChunkResults:
        """The results after the clauses `sqc_ids` were evaluated over the chunk. `pack`: their matches.

        All clauses with an ID below `before` are covered then, except those in `except_for` (SQC IDs, int64[k]).
        `errors`: counts over the whole chunk, which replace the earlier counts. Earlier counts may be of a part of the
        chunk, as no expression is evaluated while no clause uses it. `failures`: the failures of the clauses. O(packs)
        if packs are merged.
        """
        ensure(self.open is None, self, "a chunk is covered before it is sealed")
        late = frozenset(i for i in self.late | sqc_ids if i >= before)
        merged = MappingProxyType({**self.errors, **errors})
        mark = max(self.covered_before, before)
        gaps = self.gaps.joined(except_for, 0)
        packed = self.with_pack(pack, most_packs)
        failed = self.failures.without(failures.names).plus(failures.names, failures.counts)
        covered = replace(packed, covered_before=mark, late=late, errors=merged, evicted=False, gaps=gaps)
        return replace(covered, failures=failed)

    def without(self, dead: Array, upto: int, errors: Mapping[int, int]) -> ChunkResults:
        """The results without the columns of the SQC IDs `dead` (sorted).

        `upto`: the new value of `compacted`. `errors`: the counts of attributes that are still used.
        """
        packs = tuple(p for p in (pack.without(dead) for pack in self.packs) if len(p.ids))
        late = self.late.difference(dead.tolist())
        counts = MappingProxyType(dict(errors))
        reduced = replace(self, packs=packs, late=late, compacted=upto, errors=counts, gaps=self.gaps.without(dead))
        return replace(reduced, failures=self.failures.without(dead))

    def give_up(self) -> ChunkResults:
        """The results with all columns dropped: every clause is uncovered."""
        met_before, met_late = max(self.met_before, self.covered_before), self.met_late | self.late
        none = replace(self, packs=(), covered_before=0, late=frozenset(), evicted=True, gaps=NO_GAPS)
        none = replace(none, evictions=self.evictions + 1, met_before=met_before, met_late=met_late)
        return replace(none, failures=NO_FAILURES)

    def thinned(self) -> ChunkResults:
        """The results of a sealed chunk whose rows have changed: none, so that maintenance covers the rows left."""
        ensure(self.open is None, self, "a chunk is thinned before it is sealed")
        return replace(self.give_up(), evicted=False, evictions=self.evictions, errors=_NO_ERRORS)

    def met(self, sqc_id: int) -> bool:
        """Whether a clause was evaluated before the chunk's results were dropped. Its matches were counted then."""
        return sqc_id < self.met_before or sqc_id in self.met_late

    def offered(self, pack: Pack, sqc_ids: frozenset[int], most_packs: int = _MOST_PACKS) -> ChunkResults:
        """The results of an evicted chunk, plus columns that readers have offered. Other clauses stay uncovered."""
        ensure(self.evicted and self.open is None, self, "columns are offered to a chunk that is not evicted")
        return replace(self.with_pack(pack, most_packs), late=self.late | sqc_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return self.charged + sum(pack.nbytes for pack in self.packs) + self.failures.nbytes

    def check(self, length: int, list_limit: int) -> None:
        """Check packs and exceptions. Only a clause that is covered up to some offset may have an exception."""
        for pack in self.packs:
            pack.check(length, list_limit)
        self.gaps.check(length)
        self.failures.check()
        missing = [i for i in self.gaps.ids.tolist() if i >= self.covered_before and i not in self.late]
        ensure(not missing, self, "clauses have an exception, and are not covered at all", clauses=missing)


UNCOVERED = ChunkResults(None, covered_before=0, evicted=True)
"""Results of a chunk in the archive: readers evaluate clauses over it on demand."""
