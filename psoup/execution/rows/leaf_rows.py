"""Rows that are positions in leaves. A row has a position in each leaf until its columns are gathered.

    leaf a   0  0  1  2      pieces: one array of positions for each leaf, in the order of FROM
    leaf b   4  7 -1  3      -1 (MISSING): the row has no tuple of b, and all columns of b are NULL
             │
             └─ SELECT reads (leaf, column): gathered from the side of the leaf, one scope for all leaves

A sort holds the positions of the rows as a matrix, one row each. Rows that were shown leave nothing in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from psoup.execution.rows.select_list import shown
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import AttributeRef, Expr, columns_of, with_columns
from psoup.plan.nodes import Node, PartnerJoin, as_leaf
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array, Column, spread_column

Piece = list[Array]
"""Some rows: for each leaf the positions of the rows in it (int32 or int64), or MISSING."""


class LeafSide(Protocol):
    """The rows of a leaf, by position: the matches of a stream, or the rows of a relation."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    def gather(self, refs: Iterable[AttributeRef], positions: Array) -> dict[int, Column]:
        """Gather columns, by their index, over the rows at `positions` (any order, repeated, or none).

        Raises TooMuchText if the texts of several rows exceed the limit. The caller then takes fewer rows.
        """
        ...

    def close(self) -> None:
        """Return the bytes that the side holds. Idempotent."""
        ...


class LeafPieces(Protocol):
    """Rows in pieces. A piece has the positions of its rows in each of the `sides`."""

    @property
    def sides(self) -> Sequence[LeafSide]:
        """The sides of the leaves, in the order of FROM."""
        ...

    @property
    def errors(self) -> int:
        """The number of values so far that could not be computed."""
        ...

    def __iter__(self) -> Iterator[list[Array]]: ...

    def close(self) -> None:
        """Return the bytes that the pieces hold to the budget. Idempotent."""
        ...


class LeafFacts(NamedTuple):
    """The places of the leaves of a node, in the order of FROM. `optional`: whether rows may miss the leaf."""

    places: tuple[int, ...]
    optional: tuple[bool, ...]

    def beside(self, other: LeafFacts) -> LeafFacts:
        """The facts about pairs of these rows and other rows."""
        return LeafFacts(self.places + other.places, self.optional + other.optional)

    def missing(self) -> LeafFacts:
        """The facts about the same rows if all leaves may be missing."""
        return LeafFacts(self.places, (True,) * len(self.places))


@plan_fact
def leaf_facts(node: Node) -> LeafFacts:
    """The facts about the rows of a node. O(nodes), cached."""
    if (leaf := as_leaf(node)) is not None:
        return LeafFacts((leaf.place,), (False,))
    if isinstance(node, PartnerJoin):
        left, right = leaf_facts(node.left), leaf_facts(node.right)
        if node.kind.filters:
            return left
        kept_left = left.missing() if node.kind.keeps_right else left
        return kept_left.beside(right.missing() if node.kind.keeps_left else right)
    facts = LeafFacts((), ())
    for below in node.inputs:
        facts = facts.beside(leaf_facts(below))
    return facts


@dataclass(slots=True)
class LeafRows:
    """The rows of a node, as positions in its leaves. `limit`: the most rows that remain after the first `skip`.

    A subclass opens the rows.
    """

    reading: Reading
    node: Node
    limit: int | None = field(default=None, kw_only=True)
    skip: int = field(default=0, kw_only=True)
    sides: Sequence[LeafSide] = field(default=(), kw_only=True)
    """The sides to which positions refer. Empty before `pieces` has started."""

    @property
    def count(self) -> int | None:
        """None, as the number of rows is not known before they are found."""
        return None

    def open(self) -> LeafPieces | None:
        """Open the rows, without regard to `limit` and `skip`. Returns None if there are none."""
        raise NotImplementedError

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        self.limit = rows
        self.skip = skip

    def columns(self, outputs: list[Expr], at_once: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most `at_once` rows at a time."""
        flat = Flat(outputs, leaf_facts(self.node))
        try:
            for piece in self.pieces(at_once):
                yield from self._computed(flat, piece)
        finally:
            self.close()

    def keyed(self, keys: list[Expr], at_once: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield rows as positions, int32[n, leaves], at most `at_once` at once, and the values of `keys` in parts."""
        flat = Flat(keys, leaf_facts(self.node))
        for piece in self.pieces(at_once):
            yield np.stack(piece, axis=1).astype(np.int32, copy=False), self._computed(flat, piece)

    def counts(self, at_once: int) -> Iterator[int]:
        """Yield counts that sum to the number of rows. `at_once`: the most rows of a piece."""
        for piece in self.pieces(at_once):
            yield len(piece[0])

    def arranged(self, outputs: list[Expr], places: Array, at_once: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows `places` (int32[n, leaves]), in order, at most `at_once` at a time."""
        flat = Flat(outputs, leaf_facts(self.node))
        for start in range(0, len(places), at_once):
            yield from self._computed(flat, list(places[start : start + at_once].T))

    def close(self) -> None:
        """Close the sides and return their bytes. After that no row can be shown."""
        for side in self.sides:
            side.close()
        self.sides = ()

    def pieces(self, at_once: int) -> Iterator[Piece]:
        """Find the rows that LIMIT and `skip` leave, at most `at_once` in each piece. The caller then calls `close`."""
        reading, skip, left = self.reading, self.skip, self.limit
        opened = self.open()
        if opened is None:
            return
        self.sides, noted = opened.sides, 0
        try:
            for piece in opened:
                reading.join_errors += opened.errors - noted
                noted = opened.errors
                start, stop = min(skip, len(piece[0])), len(piece[0])
                skip -= start
                if left is not None:
                    stop = min(stop, start + left)
                    left -= stop - start
                for first in range(start, stop, at_once):
                    reading.budget.check()
                    yield [positions[first : min(first + at_once, stop)] for positions in piece]
                if left == 0:
                    return
        finally:
            reading.join_errors += opened.errors - noted
            opened.close()

    def _computed(self, flat: Flat, piece: Piece) -> Iterator[list[Column]]:
        """Compute expressions over the rows of a piece. Yields several parts if texts are too large for one."""
        reading, rows = self.reading, len(piece[0])
        whole: list[Column] | None = None
        with suppress(TooMuchText):
            gathered = partial(flat.gathered, self.sides, piece)
            whole = shown(flat.exprs, gathered(), rows, reading.now, reading.texts, reading.budget)
        if whole is not None:
            yield whole
            return
        middle = rows // 2
        for half in (slice(0, middle), slice(middle, rows)):  # not in the handler: its exception keeps values alive
            yield from self._computed(flat, [positions[half] for positions in piece])


class Flat:
    """Expressions over several leaves, rewritten to read one scope that has the columns of all leaves."""

    def __init__(self, exprs: Sequence[Expr], facts: LeafFacts) -> None:
        read = dict.fromkeys(column for expr in exprs for column in columns_of(expr))
        places = {column: AttributeRef(column.type, at, column.name) for at, column in enumerate(read)}
        self.exprs = [with_columns(expr, places) for expr in exprs]
        self._places = {(column.source, column.index): at.index for column, at in places.items()}
        wanted: dict[int, list[AttributeRef]] = {place: [] for place in facts.places}
        for column in read:
            wanted[column.source].append(column)
        self._wanted = list(zip(facts.places, facts.optional, wanted.values(), strict=True))

    def gathered(self, sides: Sequence[LeafSide], piece: Piece) -> dict[int, Column]:
        """Gather the columns that the expressions read, by their places in the scope. Raises TooMuchText."""
        columns = dict[int, Column]()
        for (place, optional, wanted), side, positions in zip(self._wanted, sides, piece, strict=True):
            if wanted:
                gather = gather_or_null if optional else _gather
                gathered = gather(side, wanted, positions)
                columns |= {self._places[place, index]: column for index, column in gathered.items()}
        return columns


def _gather(side: LeafSide, refs: Sequence[AttributeRef], positions: Array) -> dict[int, Column]:
    return side.gather(refs, positions)


def gather_or_null(side: LeafSide, refs: Sequence[AttributeRef], positions: Array) -> dict[int, Column]:
    """Gather columns of a leaf, by their index. They are NULL where the position is MISSING. Raises TooMuchText."""
    present = positions >= 0
    if present.all():
        return side.gather(refs, positions)
    gathered = side.gather(refs, positions[present])
    return {index: spread_column(column, present) for index, column in gathered.items()}
