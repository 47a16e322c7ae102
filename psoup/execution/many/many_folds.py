"""Aggregates of many queries without GROUP BY, in one pass over the chunks. Each clause is a group of the states.

    chunk   count(*) alone     counts from the stored results, without pairs
            other measures     pairs ─ arguments, FILTER ─> folded, the clause of a pair is its group

A pair is a clause and a tuple that it matches. The result is a table with a row for each clause. Measures must give the
same result however their rows are cut into parts. `psoup.execution.many.many_groups` computes all other measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from psoup.aggregates.growth import is_fixed, room_to_add, room_to_combine, states_bytes
from psoup.aggregates.measures import Name, counts_rows, folding_of, read_by, rows_for, state_of, states_for
from psoup.aggregates.packs import FoldPack, pack_of, taken
from psoup.aggregates.state import Folding, State, size_of
from psoup.execution.many.many_shapes import ShownRows, count_errors
from psoup.execution.rows.select_list import shown
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.many_matches import ManyMatches, Part, Progress, Together
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.frame import text_bytes
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import BIGINT, Kind
from psoup.plan.nodes import Aggregate, Having, Measure, Node, Project, Source
from psoup.results.runs import order_of
from psoup.values.columns import Array, Column, concat_columns, value_bytes

_FOLDED = frozenset(
    {"count", "sum", "avg", "min", "max", "first", "last", "any_value", "arg_min", "arg_max"}
    | {"bit_and", "bit_or", "bit_xor"}
)
"""Aggregate functions whose states are exact, however rows are cut into parts."""
_ROWS = 65_536
"""The most rows of the table over which expressions are computed at once."""


@dataclass(frozen=True, slots=True)
class ManyFolds:
    """The Aggregate, HAVING and SELECT list of a plan that `Folded` can compute for many queries."""

    node: Aggregate
    having: Expr | None
    outputs: tuple[Expr, ...]


def can_be_folded(measure: Measure) -> bool:
    """Whether the state of a measure is exact, however rows are cut into parts. False for DISTINCT and ORDER BY."""
    return measure.function in _FOLDED and not measure.distinct and not measure.order


def folds_of(plan: Node) -> ManyFolds | None:
    """The parts of a plan over one stream that has only an Aggregate without keys, HAVING and SELECT. Else None."""
    if not isinstance(plan, Project):
        return None
    node, having = plan.input, None
    if isinstance(node, Having):
        having, node = node.condition, node.input
    if not isinstance(node, Aggregate) or node.keys or not isinstance(node.input, Source):
        return None
    if not all(map(can_be_folded, node.measures)):
        return None
    return ManyFolds(node, having, tuple(output.expr for output in plan.schema))


class Folded:
    """The aggregate states of many clauses. Each clause is a group. `rows`: the matches of each clause, int64[k].

    `errors`: errors in WHERE and arguments of each clause, int64[k]. The bytes of states are charged to `reading`
    before they are allocated. `close` returns the charge.
    """

    def __init__(self, measures: Sequence[Measure], reading: Reading, clauses: int) -> None:
        """Make empty states. `clauses`: the number of clauses. Raises ResourceExhausted if the states are too large."""
        self._measures = measures
        self._reading = reading
        self._clauses = clauses
        self._room = reading.charged()
        self._held = 0
        self._hold((8 + states_bytes(measures)) * clauses)
        self.errors: Array = np.zeros(clauses, np.int64)
        self.rows: Array = np.zeros(clauses, np.int64)
        self._states: dict[Name, tuple[Measure, Folding, State]] = {}
        for name, measure in states_for(measures).items():
            folding = folding_of(measure)
            self._states[name] = measure, folding, folding.empty(clauses)
        read = [expr for measure in measures for expr in read_by(measure)]
        self._wanted: list[Expr] = list(dict.fromkeys(read))
        self._places = {expr: place for place, expr in enumerate(self._wanted)}

    def read(self, together: Together, parts: Sequence[Part], limit: int, progress: Progress) -> None:
        """Fold the matches of all clauses in the parts, in order.

        Raises TooManyPairs if a part has more matches than `limit`.
        """
        for part in parts:
            self._reading.budget.check()
            if self._states:
                self.add(together.in_chunk(*part, limit, progress))
                continue
            counts, errors = together.counted(part, limit, progress)
            self.rows += counts
            if errors is not None:
                self.errors += errors

    def add(self, matches: ManyMatches) -> None:
        """Fold the matches of a chunk. Matches on disk are folded in stream order, as files are read in this order."""
        which, offsets = matches.pairs
        self.rows += np.bincount(which, minlength=self._clauses)
        if matches.errors is not None:
            self.errors += matches.errors
        if not self._wanted or not len(which):
            return
        if not matches.entry.data.in_memory:
            order = order_of(offsets)
            which, offsets = which[order], offsets[order]
        codes, at = which.astype(np.int32), 0
        size = min(len(which) * sum([value_bytes(expr.type) for expr in self._wanted]), self._reading.texts.of(2))
        self._hold(size)
        for columns in self._reading.computed(self._wanted, [(matches.entry.data, offsets)]):
            count = len(columns[0])
            count_errors(columns, which[at : at + count], self.errors)
            self._fold(columns, codes[at : at + count])
            at += count
        self._room.give_back(size)
        self._held -= size

    def _fold(self, columns: Sequence[Column], codes: Array) -> None:
        for name, (measure, folding, state) in self._states.items():
            args = [columns[self._places[arg]] for arg in measure.args]
            condition = None if measure.condition is None else columns[self._places[measure.condition]]
            rows = rows_for(measure, args, condition, codes, len(codes))
            if is_fixed(folding):
                state = folding.add(state, rows)
            else:
                before = self._begin(state, room_to_add(folding, state, rows))
                state = folding.add(state, rows)
                self._end(state, before)
            self._states[name] = measure, folding, state

    def _hold(self, size: int) -> None:
        self._room.hold(size)
        self._held += size

    def _begin(self, state: State, size: int) -> int:
        """Charge `size`, an upper bound of the growth of a state. Returns the bytes held for all other states."""
        self._hold(size)
        return self._held - size - size_of(state)

    def _end(self, state: State, before: int) -> None:
        """Reduce the charge to the actual size of the grown state. `before`: the result of `_begin`."""
        self._room.give_back(self._held - before - size_of(state))
        self._held = before + size_of(state)

    def close(self) -> None:
        """Return the charge for the states. Idempotent."""
        self._room.give_back(self._held)
        self._held = 0

    def join(self, pack: FoldPack, rows: Array | None, places: Array) -> None:
        """Add the states of a pack, whose tuples come after those added so far.

        `rows`: the rows of the pack to take, None for all. `places`: the place of each among the clauses here.
        """
        if pack.errors is not None:
            self.errors[places] += pack.errors if rows is None else pack.errors[rows]
        lines, places = pack.lines(rows, places)
        self.rows[places] += pack.matched if lines is None else pack.matched[lines]
        for which, (name, (measure, folding, state)) in enumerate(self._states.items()):
            copied = pack.bytes_of(which, lines)
            self._hold(copied)
            later = pack.state(which, folding, lines)
            if is_fixed(folding):
                state = folding.combine(state, later, places)
            else:
                before = self._begin(state, room_to_combine(folding, state, later))
                state = folding.combine(state, later, places)
                self._end(state, before)
            self._room.give_back(copied)
            self._held -= copied
            self._states[name] = measure, folding, state

    def packed(self, ids: Array) -> FoldPack:
        """Copy the states into a pack. `ids`: the SQC IDs of the clauses, by place."""
        self._hold(self.nbytes)
        some = np.flatnonzero(self.rows)
        at = some if 3 * len(some) < 2 * len(ids) else None
        states = [taken(folding, state, at) for _, folding, state in self._states.values()]
        return pack_of(ids, at, self.rows if at is None else self.rows[at], self.errors, states)

    def plain(self) -> list[Any]:
        """The rows, errors and values of all states as lists, for comparisons by checks."""
        values = [folding.finish(state, measure, self._clauses) for measure, folding, state in self._states.values()]
        return [self.rows.tolist(), self.errors.tolist(), *[column.to_arrow().to_pylist() for column in values]]

    @property
    def nbytes(self) -> int:
        """Bytes of the states."""
        return self.rows.nbytes + sum(size_of(state) for _, _, state in self._states.values())

    def shown(self, folds: ManyFolds) -> ShownRows:
        """Compute the columns of the answers: a row for each clause that satisfies HAVING."""
        self._hold(sum(value_bytes(measure.type) for measure in self._measures) * self._clauses)
        whole: dict[int, Column] = {}
        for place, measure in enumerate(self._measures):
            if counts_rows(measure):
                whole[place] = Column(BIGINT, self.rows)
            else:
                _, folding, state = self._states[state_of(measure)]
                whole[place] = folding.finish(state, measure, self._clauses)
        rows, counts = np.arange(self._clauses), np.ones(self._clauses, np.int64)
        hidden: Array = np.zeros(self._clauses, np.int64)
        if folds.having is not None:
            (condition,) = computed([folds.having], whole, self._reading)
            count_errors([condition], rows, hidden)
            passed = condition.values if condition.valid is None else condition.values & condition.valid
            rows, counts = np.flatnonzero(passed), passed.astype(np.int64)
            self._hold(sum(column.bytes_at(rows) for column in whole.values()))
            whole = {place: column.take(rows) for place, column in whole.items()}
        columns = computed(folds.outputs, whole, self._reading)
        return ShownRows(counts, None, columns, self.errors, hidden)


def computed(outputs: Sequence[Expr], table: dict[int, Column], reading: Reading) -> list[Column]:
    """Compute expressions over all rows of a table of groups. The bytes are charged to `reading`."""
    if all(isinstance(expr, AttributeRef) for expr in outputs):
        return [table[expr.index] for expr in outputs if isinstance(expr, AttributeRef)]
    size, room = len(next(iter(table.values()))), reading.charged()
    room.hold(sum(value_bytes(expr.type) for expr in outputs) * size)
    parts = list[list[Column]]()
    for start in range(0, max(size, 1), _ROWS):
        for part in _computed(list(outputs), table, start, _ROWS, reading):
            parts.append(part)
            room.hold(sum(text_bytes(column) for column in part if column.type.kind is Kind.TEXT))
    if len(parts) == 1:
        return parts[0]
    copied = sum(column.nbytes for part in parts for column in part)
    room.hold(copied)
    whole = [concat_columns(list(columns)) for columns in zip(*parts, strict=True)]
    room.give_back(copied)
    return whole


def _computed(
    outputs: list[Expr], table: dict[int, Column], start: int, rows: int, reading: Reading
) -> Iterator[list[Column]]:
    """Compute expressions over `rows` rows from `start` on. Yields several parts if texts are too large for one."""
    reading.budget.check()
    some = {place: column.slice(start, min(start + rows, len(column))) for place, column in table.items()}
    size = len(next(iter(some.values())))
    columns: list[Column] | None = None
    with suppress(TooMuchText):
        columns = shown(outputs, some, size, reading.now, reading.texts, reading.budget)
    if columns is not None:
        yield columns
        return
    yield from _computed(outputs, some, 0, size // 2, reading)  # not in the handler: its exception keeps values alive
    yield from _computed(outputs, some, size // 2, size, reading)
