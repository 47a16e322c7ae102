"""The inputs of a join as sides. A leaf is a side itself. The rows of a composite input are numbered by position.

    input        rows of (a LEFT JOIN b)   0 1 2 3        in their order, all in memory: 4 bytes for each leaf of a row
    leaf a       positions                 0 0 1 2
    leaf b       positions                 4 7 - 3        - is MISSING
    join         pairs (2, 9), (3, 5)      ──> rows (1, -, 9), (2, 3, 5) as positions in the leaves a, b, c

The positions of a composite input are charged to `join_mib` before they are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from psoup.execution.rows.leaf_rows import Flat, LeafFacts, LeafPieces, LeafSide, Piece
from psoup.execution.rows.select_list import shown
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import AttributeRef, Expr, columns_of, of_source, with_columns
from psoup.joins.budget import JoinBudget
from psoup.plan.partners import MISSING
from psoup.values.columns import Array, Column, concat_columns, empty_column

_GROUP_ROWS = 65_536
"""The most rows over which operands of factors are computed at once."""


class InputSide(LeafSide, Protocol):
    """A leaf as the side of a join: also a `psoup.joins.side.JoinSide`."""

    in_memory: bool
    """Whether the side has the methods `memory` and `keys` of a stream's side in memory."""

    def columns(self, exprs: Sequence[Expr]) -> list[Column]:
        """Compute expressions over all rows."""
        ...

    def take(self, exprs: Sequence[Expr], positions: Array) -> list[Column]:
        """Compute expressions over the rows at `positions`."""
        ...


@dataclass(frozen=True, slots=True)
class JoinInput:
    """An input of a join. `positions`: of a composite input, for each leaf the positions of all rows."""

    facts: LeafFacts
    leaves: Sequence[LeafSide]
    leaf: InputSide | None
    """The side of the only leaf, if the rows of the input are all its rows."""
    positions: Sequence[Array] | None
    """For each leaf the positions of all rows, unless `leaf` is set."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        if self.leaf is not None:
            return self.leaf.rows
        assert self.positions is not None
        return len(self.positions[0])

    def at(self, rows: Array) -> Piece:
        """The positions in each leaf of some rows of the input. All are MISSING for a row that is MISSING."""
        if self.positions is None:
            return [rows]
        taken = [
            part.take(rows, mode="clip") if len(part) else np.zeros(len(rows), np.int32) for part in self.positions
        ]
        missing = rows < 0
        return [np.where(missing, np.int32(MISSING), part) for part in taken] if missing.any() else taken

    def some(self, rows: Array) -> JoinInput:
        """The input that has only some of the rows, in their order."""
        return JoinInput(self.facts, self.leaves, None, self.at(rows))

    def side(self, reads: Sequence[AttributeRef] | None, reading: Reading, room: JoinBudget) -> InputSide:
        """The input as a side. `reads`: the columns of a composite input that factors read."""
        if reads is None:
            assert self.leaf is not None
            return self.leaf
        positions = self.positions if self.positions is not None else [np.arange(self.rows, dtype=np.int32)]
        return CompositeSide(Flat(reads, self.facts), self.leaves, positions, reading, room)

    def values(self, expr: Expr, reading: Reading, room: JoinBudget) -> Column:
        """The values of an expression over the leaves, in all rows. O(rows)."""
        reads = list(dict.fromkeys(columns_of(expr)))
        if self.leaf is not None:
            (column,) = self.leaf.columns([of_source(expr, 0)])
        else:
            numbers = {ref: AttributeRef(ref.type, at, ref.name) for at, ref in enumerate(reads)}
            (column,) = self.side(reads, reading, room).columns([with_columns(expr, numbers)])
        return column


class CompositeSide:
    """The rows of a composite input as a side of a join. Expressions read the numbered columns of a scope."""

    in_memory = False

    def __init__(
        self, flat: Flat, leaves: Sequence[LeafSide], positions: Sequence[Array], reading: Reading, room: JoinBudget
    ) -> None:
        """`room`: the account of the bytes of computed columns."""
        self.rows = len(positions[0])
        self._flat = flat
        self._leaves = leaves
        self._positions = positions
        self._reading = reading
        self._room = room

    def columns(self, exprs: Sequence[Expr]) -> list[Column]:
        """Compute expressions over all rows. O(rows). Raises ResourceExhausted if they take too many bytes."""
        parts = list[list[Column]]()
        for start in range(0, self.rows, _GROUP_ROWS):
            for part in self._computed(list(exprs), [part[start : start + _GROUP_ROWS] for part in self._positions]):
                self._room.hold(sum([column.nbytes for column in part]), "the keys of its sides")
                parts.append(part)
        if not parts:
            return [empty_column(expr.type) for expr in exprs]
        return [concat_columns(part) for part in zip(*parts, strict=True)]

    def take(self, exprs: Sequence[Expr], positions: Array) -> list[Column]:
        """Compute expressions over the rows at `positions`. Raises TooMuchText."""
        return self._at_once(list(exprs), [part[positions] for part in self._positions])

    def gather(self, refs: Iterable[AttributeRef], positions: Array) -> dict[int, Column]:
        """Gather numbered columns. Raises TooMuchText."""
        wanted = list(refs)
        return {ref.index: column for ref, column in zip(wanted, self.take(wanted, positions), strict=True)}

    def close(self) -> None:
        """Do nothing: the leaves and the account of bytes are closed by their owner."""

    def _computed(self, exprs: list[Expr], piece: Piece) -> Iterator[list[Column]]:
        middle = len(piece[0]) // 2
        try:
            columns = self._at_once(exprs, piece)
        except TooMuchText:
            if not middle:
                raise
        else:
            yield columns
            return
        for half in (slice(middle), slice(middle, None)):
            yield from self._computed(exprs, [part[half] for part in piece])

    def _at_once(self, exprs: list[Expr], piece: Piece) -> list[Column]:
        reading, columns = self._reading, self._flat.gathered(self._leaves, piece)
        reading.budget.check()
        return shown(exprs, columns, len(piece[0]), None, reading.texts, reading.budget)


def held_rows(opened: LeafPieces, room: JoinBudget, purpose: str) -> list[Array]:
    """The positions of all rows, for each leaf: int32[rows]. Charges their bytes to `room`."""
    pieces = list[list[Array]]()
    for piece in opened:
        room.hold(2 * 4 * len(piece) * len(piece[0]), purpose)  # the pieces, and all rows together
        pieces.append([part.astype(np.int32) for part in piece])
    if not pieces:
        return [np.zeros(0, np.int32) for _ in opened.sides]
    together = [np.concatenate(part) for part in zip(*pieces, strict=True)]
    room.give_back(sum([part.nbytes for part in together]))
    return together
