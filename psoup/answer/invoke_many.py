"""Joins among the queries of a call for single answers: those of one plan found in one pass, and cut into answers.

    place   0   1   2   3   4          the next queries of the call
    set     a   a   b   -   a          joins of one plan over the same parts of their streams; others
            └───┴───────────┴──> pairs of all of them ──> a message each, the same bytes as of an invocation

For joins of two streams by one equality of columns, whose SELECT list has columns only: in one call of the kernel for
some hundred of them, keys are gathered once, and a join takes a third of what it takes alone. All others are left to
invocations, as are answers that these would give in several batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.answer.completeness import Completeness
from psoup.answer.table_rows import Asking, Group, Set
from psoup.columns import Array
from psoup.errors import PSoupError, ResourceExhausted
from psoup.execution.join.direct_join import direct_join
from psoup.execution.join.join_batch import JoinedForm, JoinedMessage, SideColumns, joined_form, side_memory
from psoup.execution.many.many_joins import EVERY, Pairs, can_be_together
from psoup.execution.many.query_sets import Alike, asked_for
from psoup.execution.rows.record_batch import Cuts
from psoup.plan.nodes import Join, Project
from psoup.plan.standing import StandingQuery
from psoup.published.records import NO_CLAUSE
from psoup.published.snapshot import ChunkEntry
from psoup.results.failures import NO_FAILURES
from psoup.results.sets import TooManyPairs, all_evaluated

LEAST = 32
"""Joins of one plan from which on a pass for all of them takes less time than each alone."""

_MATCHES, _TEXT_MATCHES = 32_767, 16_384
"""Matches of a side up to which an invocation finds all pairs at once; with texts in the SELECT list."""
_PARTNERS, _FEW, _ROWS, _TEXT_ROWS = 4, 1_024, 65_536, 8_192
"""Pairs for each match up to which, and at least, it does; and pairs at most."""
_PAIRS = 1 << 20
_PAIR_BYTES = 24
_CUT_BYTES = 1 << 24
"""Bytes of all rows up to which they are gathered at once."""
_TOO_LARGE = 8
"""An invocation gives an answer up without a look if it has so many matches for each byte that is allowed."""


@dataclass(frozen=True, slots=True)
class JoinedAnswer:
    """The answer of a join: its rows as the parts of a message."""

    completeness: Completeness
    query: StandingQuery
    """One of the same sources."""
    schema_message: bytes
    rows: int
    parts: Sequence[bytes | memoryview]


@dataclass(slots=True)
class _Together:
    """Joins of one plan, found when the first of them is asked for."""

    made: Set
    form: JoinedForm
    window: int
    """Rows of all windows."""
    row_bytes: int
    pairs: Pairs | None = None
    starts: list[int] = field(default_factory=list)
    """Where the rows of each begin."""
    small: list[bool] = field(default_factory=list)
    """Whether an invocation would find the rows of each at once."""
    columns: list[SideColumns] = field(default_factory=list)
    cuts: Cuts | None = None
    tried: bool = False


class ManyJoins:
    """The joins among queries with some IDs (int64[n]; below 0: of no query). `close` gives back what it holds."""

    def __init__(self, asking: Asking, ids: Array) -> None:
        self._asking = asking
        self._of: Array = np.full(len(ids), -1, np.int64)
        self._at: Array = np.zeros(len(ids), np.int64)
        self._together = list[_Together]()
        self._held = 0
        self.failed = False
        """Whether some were found to have too many rows to be found together."""
        by_window: dict[object, Group | PSoupError] = {}
        for alike in asked_for(asking.snapshot, ids, asking.tenant).sets:
            together = self._set_of(alike, ids, by_window)
            if together is not None:
                self._of[alike.places] = len(self._together)
                self._at[alike.places] = np.arange(len(alike.places))
                self._together.append(together)

    def answer(self, place: int, max_bytes: int) -> JoinedAnswer | None:
        """The answer of the query at a place, in at most so many bytes; None: it is to be invoked.

        Raises what ends the read.
        """
        number = int(self._of[place])
        if number < 0:
            return None
        own = self._together[number]
        if not own.tried:
            own.tried = True
            self._find(own)
        pairs, at = own.pairs, int(self._at[place])
        if pairs is None:
            return None
        start, stop = own.starts[at], own.starts[at + 1]
        if not own.small[at] or own.window > _TOO_LARGE * max_bytes or 2 * own.row_bytes * (stop - start) > max_bytes:
            return None
        parts: Sequence[bytes | memoryview] = ()
        if own.cuts is not None and start < stop:
            parts = own.cuts.rows(start, stop)
        elif start < stop:
            parts = [JoinedMessage(own.form, own.columns, list(pairs.rows[:, start:stop])).gathered().data]
        query = own.made.alike.record.query
        return JoinedAnswer(own.made.group.told, query, own.form.form.schema_message, stop - start, parts)

    def close(self) -> None:
        """Give back what it holds; messages stay."""
        self._asking.budget.give_back_joined(self._held)
        self._held, self._together = 0, []
        self._of[:] = -1

    def _set_of(self, alike: Alike, ids: Array, by_window: dict[object, Group | PSoupError]) -> _Together | None:
        """The joins of one plan, if they may be answered together."""
        if len(alike.places) < LEAST or alike.record.sqc_id != NO_CLAUSE or not self._are_simple(alike):
            return None
        form = joined_form(alike.plan.schema, 2)
        if form is None:
            return None
        try:
            made = self._asking.set_of(alike, ids[alike.places], by_window)
        except PSoupError:
            return None  # each invocation says so
        if made.joined is None or not can_be_together(alike.plan, made.seen) or not _are_evaluated(made):
            return None
        if not made.joined.are_worth(len(alike.places)):
            return None
        return _Together(made, form, sum([part.range.high - part.range.low for part in made.seen]), form.form.row_bytes)

    def _are_simple(self, alike: Alike) -> bool:
        """Whether an invocation would find such a join at once."""
        snapshot, plan, limits = self._asking.snapshot, alike.plan, self._asking.snapshot.config.joins
        if not (isinstance(plan, Project) and isinstance(plan.input, Join)) or min(limits.rows, limits.pairs) < _ROWS:
            return False
        direct = direct_join(plan.input)
        if direct is None or not direct.is_single:
            return False
        streams = [side.stream_id for side in snapshot.sides_of(alike.record)]
        return not snapshot.pairs or snapshot.pairs.of(plan.input, streams) is None

    def _find(self, own: _Together) -> None:
        """Find the rows of all joins of a plan, if they are not too many."""
        made = own.made
        assert made.joined is not None
        windows = made.joined.windows
        try:
            self._hold(_PAIR_BYTES * _PAIRS + 4 * sum([part.count for window in windows for part in window]))
            pairs = made.joined.found(made.sides, _PAIRS)
        except (TooManyPairs, ResourceExhausted):
            self.failed = True
            return
        if pairs.errors:
            return
        own.pairs, budget, count = pairs, self._asking.budget, len(made.alike.places)
        starts = np.searchsorted(pairs.queries, np.arange(count + 1))
        own.starts, own.small = starts.tolist(), _are_small(own, pairs.matches, np.diff(starts)).tolist()
        if not len(pairs.queries):
            return
        memory = [side_memory([(part.data, part.offsets) for part in window]) for window in windows]
        own.columns = [SideColumns(side, own.form, at, budget, 0) for at, side in enumerate(memory)]
        every = JoinedMessage(own.form, own.columns, list(pairs.rows))
        if every.can_be_cut and every.size <= _CUT_BYTES:
            self._hold(every.size)
            own.cuts = Cuts(every)

    def _hold(self, size: int) -> None:
        self._asking.budget.hold_joined(size)
        self._held += size


def _are_small(own: _Together, matches: Array, rows: Array) -> Array:
    """Which joins have so few `matches` of both sides, and rows, that an invocation finds them at once: bool[n]."""
    texts = any(own.form.texts)
    fit: Array = np.minimum(np.maximum(_PARTNERS * matches.sum(axis=0), _FEW), _TEXT_ROWS if texts else _ROWS)
    return (rows <= fit) & (matches.max(axis=0) <= (_TEXT_MATCHES if texts else _MATCHES))


def _are_evaluated(made: Set) -> bool:
    """Whether all sides were evaluated over all of their windows, without errors: as
    `psoup.execution.join.located_side` has it."""
    for part, sides in zip(made.seen, made.sides, strict=True):
        wanted = np.unique(sides[sides != EVERY])
        low, high = part.range.low, part.range.high
        for entry in part.view.chunks:
            inside = entry.data.first_id < high and entry.data.end_id > low
            if inside and len(wanted) and not _is_whole(entry, wanted):
                return False
    return True


def _is_whole(entry: ChunkEntry, wanted: Array) -> bool:
    results = entry.results
    plain = not results.errors and results.failures is NO_FAILURES and not results.gaps.ids.size
    return plain and all_evaluated(results, wanted)
