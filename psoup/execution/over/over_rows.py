"""The rows of an input with the columns of its window functions.

    rows below ─ one pass over keys and arguments ─> IDs, columns of OVER       in memory until `close`
    SELECT, QUALIFY, ORDER BY ─> other columns are gathered by the IDs, piece by piece

The rows keep the order of the input. A row is its place in the input, from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from psoup.execution.over.functions import FunctionCase, evaluated
from psoup.execution.over.gathered_rows import GatheredRows, SortBytes
from psoup.execution.over.partitions import partitions
from psoup.execution.rows.plan_rows import PlanRows
from psoup.execution.rows.select_list import shown
from psoup.execution.rows.sort import over_rows
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import OVER, AttributeRef, Expr, columns_of, with_columns
from psoup.model import Kind
from psoup.plan.nodes import OrderKey, Over, WindowFunction
from psoup.values.columns import Array, Column, empty_column

_MAX_ROWS = 65_536
"""The most rows whose values are computed at once."""
_PLACE_BYTES = 8
"""Bytes of the place of a row."""


@dataclass(slots=True)
class OverRows:
    """The rows of `rows`, with the columns of `node`. `limit`: the most rows that remain after the first `skip`."""

    rows: PlanRows
    node: Over
    limit: int | None = None
    skip: int = 0
    _ids: Array | None = None
    """The IDs of all rows of the input. None before the first row is read."""
    _columns: list[Column] = field(default_factory=list)
    """The columns of OVER."""
    _account: SortBytes | None = None

    @property
    def reading(self) -> Reading:
        """The matches and limits of the answer."""
        return self.rows.reading

    @property
    def count(self) -> int | None:
        """The number of rows, None if it is not known."""
        return self.rows.count

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        self.limit = rows
        self.skip = skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most `most` rows at a time."""
        try:
            yield from self.arranged(outputs, self._places(), most)
        finally:
            self.close()

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield places of rows, at most `most` at once, with the values of `keys` in parts."""
        places = self._places()
        for start in range(0, len(places), most):
            piece = places[start : start + most]
            yield piece, self.arranged(keys, piece, most)

    def arranged(self, outputs: list[Expr], places: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows at `places`, in that order, at most `most` rows at a time."""
        flat, start = _Flat(outputs, self.node), 0
        for read in self._read(flat.below, places, most):
            rows = len(read[0]) if read else min(most, len(places) - start)
            yield from self._computed(flat, read, places[start : start + rows])
            start += rows

    def close(self) -> None:
        """Drop all columns, and return their bytes to the budget. After that no row can be shown."""
        if self._account is not None:
            self._account.give_back()
        self._ids = self._account = None
        self._columns = []
        self.rows.close()

    def _read(self, below: list[Expr], places: Array, most: int) -> Iterator[list[Column]]:
        """Gather columns of the input at some places. Without columns, yields an empty list for each piece."""
        assert self._ids is not None
        if below:
            yield from self.rows.arranged(below, self._ids[places], most)
            return
        for _ in range(0, len(places), most):
            self.reading.budget.check()
            yield []

    def _computed(self, flat: _Flat, read: list[Column], places: Array) -> Iterator[list[Column]]:
        """Compute expressions over the rows at `places`. Yields several parts if texts are too large for one.

        `read`: the columns of the input at these places.
        """
        columns: list[Column] | None = None
        with suppress(TooMuchText):
            columns = self._shown(flat, read, places)
        if columns is not None:
            yield columns
            return
        middle = len(places) // 2
        for half in (slice(0, middle), slice(middle, len(places))):  # not in the handler: it keeps values alive
            yield from self._computed(flat, [c.slice(half.start, half.stop) for c in read], places[half])

    def _shown(self, flat: _Flat, read: list[Column], places: Array) -> list[Column]:
        """Compute expressions over the rows at `places`. Raises TooMuchText."""
        reading, rows = self.reading, len(places)
        added = [self._columns[at] for at in flat.added]
        texts = sum(column.bytes_at(places) for column in added if column.type.kind is Kind.TEXT)
        if rows > 1 and texts > reading.texts.of(rows):
            raise TooMuchText(2)
        scope = dict(enumerate([*read, *[column.take(places) for column in added]]))
        return shown(flat.exprs, scope, rows, reading.now, reading.texts, reading.budget)

    def _places(self) -> Array:
        """The places of the rows that LIMIT and `skip` leave. The first call computes the columns of OVER."""
        if self._account is None:
            self._account = SortBytes(self.reading.budget)
            self._open(self._account)
        assert self._ids is not None
        stop = len(self._ids) if self.limit is None else min(self.skip + self.limit, len(self._ids))
        self._account.hold(_PLACE_BYTES * max(stop - self.skip, 0))
        return np.arange(self.skip, stop)

    def _open(self, results: SortBytes) -> None:
        """Read all rows, and compute the columns of OVER."""
        reading, total, functions = self.reading, self.rows.count, self.node.functions
        if total is not None and total > reading.sort_rows:
            raise over_rows(total, reading.sort_rows, "OVER")
        work = SortBytes(reading.budget)
        gathered = GatheredRows(list(dict.fromkeys(expr for f in functions for expr in f.read)), work, results, reading)
        try:
            with reading.texts_within(reading.texts.in_pieces(gathered.piece)):
                for ids, parts in self.rows.keyed(gathered.wanted, gathered.rows_at_once(_MAX_ROWS)):
                    gathered.add(ids, parts)
            self._ids, columns = gathered.joined()
            if len(self._ids) > _MAX_ROWS:
                reading.budget.before_long()
            values = dict(zip(gathered.wanted, columns, strict=True))
            self._columns = _columns(functions, values, len(self._ids), work, results)
        finally:
            work.give_back()


def _columns(
    functions: Sequence[WindowFunction], values: Mapping[Expr, Column], rows: int, work: SortBytes, results: SortBytes
) -> list[Column]:
    """The columns of all functions, in the order of the input. Sorts once for each PARTITION BY with its ORDER BY."""
    columns = [empty_column(function.call.type) for function in functions]
    sorts: dict[tuple[tuple[Expr, ...], tuple[OrderKey, ...]], list[int]] = {}
    for place, function in enumerate(functions):
        sorts.setdefault((function.partition, function.order), []).append(place)
    for (partition, order), places in sorts.items() if rows else ():
        account = SortBytes(work.budget)
        try:
            keys = [values[key] for key in partition], [values[key.expr] for key in order]
            ordered = partitions(*keys, order, rows, account)
            for place in places:
                columns[place] = evaluated(FunctionCase(functions[place], ordered, values, account), results)
        finally:
            account.give_back()
    return columns


class _Flat:
    """Expressions rewritten to read one scope: columns of the input, then columns of OVER.

    `below`: the columns of the input that are read. `added`: the places of the columns of OVER that are read.
    """

    def __init__(self, exprs: Sequence[Expr], node: Over) -> None:
        read = list(dict.fromkeys(column for expr in exprs for column in columns_of(expr)))
        added = [column for column in read if column.source == OVER and column.index >= node.first]
        below = [column for column in read if column not in added]
        self.below: list[Expr] = [*below]
        self.added = [column.index - node.first for column in added]
        scope = {column: AttributeRef(column.type, at, column.name) for at, column in enumerate([*below, *added])}
        self.exprs = [with_columns(expr, scope) for expr in exprs]
