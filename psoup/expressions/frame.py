"""The frame of an evaluator: the rows of an evaluation, and the rules for NULL and error marks.

    frame.column(expr)   the values of an argument            finish(...)   a result whose NULLs and errors are
    frame.text(expr)     the same as Arrow, scalar if constant               those of its arguments plus its own
    lengths of the texts to be made ──Sizes.check──> longer than the limit of a value: errors of these rows
                                                └──> with kept texts more than the limit of all: TooMuchText

A `Frame` computes each distinct subtree once for its scope. It knows no function by name. Text can explode: replacing
every x by 3,000 others, three times, makes 27 GB from one letter. So every function that makes TEXT computes the
lengths of its results first. TooMuchText is not a failure: the caller uses fewer rows, down to one; `evaluate` does so
by itself if the result is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.config import TextLimits
from psoup.errors import Internal
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Call, Expr, Literal, Now
from psoup.model import BIGINT, TEXT, TIMESTAMP, DataType, Kind
from psoup.values.columns import Array, Column
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import TYPES
from psoup.values.limbs import LIMBS, limbs_of


class TooMuchText(Exception):
    """Raised if the texts of these rows exceed the limit; in about `parts` parts they would fit. No bytes were made."""

    def __init__(self, parts: int) -> None:
        super().__init__(f"evaluate in {parts} parts")
        self.parts = parts


class TooMuchWork(Exception):
    """Raised if an expression would make more text over these rows than its limit, while other clients wait."""

    def __init__(self, rows: int, parts: int, limits: TextLimits) -> None:
        limit = (limits.parts or 1) * limits.together
        super().__init__(
            f"it makes some {parts * limits.together:,} bytes of text over {rows:,} tuples, and may make {limit:,}"
        )


class Sizes:
    """The text that one expression has made and keeps. `kept`: bytes of its TEXT subtrees so far; `most`: the limit."""

    def __init__(self, limits: TextLimits, rows: int) -> None:
        self.limits = limits
        self.most = limits.of(rows)
        self.kept = 0

    def check(self, lengths: Array, otherwise: int = 0) -> Array | None:
        """Find the rows whose texts would be too long: bool[n], or None if there are none. Call it before the texts are
        made.

        `lengths`: int64[n], the bytes of each text. `otherwise`: the most bytes that the caller makes for a row that is
        too long. Raises TooMuchText.
        """
        over = lengths > self.limits.value
        if not over.any():
            self.borrow(int(lengths.sum()))
            return None
        self.borrow(int(np.where(over, otherwise, lengths).sum()))
        return over

    def borrow(self, size: int) -> None:
        """Check that `size` further bytes fit. Call it before temporary bytes are made, or bytes that `keep` counts
        later.

        Raises TooMuchText.
        """
        whole = self.kept + size
        if whole > self.most:
            raise TooMuchText(max(-(-whole // max(self.most, 1)), 2))

    def keep(self, size: int) -> None:
        """Add `size` bytes of a computed TEXT subtree, which stays in memory, to `kept`. Raises TooMuchText."""
        self.borrow(size)
        self.kept += size


def text_bytes(column: Column) -> int:
    """The bytes of the texts of a TEXT column. O(1)."""
    return int(column.values[-1] - column.values[0])


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows over which expressions are evaluated.

    `columns`: in schema order, each of `rows` rows; only the columns that expressions read need exist. `ids`, `times`:
    int64[rows], for `_id` and `_time`. `now`: microseconds. `texts`: limits of texts. `memo`: computed subtrees, which
    all expressions of the scope share.
    """

    columns: Sequence[Column]
    rows: int
    ids: Array | None = None
    times: Array | None = None
    now: int | None = None
    texts: TextLimits = TextLimits()
    memo: dict[Call, Column] = field(default_factory=dict, compare=False, repr=False)

    def slice(self, start: int, stop: int) -> Scope:
        """Rows start to stop, as a separate scope. O(columns that are read)."""
        return Scope(
            RowsOf(self.columns, start, stop),
            stop - start,
            None if self.ids is None else self.ids[start:stop],
            None if self.times is None else self.times[start:stop],
            self.now,
            self.texts,
        )


class RowsOf(Sequence[Column]):
    """Some rows of columns. A column is cut only when it is read, because it may be on disk, or missing."""

    def __init__(self, columns: Sequence[Column], start: int, stop: int) -> None:
        self._columns = columns
        self._start = start
        self._stop = stop

    @overload
    def __getitem__(self, index: int) -> Column: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Column]: ...

    def __getitem__(self, index: int | slice) -> Column | Sequence[Column]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._columns[index].slice(self._start, self._stop)

    def __len__(self) -> int:
        return len(self._columns)


Evaluator = Callable[[Call, "Frame"], Column]


@dataclass(frozen=True, slots=True)
class Frame:
    """A scope with the evaluators of all functions, and the count of text made in it."""

    scope: Scope
    evaluators: dict[str, Evaluator]
    sizes: Sizes

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.scope.rows

    def column(self, expr: Expr) -> Column:
        """The value of `expr` in every row."""
        if isinstance(expr, Literal):
            if expr.type.kind is Kind.TEXT:
                self.sizes.borrow(self.rows * constant_bytes(expr))
            return constant_column(expr, self.rows)
        if isinstance(expr, AttributeRef):
            return self._attribute(expr)
        if isinstance(expr, Now):
            return constant_column(Literal(expr.type, self._now()), self.rows)
        column = self.scope.memo.get(expr)
        if column is None:
            column = self.evaluators[expr.name](expr, self)
            if expr.type.kind is Kind.TEXT:
                column = held(column, self.sizes.limits.value)
                self.sizes.keep(text_bytes(column))
            self.scope.memo[expr] = column
        return column

    def columns(self, call: Call) -> list[Column]:
        """All arguments of `call`."""
        return [self.column(arg) for arg in call.args]

    def text(self, expr: Expr) -> pa.Array | pa.Scalar:
        """A TEXT argument as Arrow large_string: a scalar if it is a constant, so that it is not repeated."""
        if isinstance(expr, Literal):
            return pa.scalar(expr.value, pa.large_string())
        return to_large_string(self.column(expr))

    def lengths(self, expr: Expr) -> Array:
        """The bytes of a TEXT argument in every row: int64[rows], or int64[1] if it is a constant. A NULL has
        0 bytes.
        """
        if isinstance(expr, Literal):
            return np.array([constant_bytes(expr)])
        return np.diff(self.column(expr).values)

    def _attribute(self, ref: AttributeRef) -> Column:
        if ref.index >= 0:
            return self.scope.columns[ref.index]
        kind, values = {ID_INDEX: (BIGINT, self.scope.ids), TIME_INDEX: (TIMESTAMP, self.scope.times)}[ref.index]
        if values is None:
            raise Internal(f"an expression reads {ref.name}, but the scope has none")
        return Column(kind, values)

    def _now(self) -> int:
        if self.scope.now is None:
            raise Internal("an expression reads NOW, but the scope has none")
        return self.scope.now


def constant_bytes(literal: Literal) -> int:
    """The length of a TEXT constant in bytes; 0 for NULL."""
    return 0 if literal.value is None else len(str(literal.value).encode())


def constant_column(literal: Literal, rows: int) -> Column:
    """A column that repeats a constant in `rows` rows."""
    if literal.value is None:
        return null_column(literal.type, rows)
    if literal.type.kind is Kind.TEXT:
        data = np.frombuffer(str(literal.value).encode(), np.uint8)
        return Column(literal.type, np.arange(rows + 1, dtype=np.int64) * len(data), None, np.tile(data, rows))
    dtype = TYPES[literal.type.kind].dtype
    value = np.array(limbs_of(int(literal.value)), LIMBS) if dtype is LIMBS else literal.value
    return Column(literal.type, np.full(rows, value, dtype))


def null_column(data_type: DataType, rows: int, error: Array | None = None) -> Column:
    """A column of `rows` NULLs."""
    valid = np.zeros(rows, np.bool_)
    if data_type.kind is Kind.TEXT:
        return Column(data_type, np.zeros(rows + 1, np.int64), valid, np.zeros(0, np.uint8), error)
    return Column(data_type, np.zeros(rows, TYPES[data_type.kind].dtype), valid, None, error)


def all_valid(columns: Sequence[Column]) -> Array | None:
    """The rows in which no argument is NULL, bool[n]. Returns None if no argument has a NULL."""
    return _combine(np.logical_and, [c.valid for c in columns if c.valid is not None])


def any_error(columns: Sequence[Column]) -> Array | None:
    """The rows in which an argument has an error, bool[n]. Returns None if there is no error."""
    return _combine(np.logical_or, [c.error for c in columns if c.error is not None])


def _combine(operation: np.ufunc, flags: Sequence[Array]) -> Array | None:
    if not flags:
        return None
    result = flags[0]
    for flag in flags[1:]:
        result = operation(result, flag)
    return result


def finish(data_type: DataType, values: Array, args: Sequence[Column], failed: Array | None = None) -> Column:
    """The result of a strict function. A row with a NULL argument is NULL. An error of an argument is an error of the
    row.

    `failed`: flags of further errors, which are ignored in NULL rows. `values`: arbitrary in rows that become NULL;
    they are set to zero.
    """
    valid, error = all_valid(args), any_error(args)
    if failed is not None and failed.any():
        failures = failed if valid is None else failed & valid
        if failures.any():
            error = failures if error is None else error | failures
            valid = ~failures if valid is None else valid & ~failures
    values = values.astype(TYPES[data_type.kind].dtype, copy=False)
    if valid is not None:
        values = np.where(valid, values, np.zeros(1, values.dtype))
    return Column(data_type, values, valid, None, error)


def finish_text(array: pa.Array, args: Sequence[Column], failed: Array | None = None) -> Column:
    """The result of a strict function as TEXT that Arrow has computed; see `finish`."""
    marks = finish(BIGINT, np.zeros(len(array), np.int64), args, failed)
    if marks.valid is not None:
        array = pc.if_else(pa.array(marks.valid), array, pa.scalar(None, array.type))
    column = column_from_arrow("result", TEXT, array)
    return Column(TEXT, column.values, column.valid, column.data, marks.error)


def room(sizes: Array, args: Sequence[Column], failed: Array | None = None) -> Column:
    """The result of a strict function as TEXT whose bytes are written later; see `finish`.

    `sizes` (int64[n]): the bytes of each text, 0 for NULL.
    """
    marks = finish(BIGINT, sizes, args, failed)
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(marks.values, out=ends[1:])
    return Column(TEXT, ends, marks.valid, np.empty(int(ends[-1]), np.uint8), marks.error)


def held(column: Column, limit: int) -> Column:
    """Mark each text of a TEXT result that is longer than `limit` bytes as an error. O(1) if the sum of all texts is
    not.
    """
    if text_bytes(column) <= limit:
        return column
    over = np.diff(column.values) > limit
    return finish_text(to_large_string(column), [column], over) if over.any() else column


def to_large_string(column: Column) -> pa.Array:
    """A TEXT column as Arrow; only the offsets of a slice are copied.

    They must start at 0: Arrow's ascii_lower (26.0) reads the wrong bytes of an array whose first offset is not 0.
    """
    assert column.data is not None
    offsets, data = column.values, column.data
    first = int(offsets[0])
    if first:
        offsets, data = offsets - first, data[first:]
    nulls = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    buffers = [nulls, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(column), buffers)


def booleans(array: pa.Array | pa.ChunkedArray) -> Array:
    """An Arrow boolean array as bool[n]; NULL is False."""
    flags: Array = array.fill_null(False).to_numpy(zero_copy_only=False)
    return flags
