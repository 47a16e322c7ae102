"""Joins of one plan in one pass. It reads each key once, and finds the pairs of all joins.

    query 0   r 1 4 7        s 2 3      the sides of each query, as sets of positions in the windows
    query 1   r 4            s 2 3 9    the keys of all rows of the windows, by position, gathered once
              └──────────────┴────> (query, row of r, row of s), in the order of queries and of FROM

This serves joins of two streams by one equality, with windows in memory. The windows must have at most 32,768 rows for
each query. The caller answers other joins one by one, with the same rows. Aggregates over joins use the same pass, and
`psoup.execution.many.many_groups` groups its rows by query and key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.errors import ResourceExhausted
from psoup.execution.join.join_rows import JoinRows
from psoup.execution.join.sides import MatchedSide
from psoup.execution.many.many_shapes import PlanShape
from psoup.execution.many.query_sets import distinct_ids
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.many_matches import Together, parts_of
from psoup.execution.select.match_forms import Packed
from psoup.execution.select.window import Reach
from psoup.execution.ways import JOIN_WAYS
from psoup.expressions.frame import text_bytes
from psoup.expressions.tree import Expr
from psoup.joins.budget import JoinBudget
from psoup.joins.key_columns import JoinKeys, keyed
from psoup.kernels.join.set_pairs import pairs_of_sets
from psoup.kernels.search.match_pairs import place_rows
from psoup.model import Kind
from psoup.plan.nodes import Join, Node, Project, walk
from psoup.plan.sides import side_id
from psoup.published.record_block import picked
from psoup.published.snapshot import Snapshot
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array, Column, concat_columns, value_bytes, vast_array
from psoup.work.read_budget import HeldBytes, ReadBudget

EVERY = -1
"""In place of an SQC ID, for a side without a condition."""

JOINED_BYTES = 96
"""Approximate bytes of a match of a side, or of a row of a join, while a call computes them."""
_MATCH_BYTES = 44
"""Bytes of a match of a side: its clause and offset, and its row in the order of clauses."""

_WORTH = 32_768
"""The most rows of the windows for each query. With more rows, single answers are quicker than the common pass."""

_EACH = 16_384
"""The most matches of both sides for each query. With more, single answers are quicker: they cost less for each row."""


def can_be_together(plan: Node, seen: Sequence[Reach]) -> bool:
    """Whether one pass can answer joins of this plan over these windows."""
    return isinstance(plan, Project) and isinstance(plan.input, Join) and _can_be_found(plan.input, seen)


def can_be_grouped(shape: PlanShape, seen: Sequence[Reach]) -> bool:
    """Whether one pass can answer aggregates over joins, for plans of this shape and these windows."""
    return shape.node is not None and isinstance(shape.node.input, Join) and _can_be_found(shape.node.input, seen)


def _can_be_found(join: Join, seen: Sequence[Reach]) -> bool:
    simple = len(join.inputs) == 2 and join.joins_streams and len(join.keys) == 1 and not join.bands and not join.rest
    return simple and all(
        entry.data.in_memory for part in seen for entry, _, _ in parts_of(part.view, part.range.low, part.range.high)
    )


def side_clauses(snapshot: Snapshot, ids: Array, place: int) -> Array:
    """The clauses of one side of the joins `ids`: SQC IDs, int64[n], or EVERY. `place`: the place of the side in FROM.

    O(n log n), and a step of Python for each join outside of blocks.
    """
    sides, back = distinct_ids(ids + side_id(0, place))
    records = snapshot.queries.find(sides)
    sqc_ids: Array = np.full(len(sides), EVERY, np.int64)
    for block, at in records.blocks:
        if block.make(int(at[0])).query.factors:
            sqc_ids[np.searchsorted(sides, picked(block.ids, at))] = picked(block.sqc_ids, at)
    for key, record in records.records.items():
        if record.query.factors:
            sqc_ids[np.searchsorted(sides, key)] = record.sqc_id
    return sqc_ids if back is None else sqc_ids[back]


@dataclass(slots=True)
class QueryPairs:
    """The rows of many joins. `queries`: for each row the number of its query, int32[m], ascending.

    `rows`: for each row the positions of its two tuples in the windows, int32[2, m].
    """

    queries: Array
    rows: Array
    windows: Sequence[Sequence[Packed]]
    """All tuples of each window, chunk by chunk. A position is the number of a tuple in this order."""
    errors: int
    matches: Array
    """For each query the number of matches of both sides whose keys are not NULL: int64[2, n]."""

    def columns(self, plan: Node, low: int, high: int, limit: int, reading: Reading) -> Iterator[list[Column]]:
        """Compute the columns of the plan for the rows [low, high), at most `limit` at a time."""
        assert isinstance(plan, Project)
        yield from self.computed([output.expr for output in plan.schema], join_of(plan), low, high, limit, reading)

    def computed(
        self, exprs: list[Expr], join: Join, low: int, high: int, limit: int, reading: Reading
    ) -> Iterator[list[Column]]:
        """Compute expressions over the rows [low, high), at most `limit` at a time."""
        limits = (reading.texts, reading.budget, reading.joins.bytes)
        sides = [MatchedSide(window, *limits) for window in self.windows]
        rows = JoinRows(reading, join, JOIN_WAYS, sides=sides)
        try:
            yield from rows.arranged(exprs, self.rows[:, low:high].T, limit)
        finally:
            rows.close()


@dataclass(slots=True)
class PairsOfQueries:
    """The rows of joins, query after query, for GROUP BY. `starts`: the first row of each query, int64[k + 1].

    `errors`: int64[k], at first zeros. GROUP BY adds the errors in its keys and arguments.
    """

    pairs: QueryPairs
    join: Join
    reading: Reading
    starts: Array
    errors: Array

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.pairs.queries)

    def columns(self, exprs: Sequence[Expr]) -> dict[Expr, Column]:
        """Compute expressions over all rows. There must be at least one row."""
        wanted, count, room = list(dict.fromkeys(exprs)), self.count, self.reading.charged()
        parts = list[list[Column]]()
        room.hold(count * sum([value_bytes(expr.type) for expr in wanted]))
        for part in self.pairs.computed(wanted, self.join, 0, count, count, self.reading) if wanted else ():
            room.hold(sum([text_bytes(column) for column in part if column.type.kind is Kind.TEXT]))
            parts.append(part)
        if len(parts) == 1:
            return dict(zip(wanted, parts[0], strict=True))
        room.hold(sum([column.nbytes for part in parts for column in part]))
        return {expr: concat_columns([part[at] for part in parts]) for at, expr in enumerate(wanted)}


def by_query(pairs: QueryPairs, plan: Node, queries: int, reading: Reading) -> PairsOfQueries:
    """Prepare the rows of the joins of a plan for GROUP BY. `queries`: the number of joins."""
    starts = np.searchsorted(pairs.queries, np.arange(queries + 1))
    return PairsOfQueries(pairs, join_of(plan), reading, starts, np.zeros(queries, np.int64))


def join_of(plan: Node) -> Join:
    """The join of a plan over several streams."""
    return next(node for _, node in walk(plan) if isinstance(node, Join))


class JoinedSets:
    """The joins of one plan over the same windows, which one pass answers."""

    def __init__(self, snapshot: Snapshot, plan: Node, seen: Sequence[Reach], budget: ReadBudget) -> None:
        self._snapshot = snapshot
        self._join = join_of(plan)
        self._seen = seen
        self._budget = budget
        self._windows = [
            [
                Packed(entry.data, start, stop - start, None)
                for entry, start, stop in parts_of(part.view, *part.range[:2])
            ]
            for part in seen
        ]
        self._large = False
        """Whether an earlier call of `found` has shown that single answers are quicker."""
        self._rows = [sum(part.count for part in window) for window in self._windows]

    @property
    def windows(self) -> Sequence[Sequence[Packed]]:
        """All tuples of each window, chunk by chunk."""
        return self._windows

    def are_worth(self, count: int) -> bool:
        """Whether one pass over the windows is quicker than single answers, for `count` queries."""
        return not self._large and sum(self._rows) <= _WORTH * count

    def found(self, clauses: Sequence[Array], limit: int, room: HeldBytes | None = None) -> QueryPairs:
        """Find the rows of the joins. `clauses`: for each source the clause of each join's side, int64[n].

        The bytes of the rows are charged to `room` before they are allocated. Raises TooManyPairs if there are more
        rows than `limit`, or if single answers are quicker.
        """
        count, errors = len(clauses[0]), 0
        if not self.are_worth(count):
            raise TooManyPairs
        left, whole = min(limit, _EACH * count), _EACH * count <= limit
        keys = self._keys() if all(self._rows) else None
        sides = list[tuple[Array, Array, Array]]()
        for place, wanted in enumerate(clauses):
            distinct, back = distinct_ids(wanted)
            try:
                starts, rows, failed = self._matches(place, distinct, keys.alive[place] if keys else None, left)
            except TooManyPairs:
                self._large = whole
                raise
            left -= len(rows) if whole else 0
            clause_of_query: Array = np.arange(count) if back is None else back
            errors += int(failed[clause_of_query].sum())
            sides.append((clause_of_query, starts, rows))
        if room is not None:
            room.hold(12 * limit + sum([_MATCH_BYTES * len(rows) for _, _, rows in sides]))
        pairs, out = 0, vast_array(3 * limit if keys else 0, np.int32).reshape(3, -1)
        if keys:
            first, second, edge = sides[0], sides[1], keys.edges[0].towards(1)
            pairs = pairs_of_sets(first[0], second[0], *first[1:], *second[1:], edge.left_keys, edge.right_keys, out)
        if pairs < 0:
            raise TooManyPairs
        matches = np.stack([np.diff(starts)[clause_of_query] for clause_of_query, starts, _ in sides])
        return QueryPairs(out[0, :pairs], out[1:, :pairs], self._windows, errors, matches)

    def _keys(self) -> JoinKeys:
        """The keys of both windows. Raises TooManyPairs if one has an error, which only single answers can count."""
        config = self._snapshot.config
        room = JoinBudget(config.joins, self._budget)
        limits = (config.texts, self._budget, config.joins.bytes)
        try:
            keys = keyed(self._join, [MatchedSide(window, *limits) for window in self._windows], room)
        except ResourceExhausted as problem:  # single answers need fewer keys, as their sides are smaller than windows
            self._large = True
            raise TooManyPairs from problem
        finally:
            room.close()
        if keys.errors:
            raise TooManyPairs
        return keys

    def _matches(self, place: int, clauses: Array, alive: Array | None, limit: int) -> tuple[Array, Array, Array]:
        """Find the matches of distinct, ascending clauses in one window, ordered by clause.

        `alive`: for each row of the window whether it can be in a pair. None: all can. Returns the first match of each
        clause, the rows of all matches, and the number of errors of each clause.
        """
        part, parts = self._seen[place], list[_Part]()
        failed: Array = np.zeros(len(clauses), np.int64)
        every = int(len(clauses) > 0 and clauses[0] == EVERY)
        if every:
            parts.append((np.zeros(self._rows[place], np.int64), 0, np.arange(self._rows[place]), 0))
        if len(clauses) > every:
            first = np.cumsum([0, *(which.count for which in self._windows[place])])
            base = {
                id(which.data): int(at) - which.start for which, at in zip(self._windows[place], first, strict=False)
            }
            together = Together(self._snapshot, part.view, clauses[every:], self._budget)
            for matches in together.found(part.range.low, part.range.high, limit):
                limit -= len(matches.pairs.which)
                parts.append((matches.pairs.which, every, matches.pairs.offsets, base[id(matches.entry.data)]))
                failed[every:] += 0 if matches.errors is None else matches.errors
        if alive is not None:
            marks = [alive[rows + base] for *_, rows, base in parts]
            parts = [
                (which[here], first, rows[here], base)
                for here, (which, first, rows, base) in zip(marks, parts, strict=True)
            ]
        return *_merged(parts, len(clauses)), failed


_Part = tuple[Array, int, Array, int]
"""Matches of one chunk: clauses (ascending), a number to add to these, rows, and a number to add to the rows."""


def _merged(parts: Sequence[_Part], sets: int) -> tuple[Array, Array]:
    """Merge the matches of all parts, ordered by clause, then by part. `sets`: the number of clauses.

    Returns the first match of each clause, int64[sets + 1], and the rows of all matches, int32. O(rows + parts * sets),
    as each part has the order of clauses already.
    """
    begin = [np.searchsorted(which, np.arange(-first, sets + 1 - first)) for which, first, _, _ in parts]
    starts: Array = np.zeros(sets + 1, np.int64)
    for begins in begin:
        starts += begins
    merged = vast_array(int(starts[-1]), np.int32)
    free = starts[:-1].copy()
    for begins, (_, _, rows, base) in zip(begin, parts, strict=True):
        place_rows(begins, rows, base, free, merged)
    return starts, merged
