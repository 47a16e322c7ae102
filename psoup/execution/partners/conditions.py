"""Conditions over several leaves, tested on rows that are positions in the leaves. A missing tuple is NULL in them.

    r.a + s.b > 9 OR s.c = r.d      the columns read, leaf by leaf, become columns 0 1 2 3 of one scope

A row remains only if all conditions are true in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from psoup.execution.rows.leaf_rows import Flat, LeafFacts, LeafSide, Piece
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.error_guard import every_value
from psoup.expressions.evaluate import Scope, TooMuchText
from psoup.expressions.tree import Call, Expr
from psoup.model import BOOLEAN
from psoup.values.columns import Array


class Conditions:
    """Conditions that all must be true. `errors`: the number of rows so far in which one failed and none was false."""

    def __init__(
        self, conditions: Sequence[Expr], facts: LeafFacts, sides: Sequence[LeafSide], reading: Reading
    ) -> None:
        """`facts`, `sides`: of the leaves of the rows."""
        self.errors = 0
        whole = conditions[0] if len(conditions) == 1 else Call(BOOLEAN, "and", tuple(conditions))
        self._flat = Flat([whole], facts)
        self._sides = sides
        self._reading = reading

    def kept(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Yield the rows that satisfy all conditions."""
        for piece in pieces:
            passed = self.passed(piece)
            if passed.all():
                yield piece
            elif passed.any():
                yield [rows[passed] for rows in piece]

    def close(self) -> None:
        """Do nothing, as conditions hold no bytes."""

    def passed(self, piece: Piece) -> Array:
        """Whether each row satisfies all conditions: bool[n]. O(n)."""
        middle = len(piece[0]) // 2
        try:
            return self._passed(piece)
        except TooMuchText:
            if not middle:
                raise
        first, second = ([rows[part] for rows in piece] for part in (slice(middle), slice(middle, None)))
        # outside the handler, which keeps the failed evaluation alive
        return np.concatenate([self.passed(first), self.passed(second)])

    def _passed(self, piece: Piece) -> Array:
        columns = self._flat.gathered(self._sides, piece)
        reading, ordered = self._reading, [columns[at] for at in range(len(columns))]
        scope = Scope(ordered, len(piece[0]), None, None, reading.now, reading.texts)
        outcome = every_value(self._flat.exprs[0], scope, reading.budget)
        if outcome.error is not None:
            self.errors += int(np.count_nonzero(outcome.error))
        passed: Array = outcome.values if outcome.valid is None else outcome.values & outcome.valid
        return passed
