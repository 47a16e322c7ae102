"""The rows of a join: a position in each of its sides, found when the answer is read, and shown by gathering from each.

    sides ─ psoup.joins.join_pieces ─> pieces: one array of positions for each source, in FROM order
                                    └─ SELECT reads (source, column): gathered from its side, one scope for all of them

For a sort, a row is the row of a matrix: its positions. Nothing is kept of rows that have been shown.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from psoup.columns import Array, Column
from psoup.execution.join.join_batch import MESSAGES, Blocks, JoinedForm, JoinedMessage, SideColumns
from psoup.execution.join.kept_pairs import KeptRows, kept_rows
from psoup.execution.join.lookup_filter import cut_down
from psoup.execution.join.routed_join import SHARED, Direct, Found, found_in, tested
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.select_list import shown
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import AttributeRef, Expr, columns_of, with_columns
from psoup.joins.residual import without_rest
from psoup.plan.nodes import Join
from psoup.plan.sides import MOST_SOURCES
from psoup.runner import serial, threads_of

_LARGE = 400_000
"""Bytes of a message that is gathered with others: some 50 us."""

Piece = list[Array]
"""Some rows: their positions in each side."""


@dataclass(slots=True)
class JoinRows:
    """The rows of a join; `limit`: only the first of them after `skip`."""

    reading: Reading
    node: Join
    limit: int | None = None
    skip: int = 0
    _sides: list[MatchedSide] = field(default_factory=list)
    _kept: KeptRows | None = None
    _found: Found | None = None
    """What was asked how many rows there are."""

    @property
    def count(self) -> int | None:
        """The number of rows: not known before they are found."""
        return None

    def cut(self, rows: int | None, skip: int) -> None:
        """Leave only the first rows after `skip`; once. O(1)."""
        self.limit, self.skip = rows, skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most so many rows at a time."""
        flat = _Flat(outputs)
        self._open()
        try:
            for piece in self._pieces(most):
                yield from self._computed(flat, piece)
        finally:
            self.close()

    def messages(self, form: JoinedForm, most: int, most_bytes: int) -> Iterator[JoinedMessage] | None:
        """The rows in order, at most so many at a time, as messages; None if some side is not in memory.

        Large messages are gathered beforehand, each on a thread, unless they have more than `most_bytes`.
        """
        self._open()
        if not all(side.in_memory for side in self._sides):
            return None
        return self._gathered(self._messages(form, most), most_bytes)

    def _gathered(self, messages: Generator[JoinedMessage, None, None], most_bytes: int) -> Iterator[JoinedMessage]:
        waiting, blocks = list[JoinedMessage](), Blocks(self.reading.budget)
        most = MESSAGES if threads_of(self.reading.run) > 1 else 1
        try:
            for message in messages:
                if _LARGE <= message.size <= most_bytes:
                    waiting.append(message)
                    if len(waiting) < most:
                        continue
                    yield from self._early(waiting, blocks)
                else:
                    if waiting:
                        yield from self._early(waiting, blocks)
                    yield message
                waiting = []
            if waiting:
                yield from self._early(waiting, blocks)
        finally:
            messages.close()
            blocks.close()

    def _early(self, messages: list[JoinedMessage], blocks: Blocks) -> list[JoinedMessage]:
        """The same messages, gathered."""
        work = [partial(message.gather_into, blocks.take(message.size)) for message in messages]
        threads = threads_of(self.reading.run) if len(work) > 1 else 1
        shares = [work[place::threads] for place in range(threads)]
        run = self.reading.run if threads > 1 else serial
        run([partial(serial, share) for share in shares])
        return messages

    def _messages(self, form: JoinedForm, most: int) -> Generator[JoinedMessage, None, None]:
        shown = list[SideColumns]()
        try:
            for piece in self._pieces(most):
                if not shown:
                    shown = self._shown(form, piece)
                yield JoinedMessage(form, shown, piece)
        finally:
            for side in shown:
                side.close()
            self.close()

    def _shown(self, form: JoinedForm, piece: Piece) -> list[SideColumns]:
        """The columns of all sides; the rows of a first piece tell how many there will be, about."""
        driving, budget = piece[0], self.reading.budget
        expected = len(driving) * self._sides[0].rows / (int(driving[-1]) + 1)
        expected = expected if self.limit is None else min(expected, self.limit)
        shown = [SideColumns(side.memory, form, place, budget, expected) for place, side in enumerate(self._sides)]
        run = self.reading.run if sum([side.rows for side in self._sides]) >= SHARED else serial
        run([side.task for side in shown if side.task is not None])
        return shown

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """The rows as int32[n, sources], at most so many at once, and expressions over them, in parts."""
        flat = _Flat(keys)
        self._open()
        for piece in self._pieces(most):
            yield np.stack(piece, axis=1).astype(np.int32, copy=False), self._computed(flat, piece)

    def counts(self, most: int) -> Iterator[int]:
        """The number of rows, in parts; they are found, at most so many at once, only if nothing less tells."""
        self._open()
        whole = self._whole()
        if whole is not None:
            yield whole
            return
        for piece in self._pieces(most):
            yield len(piece[0])

    def _whole(self) -> int | None:
        """The number of rows, if that is known without them; sides are open."""
        if self._kept is not None or self.limit is not None or self.skip or not all(s.rows for s in self._sides):
            return None
        self._found = found_in(self.node, self._sides, self.reading, few=False)
        return self._found.count() if isinstance(self._found, Direct) else None

    def arranged(self, outputs: list[Expr], places: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over rows (int32[n, sources]) in their order, at most so many at a time."""
        flat = _Flat(outputs)
        for start in range(0, len(places), most):
            yield from self._computed(flat, list(places[start : start + most].T))

    def close(self) -> None:
        """Give back what the sides hold: no row can be shown any more."""
        if self._found is not None:
            self._found.close()
            self._found = None
        for side in self._sides:
            side.close()
        self._sides = []
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _open(self) -> None:
        """Take up the sides, anew."""
        reading = self.reading
        if reading.pairs is not None:
            self._kept = kept_rows(without_rest(self.node), reading.pairs, reading, few=self.limit is not None)
        if self._kept is not None:
            self._sides = self._kept.sides
            return
        limits = (reading.texts, reading.budget, reading.joins.bytes, reading.run)
        self._sides = [MatchedSide(matches, *limits) for matches in cut_down(self.node, reading)]

    def _pieces(self, most: int) -> Iterator[Piece]:
        """The rows that are not cut, at most so many in each piece; sides are open."""
        reading, skip, left = self.reading, self.skip, self.limit
        if left == 0 or not all(side.rows for side in self._sides):
            return
        if self._kept is None:
            found = self._found or found_in(self.node, self._sides, reading, few=self.limit is not None)
        else:
            found = tested(self._kept, self.node, self._sides, reading)
        try:
            for piece in found:
                reading.join_errors = found.errors
                start, stop = min(skip, len(piece[0])), len(piece[0])
                skip -= start
                if left is not None:
                    stop = min(stop, start + left)
                    left -= stop - start
                for first in range(start, stop, most):
                    reading.budget.check()
                    yield [positions[first : min(first + most, stop)] for positions in piece]
                if left == 0:
                    return
        finally:
            reading.join_errors = found.errors
            found.close()

    def _computed(self, flat: _Flat, piece: Piece) -> Iterator[list[Column]]:
        """Compute expressions over some rows, in one part or several, in order."""
        reading, rows = self.reading, len(piece[0])
        whole: list[Column] | None = None
        with suppress(TooMuchText):
            gathered = partial(flat.gathered, self._sides, piece)
            whole = shown(flat.exprs, gathered(), rows, reading.now, reading.texts, reading.budget)
        if whole is not None:
            yield whole
            return
        middle = rows // 2
        for half in (slice(0, middle), slice(middle, rows)):  # not in a handler, which would hold the whole
            yield from self._computed(flat, [positions[half] for positions in piece])


class _Flat:
    """Expressions over several sources as expressions over one scope, whose columns come from any of them."""

    def __init__(self, exprs: Sequence[Expr]) -> None:
        read = dict.fromkeys(column for expr in exprs for column in columns_of(expr))
        places = {column: AttributeRef(column.type, at, column.name) for at, column in enumerate(read)}
        self.exprs = [with_columns(expr, places) for expr in exprs]
        self._places = {(column.source, column.index): at.index for column, at in places.items()}
        self._wanted = [[column for column in read if column.source == place] for place in range(MOST_SOURCES)]

    def gathered(self, sides: Sequence[MatchedSide], piece: Piece) -> dict[int, Column]:
        """The columns that the expressions read, by their places in the scope. Raises TooMuchText."""
        columns = dict[int, Column]()
        for place, (side, positions) in enumerate(zip(sides, piece, strict=True)):
            if self._wanted[place]:
                found = side.gather(self._wanted[place], positions)
                columns |= {self._places[place, index]: column for index, column in found.items()}
        return columns
