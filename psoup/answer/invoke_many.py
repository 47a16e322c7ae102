"""Joins of one call that invokes many queries: joins of one plan are computed in one pass, each with its own answer.

    place   0   1   2   3   4          the next queries of the call
    set     a   a   b   -   a          a, b: joins of one plan over the same ranges; -: any other query
            └───┴───────────┴──> pairs of all of them ──> a message each, the same bytes as of an invocation

`ManyJoins` accepts joins of two streams by one equality of columns, whose SELECT list has columns only. For some
hundred of them it gathers the keys once. A join then takes a third of the time of its own invocation. The caller
invokes each other query by itself, and also each join whose answer would have several batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from psoup.answer.automatic.noted_answers import note_answers
from psoup.answer.completeness import Completeness
from psoup.answer.table_rows import Group, Set, TableQuestion
from psoup.errors import PSoupError, ResourceExhausted
from psoup.execution.join.direct_join import direct_join
from psoup.execution.join.join_batch import JoinedForm, JoinedMessage, SideColumns, joined_form, side_memory
from psoup.execution.many.many_joins import EVERY, QueryPairs, can_be_together
from psoup.execution.many.query_sets import Alike, asked_for
from psoup.execution.rows.record_batch import Cuts
from psoup.plan.nodes import Join, Project
from psoup.plan.standing_query import StandingQuery
from psoup.plan.way import TryNext
from psoup.published.records import NO_CLAUSE
from psoup.published.snapshot import ChunkEntry
from psoup.results.failures import NO_FAILURES
from psoup.results.sets import TooManyPairs, all_evaluated
from psoup.values.columns import Array

LEAST = 32
"""The fewest joins of one plan for which one common pass is quicker than separate invocations."""

# Within these limits an invocation gives its answer in one batch. The caller invokes a join with a larger answer.
_MATCHES = 32_767
"""The most matches of one side of a join."""
_TEXT_MATCHES = 16_384
"""The most matches of one side of a join, if the SELECT list has texts."""
_PARTNERS = 4
"""The most pairs of a join for each match of its two sides."""
_FEW = 1_024
"""The number of pairs that a join may always have, even if it has few matches."""
_ROWS = 65_536
"""The most pairs of a join."""
_TEXT_ROWS = 8_192
"""The most pairs of a join, if the SELECT list has texts."""

_PAIRS = 1 << 20
"""The most pairs of all joins of one plan."""
_PAIR_BYTES = 24
"""Bytes of memory for each pair."""
_CUT_BYTES = 1 << 24
"""The most bytes of the rows of all joins of one plan that are gathered in one go."""
_TOO_LARGE = 8
"""The most rows of the windows for each byte of the reply. Above it, an invocation says at once that it is too large.
"""


@dataclass(frozen=True, slots=True)
class JoinedAnswer:
    """The answer of a join: its rows as the parts of a message."""

    completeness: Completeness
    query: StandingQuery
    """Any query over the same sources and windows."""
    schema_message: bytes
    rows: int
    parts: Sequence[bytes | memoryview]


@dataclass(slots=True)
class _Together:
    """Joins of one plan. `ManyJoins` finds their rows when the caller asks for the first answer."""

    made: Set
    form: JoinedForm
    window: int
    """Rows of all windows."""
    row_bytes: int
    pairs: QueryPairs | None = None
    starts: list[int] = field(default_factory=list)
    """The first row of each join, and the end of the last: int[n + 1]."""
    small: list[bool] = field(default_factory=list)
    """For each join: whether an invocation would give its answer in one batch."""
    columns: list[SideColumns] = field(default_factory=list)
    cuts: Cuts | None = None
    tried: bool = False


class ManyJoins:
    """The joins among the queries `ids`, int64[n]; a value below 0 stands for no query. `close` returns their
    memory.
    """

    def __init__(self, asking: TableQuestion, ids: Array) -> None:
        self._asking = asking
        self._ids = ids
        self._of: Array = np.full(len(ids), -1, np.int64)
        self._at: Array = np.zeros(len(ids), np.int64)
        self._together = list[_Together]()
        self._held = 0
        self.failed = False
        """Whether the joins of some plan had too many rows for one pass."""
        by_window: dict[object, Group | PSoupError] = {}
        for alike in asked_for(asking.snapshot, ids, asking.tenant).sets:
            with suppress(TryNext):
                self._together.append(self._set_of(alike, ids, by_window))
                self._of[alike.places] = len(self._together) - 1
                self._at[alike.places] = np.arange(len(alike.places))

    def answer(self, place: int, max_bytes: int) -> JoinedAnswer:
        """The answer of the query at a place, in at most `max_bytes` bytes.

        Raises TryNext if the query must be invoked by itself. Raises as `ReadBudget.check` if the read must end.
        """
        number = int(self._of[place])
        if number < 0:
            raise TryNext
        joins = self._together[number]
        if not joins.tried:
            joins.tried = True
            self._find(joins)
        pairs, at = joins.pairs, int(self._at[place])
        if pairs is None:
            raise TryNext
        start, stop = joins.starts[at], joins.starts[at + 1]
        if (
            not joins.small[at]
            or joins.window > _TOO_LARGE * max_bytes
            or 2 * joins.row_bytes * (stop - start) > max_bytes
        ):
            raise TryNext
        parts: Sequence[bytes | memoryview] = ()
        if joins.cuts is not None and start < stop:
            parts = joins.cuts.rows(start, stop)
        elif start < stop:
            parts = [JoinedMessage(joins.form, joins.columns, list(pairs.rows[:, start:stop])).gathered().data]
        query = joins.made.alike.record.query
        note_answers(self._asking.snapshot, self._ids[place : place + 1], query.plan, joins.window)
        return JoinedAnswer(joins.made.group.initial, query, joins.form.form.schema_message, stop - start, parts)

    def close(self) -> None:
        """Return the memory to the budget. Answers that were given stay valid."""
        self._asking.budget.give_back_joined(self._held)
        self._held = 0
        self._together = []
        self._of[:] = -1

    def _set_of(self, alike: Alike, ids: Array, by_window: dict[object, Group | PSoupError]) -> _Together:
        """The joins of one plan. Raises TryNext if the caller must invoke them one by one."""
        if len(alike.places) < LEAST or alike.record.sqc_id != NO_CLAUSE or not self._are_simple(alike):
            raise TryNext
        form = joined_form(alike.plan.schema, 2)
        if form is None:
            raise TryNext
        try:
            made = self._asking.set_of(alike, ids[alike.places], by_window)
        except PSoupError:
            raise TryNext from None  # each invocation raises the problem
        if made.joined is None or not can_be_together(alike.plan, made.seen) or not _are_evaluated(made):
            raise TryNext
        if not made.joined.are_worth(len(alike.places)):
            raise TryNext
        return _Together(made, form, made.window, form.form.row_bytes)

    def _are_simple(self, alike: Alike) -> bool:
        """Whether one kernel finds the pairs of such a join, and an invocation gives them in one batch."""
        snapshot, plan, limits = self._asking.snapshot, alike.plan, self._asking.snapshot.config.joins
        if not (isinstance(plan, Project) and isinstance(plan.input, Join)) or min(limits.rows, limits.pairs) < _ROWS:
            return False
        direct = direct_join(plan.input) if plan.input.joins_streams else None
        if direct is None or not direct.is_single:
            return False
        streams = [side.stream_id for side in snapshot.sides_of(alike.record)]
        return not snapshot.pairs or snapshot.pairs.of(plan.input, streams) is None

    def _find(self, joins: _Together) -> None:
        """Find the rows of all joins of a plan. Finds none if there are too many, or if a value could not be
        computed.
        """
        made = joins.made
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
        joins.pairs, budget, count = pairs, self._asking.budget, len(made.alike.places)
        starts = np.searchsorted(pairs.queries, np.arange(count + 1))
        joins.starts, joins.small = starts.tolist(), _are_small(joins, pairs.matches, np.diff(starts)).tolist()
        if not len(pairs.queries):
            return
        memory = [side_memory([(part.data, part.offsets) for part in window]) for window in windows]
        joins.columns = [SideColumns(side, joins.form, at, budget, 0) for at, side in enumerate(memory)]
        every = JoinedMessage(joins.form, joins.columns, list(pairs.rows))
        if every.can_be_cut and every.size <= _CUT_BYTES:
            self._hold(every.size)
            joins.cuts = Cuts(every)

    def _hold(self, size: int) -> None:
        self._asking.budget.hold_joined(size)
        self._held += size


def _are_small(joins: _Together, matches: Array, rows: Array) -> Array:
    """For each join: whether an invocation would give its answer in one batch. bool[n].

    `matches`: int64[2, n], the matches of each side; `rows`: int64[n], the pairs.
    """
    texts = any(joins.form.texts)
    fit: Array = np.minimum(np.maximum(_PARTNERS * matches.sum(axis=0), _FEW), _TEXT_ROWS if texts else _ROWS)
    return (rows <= fit) & (matches.max(axis=0) <= (_TEXT_MATCHES if texts else _MATCHES))


def _are_evaluated(made: Set) -> bool:
    """Whether all sides were evaluated over their whole windows, without errors.

    `psoup.execution.join.located_side` has the same condition.
    """
    for part, sides in zip(made.seen, made.sides, strict=True):
        if part.view.spec.table is not None:
            return False
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
