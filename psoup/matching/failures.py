"""Failures of a piece: for each clause, the tuples for which errors alone prevent a match (`psoup.results.failures`).

    tuples with an error in some expression ──┬─ joined with the clauses that read one ──────────> matches
                                              └─ joined again, with errors as true ──────> matches and failures

No expression is evaluated here, and a piece without errors costs nothing. The errors of an expression are counted too,
if it was evaluated for all tuples. They are the failures of clauses with a single condition on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from psoup.clauses.error_clauses import Hopeful, hopeful_of, with_errors
from psoup.clauses.index.predicate_index import Part
from psoup.clauses.scratch import Scratch
from psoup.clauses.sides import Side
from psoup.clauses.text_search import Searched
from psoup.config import EngineConfig
from psoup.data.data_stem import Piece
from psoup.data.values import AllValues, Values
from psoup.kernels.rows.bit_blocks import count_rows
from psoup.matching.shard import ShardJoin
from psoup.matching.texts import TextJoin
from psoup.results.open import OpenResults
from psoup.values.columns import Array

_ROWS = 2_048
"""The most tuples of one join. A clause with many matches has a row of as many bits in each of the two joins."""
_SCRATCH = -2
"""The scratch number of these joins."""


def count_failures(side: Side, values: AllValues, piece: Piece, results: OpenResults) -> None:
    """Add the failures and errors of a piece to the results. `values`: the values of all attributes."""
    failing = {attribute: rows for attribute, rows in values.errors.items() if len(rows)}
    for attribute, rows in failing.items():
        if values.is_whole(attribute):
            results.add_errors(attribute, len(rows))
    if not failing:
        return
    among: Array = np.zeros(len(piece), np.bool_)
    for rows in failing.values():
        among[rows] = True
    every = np.flatnonzero(among)
    for start in range(0, len(every), _ROWS):
        tuples = _Tuples(side, values, piece, every[start : start + _ROWS])
        for number, part in enumerate(part for part in side.parts if part.live):
            hopeful_clauses = _hopeful(side, part)
            if len(hopeful_clauses.clauses) and np.isin(hopeful_clauses.plain.attributes, [*failing]).any():
                plain, hopeful = (
                    tuples.matched(searched_plan, number) for searched_plan in hopeful_clauses.parts(part)
                )
                _add(results, part.index.slots[hopeful_clauses.clauses], hopeful - plain)
        for number, (part, plan) in enumerate(side.searched):
            if part.live and np.isin(plan.stripped.part.index.attributes, [*failing]).any():
                plain, hopeful = (tuples.found(searched_plan, number) for searched_plan in (plan, _hoping(side, plan)))
                slots = np.flatnonzero(hopeful > plain)
                _add(results, slots, (hopeful - plain)[slots])


def _add(results: OpenResults, slots: Array, counts: Array) -> None:
    some = counts > 0
    results.add_failures(slots[some].astype(np.int64), counts[some])


def _hopeful(side: Side, part: Part) -> Hopeful:
    """The clauses of a part that read an expression and have more than one condition. Computed once for each part."""
    clauses = part.extra(Hopeful)
    return clauses or part.keep(hopeful_of(part.index, side.computed(part.index.attributes)))


def _hoping(side: Side, plan: Searched) -> Searched:
    """The plan in which a factor with an error is true. Its index is computed once for each part."""
    stripped = plan.stripped
    clauses = stripped.part.extra(Hopeful)
    if clauses is None:
        index = with_errors(stripped.part.index, side.computed(stripped.part.index.attributes))
        clauses = stripped.part.keep(Hopeful(stripped.clauses, stripped.part.index, index))
    return plan.twin_with(Part.of(clauses.hopeful))


@dataclass(slots=True)
class _Tuples:
    """Some tuples of a piece, for counting the matches of each clause among them. `rows`: int64[k], ascending."""

    side: Side
    values: Mapping[int, Values]
    piece: Piece
    rows: Array
    known: dict[int, Values] = field(default_factory=dict)

    def matched(self, part: Part, number: int) -> Array:
        """The number of matches of each clause of a part, int64[R]. The slot of a clause must be its position."""
        aside = OpenResults(self._config(), len(part.index))
        scratch = self.side.scratch.of(_SCRATCH, number)
        join = ShardJoin(part, self._values(part), 0, len(self.rows), self._config(), [scratch])
        join.encode()
        join.match(aside)
        needs = join.needs()
        if len(needs):
            aside.ensure_rows(needs)
            join.match_rest(aside)
        for run in join.runs:
            aside.append_run(run)
        return counts_of(aside)[: len(part.index)]

    def found(self, plan: Searched, number: int) -> Array:
        """The number of matches of clauses with text patterns, by slot."""
        piece = self.piece
        columns = tuple(column.take(self.rows) for column in piece.columns)
        few = Piece(columns, piece.ids[self.rows], piece.times[self.rows], 0)
        slots = int(plan.stripped.whole.index.slots.max()) + 1
        aside = OpenResults(self._config(), slots)
        side = replace(self.side, config=self._config(), costs=None, scratch=Scratch())
        TextJoin(side, number, plan.twin_with(plan.stripped.part), self._values(plan.stripped.part), few, aside).run()
        return counts_of(aside)

    def _config(self) -> EngineConfig:
        return replace(self.side.config, chunk_rows=_ROWS)

    def _values(self, part: Part) -> dict[int, Values]:
        for attribute in part.index.attributes.tolist():
            if attribute not in self.known:
                self.known[attribute] = self.values[attribute].take(self.rows)
        return self.known


def counts_of(results: OpenResults) -> Array:
    """The number of matches of each slot, in results that are not sealed: int64[slots]. O(matches + rows)."""
    counts: Array = np.zeros(len(results.row_of_slot), np.int64)
    slots = np.flatnonzero(results.row_of_slot >= 0)
    if len(slots):
        by_row = np.empty(len(slots), np.int64)
        count_rows(results.rows, by_row)
        counts[slots] = by_row[results.row_of_slot[slots]]
    for run in results.runs:
        counts += np.bincount(run.slots, minlength=len(counts))
    return counts
