"""Aggregates of many queries at once: a state with a group for each clause, chunk by chunk, in one pass.

    chunk   count(*) alone     counts of packs and of lists' ends; no pair is made of them
            other measures     pairs ─ arguments, FILTER ─> folded, the clause of a pair is its group

What comes is a table with a row for each clause, where `psoup.answer.grouped` makes one for a query. Only measures
whose results do not depend on how rows are cut into parts are computed here, and only those without GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.aggregates.measures import folding_of, rows_for
from psoup.aggregates.state import Folding, State, size_of
from psoup.answer.outputs import shown
from psoup.answer.shaped import Shown, count_errors
from psoup.answer.source_rows import Reading
from psoup.answer.together import Found, Together
from psoup.columns import Array, Column, concat_columns
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Expr
from psoup.model import BIGINT
from psoup.plan.nodes import Aggregate, Having, Measure, Node, Project, Source
from psoup.results.runs import order_of

_FOLDED = frozenset({"count", "sum", "avg", "min", "max", "first", "last", "any_value", "arg_min", "arg_max"})
"""Functions whose states have a fixed size for each group, and are exact."""

_ROWS = 65_536
"""Rows of the table of clauses that are computed at once."""


@dataclass(frozen=True, slots=True)
class Folds:
    """The aggregates of a plan that are computed for many queries at once."""

    node: Aggregate
    having: Expr | None
    outputs: tuple[Expr, ...]

    @property
    def counts(self) -> bool:
        """Whether nothing but rows is counted."""
        return all(name_of(measure) == ROWS_COUNTED for measure in self.node.measures)


ROWS_COUNTED = ("count", (), None)
"""The name of count(*) without FILTER."""


def can_be_folded(measure: Measure) -> bool:
    """Whether a measure has a state of fixed size for each group, which is exact."""
    return measure.function in _FOLDED and not measure.distinct


def folds_of(plan: Node) -> Folds | None:
    """The aggregates of a plan, if it has no more than these, HAVING and a SELECT list; None otherwise."""
    if not isinstance(plan, Project):
        return None
    node, having = plan.input, None
    if isinstance(node, Having):
        having, node = node.condition, node.input
    if not isinstance(node, Aggregate) or node.keys or not isinstance(node.input, Source):
        return None
    if not all(map(can_be_folded, node.measures)):
        return None
    return Folds(node, having, tuple(output.expr for output in plan.schema))


def folded(folds: Folds, together: Together, low: int, high: int, most: int, reading: Reading) -> Folded:
    """The aggregates of all clauses over the tuples with IDs in [low, high). Raises as `Together.found`."""
    made = Folded(folds, reading, len(together.ids))
    if folds.counts:
        made.rows, errors = together.counted(low, high, most)
        made.errors += errors
        return made
    for found in together.found(low, high, most):
        made.add(found)
    return made


class Folded:
    """The states of some clauses, int64[k] each: `errors`, of WHERE and of arguments; `rows`, how many they have."""

    def __init__(self, folds: Folds, reading: Reading, clauses: int) -> None:
        self._folds, self._reading, self._clauses = folds, reading, clauses
        self.errors: Array = np.zeros(clauses, np.int64)
        self.rows: Array = np.zeros(clauses, np.int64)
        self._states: dict[object, tuple[Measure, Folding, State]] = {}
        for measure in folds.node.measures:
            if name_of(measure) != ROWS_COUNTED:
                folding = folding_of(measure)
                self._states.setdefault(state_of(measure), (measure, folding, folding.empty(clauses)))
        read = [expr for measure in folds.node.measures for expr in read_by(measure)]
        self._wanted: list[Expr] = list(dict.fromkeys(read))
        self._places = {expr: place for place, expr in enumerate(self._wanted)}

    def add(self, found: Found) -> None:
        """Fold the matches of a chunk, in the order of its tuples: files are read in that order."""
        which, offsets = found.pairs
        self.rows += np.bincount(which, minlength=self._clauses)
        if found.errors is not None:
            self.errors += found.errors
        if not self._wanted or not len(which):
            return
        if not found.entry.data.in_memory:
            order = order_of(offsets)
            which, offsets = which[order], offsets[order]
        codes, at = which.astype(np.int32), 0
        for columns in self._reading.computed(self._wanted, [(found.entry.data, offsets)]):
            count = len(columns[0])
            count_errors(columns, which[at : at + count], self.errors)
            self._fold(columns, codes[at : at + count])
            at += count

    def _fold(self, columns: Sequence[Column], codes: Array) -> None:
        for name, (measure, folding, state) in self._states.items():
            args = [columns[self._places[arg]] for arg in measure.args]
            condition = None if measure.condition is None else columns[self._places[measure.condition]]
            state = folding.add(state, rows_for(measure, args, condition, codes, len(codes)))
            self._states[name] = measure, folding, state

    @property
    def nbytes(self) -> int:
        """Bytes of the states."""
        return self.rows.nbytes + sum(size_of(state) for _, _, state in self._states.values())

    def shown(self) -> Shown:
        """The clauses that satisfy HAVING, a row each, and the columns that these show."""
        whole: dict[int, Column] = {}
        for place, measure in enumerate(self._folds.node.measures):
            if name_of(measure) == ROWS_COUNTED:
                whole[place] = Column(BIGINT, self.rows)
            else:
                _, folding, state = self._states[state_of(measure)]
                whole[place] = folding.finish(state, measure, self._clauses)
        rows, hidden = np.arange(self._clauses), np.zeros(self._clauses, np.int64)
        if self._folds.having is not None:
            (condition,) = computed([self._folds.having], whole, self._reading)
            count_errors([condition], rows, hidden)
            passed = condition.values if condition.valid is None else condition.values & condition.valid
            rows = np.flatnonzero(passed)
            whole = {place: column.take(rows) for place, column in whole.items()}
        columns = computed(self._folds.outputs, whole, self._reading)
        return Shown(rows, None, columns, self.errors, hidden)


def computed(outputs: Sequence[Expr], table: dict[int, Column], reading: Reading) -> list[Column]:
    """Compute expressions over all rows of a table of groups."""
    size = len(next(iter(table.values())))
    starts = range(0, max(size, 1), _ROWS)
    parts = [part for start in starts for part in _computed(list(outputs), table, start, _ROWS, reading)]
    return parts[0] if len(parts) == 1 else [concat_columns(list(of)) for of in zip(*parts, strict=True)]


def _computed(
    outputs: list[Expr], table: dict[int, Column], start: int, rows: int, reading: Reading
) -> Iterator[list[Column]]:
    """Compute expressions over some rows of a table, in one part or several."""
    reading.budget.check()
    some = {place: column.slice(start, min(start + rows, len(column))) for place, column in table.items()}
    size = len(next(iter(some.values())))
    try:
        yield shown(outputs, some, size, reading.now, reading.texts, reading.budget)
    except TooMuchText:
        yield from _computed(outputs, some, 0, size // 2, reading)
        yield from _computed(outputs, some, size // 2, size, reading)


def read_by(measure: Measure) -> list[Expr]:
    """The expressions over tuples that a measure reads."""
    return [*measure.args, *([] if measure.condition is None else [measure.condition])]


def name_of(measure: Measure) -> object:
    """What a measure is made of: measures of an equal name are equal."""
    return measure.function, measure.args, measure.condition


def state_of(measure: Measure) -> object:
    """Measures of an equal name are made of the same state."""
    return folding_of(measure), measure.args, measure.condition
