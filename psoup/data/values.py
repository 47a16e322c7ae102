"""Values of an attribute in the form that the join needs: order keys, and flags of NULLs and errors.

    column or expression --values--> keys, NULLs, errors --Bounds.encode--> codes, different in every index

An expression over columns is a *derived attribute*. It is computed here, once for all clauses that use it. Its texts
may take more memory than the tuples. Then the caller evaluates fewer tuples at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.config import TextLimits
from psoup.expressions.error_guard import Compute, Raised, guarded
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import TIME_INDEX, AttributeRef, Expr, attributes_of
from psoup.kernels.arrive import codes as kernels
from psoup.kernels.rows.batch_body import take_texts
from psoup.model import BIGINT, Kind
from psoup.values.columns import Array, Column, empty_column, plain

_UNREAD = empty_column(BIGINT)
_NONE: Array = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Values:
    """n values of one attribute.

    `keys`: int64[n], order keys; for TEXT uint64[n], the first eight bytes. `offsets` (int64[n + 1]) and `data`
    (uint8): the texts. `valid`: uint8[n], 0 = NULL, or None without NULLs. `error`: uint8[n], 1 = not computable.
    """

    keys: Array
    offsets: Array | None = None
    data: Array | None = None
    valid: Array | None = None
    error: Array | None = None

    def slice(self, start: int, stop: int) -> Values:
        """Values `start` to `stop`; memory is shared."""
        return Values(
            self.keys[start:stop],
            None if self.offsets is None else self.offsets[start : stop + 1],
            self.data,
            None if self.valid is None else self.valid[start:stop],
            None if self.error is None else self.error[start:stop],
        )

    def take(self, rows: Array) -> Values:
        """The values at positions `rows` (int64[k]), copied."""
        valid = None if self.valid is None else self.valid[rows]
        error = None if self.error is None else self.error[rows]
        if self.offsets is None or self.data is None:
            return Values(self.keys[rows], None, None, valid, error)
        offsets: Array = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(self.offsets[1:][rows] - self.offsets[:-1][rows], out=offsets[1:])
        data: Array = np.empty(int(offsets[-1]), np.uint8)
        take_texts(self.offsets, self.data, rows, offsets, data)
        return Values(self.keys[rows], offsets, data, valid, error)

    @property
    def errors(self) -> Array:
        """The positions of failed values: int64, ascending."""
        return _NONE if self.error is None else np.flatnonzero(self.error)


class AllValues(Mapping[int, Values]):
    """The values of some attributes, by their IDs, for the same tuples.

    The constructor raises TooMuchText if the derived texts exceed `texts.together`. The caller must then use fewer
    tuples. For a single tuple, texts beyond the limit are computed again at each access. `barred`: attributes that are
    not computed. `failed`: the reasons why other attributes could not be computed. Neither kind has values. `errors`:
    for each other attribute the tuples whose evaluation failed, int64, ascending. For a delayed attribute, these are
    only tuples for which it was computed.
    """

    def __init__(
        self,
        attributes: Mapping[int, Expr],
        tuples: tuple[Sequence[Column], Array, Array],
        texts: TextLimits,
        compute: Compute = guarded,
        barred: Collection[int] = (),
    ) -> None:
        self._attributes = attributes
        self._tuples = tuples
        self._texts = texts
        self._evaluate = compute
        self._barred = barred
        self.failed: dict[int, str] = {}
        self.errors: dict[int, Array] = {}
        self._kept: dict[int, Values] = {}
        self._waited: Mapping[int, Array] = {}
        self._made = 0
        self._add(attributes)

    def wait(self, attributes: Mapping[int, Expr], needed: Mapping[int, Array]) -> None:
        """Compute the delayed attributes. Raises TooMuchText.

        `needed`: the tuples (int64[k], ascending) for which an attribute is computed. An attribute without an entry is
        computed for all tuples.
        """
        self._attributes = {**self._attributes, **attributes}
        self._waited = needed
        self._add(attributes, needed)

    def _add(self, attributes: Iterable[int], needed: Mapping[int, Array] = {}) -> None:
        for attribute in attributes:
            rows = needed.get(attribute)
            values = self._compute(attribute) if rows is None else self._compute_some(attribute, rows)
            if values.data is not None:
                self._made += self.derived_bytes(attribute, values)
            if self._made > self._texts.together:
                if len(self._tuples[1]) > 1:
                    raise TooMuchText(2)
                continue
            self._kept[attribute] = values

    def _compute(self, attribute: int) -> Values:
        values = self._values(attribute, self._tuples)
        if values.error is not None:
            self._note(attribute, values.errors)
        return values

    def _note(self, attribute: int, rows: Array) -> None:
        if len(rows) and attribute not in self._barred and attribute not in self.failed:
            self.errors[attribute] = rows

    def _compute_some(self, attribute: int, rows: Array) -> Values:
        """The values of an attribute, computed for the tuples `rows`. Other tuples have unknown values."""
        expr, size = self._attributes[attribute], len(self._tuples[1])
        if not len(rows):
            return unknown(expr, size)
        values = self._values(attribute, taken(expr, *self._tuples, rows))
        self._note(attribute, rows[values.errors])
        return spread(values, rows, size)

    def _values(self, attribute: int, tuples: tuple[Sequence[Column], Array, Array]) -> Values:
        expr = self._attributes[attribute]
        if attribute not in self._barred:
            try:
                return values_of(self._evaluate(expr, *tuples, self._texts))
            except Raised as problem:
                self.failed[attribute] = problem.reason
        return unknown(expr, len(tuples[1]))

    def is_whole(self, attribute: int) -> bool:
        """Whether the attribute was computed for all tuples."""
        rows = self._waited.get(attribute)
        return rows is None or len(rows) == len(self._tuples[1])

    def derived_bytes(self, attribute: int, values: Values) -> int:
        """The bytes of the texts of a derived attribute. Returns 0 for a column, whose texts are in memory anyway."""
        derived = values.data is not None and not isinstance(self._attributes[attribute], AttributeRef)
        return len(values.data) if derived else 0  # type: ignore[arg-type]

    def __getitem__(self, attribute: int) -> Values:
        values = self._kept.get(attribute)
        return self._compute(attribute) if values is None else values

    def __iter__(self) -> Iterator[int]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)


def values_of(column: Column) -> Values:
    """The values of a column, as arrays for the kernels. They share the column's memory where possible. O(n)."""
    valid = None if column.valid is None else plain(column.valid).view(np.uint8)
    error = None if column.error is None else plain(column.error).view(np.uint8)
    if column.type.kind is not Kind.TEXT:
        return Values(plain(column.order_keys()), None, None, valid, error)
    assert column.data is not None
    offsets = column.values - column.values[0]
    data = plain(column.data[column.values[0] : column.values[-1]])
    keys = np.empty(len(column), np.uint64)
    kernels.prefix_keys(offsets, data, keys)
    return Values(keys, offsets, data, valid, error)


def unknown(expr: Expr, rows: int) -> Values:
    """The values of an attribute that could not be computed. Each is an error, which is in no interval."""
    text = expr.type.kind is Kind.TEXT
    keys = np.zeros(rows, np.uint64 if text else np.int64)
    offsets, data = (np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)) if text else (None, None)
    return Values(keys, offsets, data, np.zeros(rows, np.uint8), np.ones(rows, np.uint8))


def taken(
    expr: Expr, columns: Sequence[Column], ids: Array, times: Array, rows: Array
) -> tuple[list[Column], Array, Array]:
    """Copies of the columns, IDs and times that `expr` reads, for the tuples `rows` (int64[k])."""
    read = attributes_of(expr)
    some = [columns[k].take(rows) if k in read else _UNREAD for k in range(max(read, default=-1) + 1)]
    return some, ids[rows], times[rows] if TIME_INDEX in read else times[:0]


def spread(values: Values, rows: Array, size: int) -> Values:
    """The values of `size` tuples. The tuples `rows` (int64[k], ascending) get `values`, the others unknown values."""
    mask: Array = np.zeros(size, np.uint8)
    mask[rows] = 1
    valid, error = mask.copy(), 1 - mask
    if values.valid is not None:
        valid[rows] = values.valid
    if values.error is not None:
        error[rows] = values.error
    keys = np.zeros(size, values.keys.dtype)
    keys[rows] = values.keys
    if values.offsets is None:
        return Values(keys, None, None, valid, error)
    offsets: Array = np.zeros(size + 1, np.int64)
    offsets[rows + 1] = np.diff(values.offsets)
    return Values(keys, np.cumsum(offsets), values.data, valid, error)
