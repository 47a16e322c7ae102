"""What the join needs of an attribute's values: order keys, and which rows have none.

    column or expression --values--> keys, NULLs, errors --Bounds.encode--> codes, anew in every index

An expression over the columns is computed here, once for all clauses that use it: a *derived attribute*. Texts of
derived attributes may take more memory than the tuples that they come from; then fewer tuples are evaluated together.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.columns import Array, Column
from psoup.config import TextLimits
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.guarded import Compute, Raised, guarded
from psoup.expressions.tree import AttributeRef, Expr
from psoup.kernels import codes as kernels
from psoup.model import Kind


@dataclass(frozen=True, slots=True)
class Values:
    """n values of one attribute.

    `keys`: int64[n] order keys, or for TEXT uint64[n], the first eight bytes; `offsets` (int64[n + 1]) and `data`
    (uint8) the texts. `valid`: uint8[n], 0 = NULL, or None if there is none. `error`: uint8[n], 1 = not computable.
    """

    keys: Array
    offsets: Array | None = None
    data: Array | None = None
    valid: Array | None = None
    error: Array | None = None

    def slice(self, start: int, stop: int) -> Values:
        """Some of the values; memory is shared."""
        return Values(
            self.keys[start:stop],
            None if self.offsets is None else self.offsets[start : stop + 1],
            self.data,
            None if self.valid is None else self.valid[start:stop],
            None if self.error is None else self.error[start:stop],
        )

    @property
    def errors(self) -> int:
        """How many values could not be computed."""
        return 0 if self.error is None else int(np.count_nonzero(self.error))


class AllValues(Mapping[int, Values]):
    """The values of some attributes, by their IDs, for the same tuples.

    Raises TooMuchText, when it is made, if the derived texts take more than `texts` allows together: then ask for fewer
    tuples. Of a single tuple those beyond that are computed when they are asked for, each time. Those that are `barred`
    are not computed; `failed`: why others could not be. Of both there is no value.
    """

    def __init__(
        self,
        attributes: Mapping[int, Expr],
        tuples: tuple[Sequence[Column], Array, Array],
        texts: TextLimits,
        compute: Compute = guarded,
        barred: Container[int] = (),
    ) -> None:
        self._attributes, self._tuples, self._texts = attributes, tuples, texts
        self._evaluate, self._barred = compute, barred
        self.failed: dict[int, str] = {}
        self._kept: dict[int, Values] = {}
        made, rows = 0, len(tuples[1])
        for attribute in attributes:
            values = self._compute(attribute)
            made += self.derived_bytes(attribute, values)
            if made > texts.together:
                if rows > 1:
                    raise TooMuchText(2)
                continue
            self._kept[attribute] = values

    def _compute(self, attribute: int) -> Values:
        expr = self._attributes[attribute]
        if attribute not in self._barred:
            try:
                return values_of(self._evaluate(expr, *self._tuples, self._texts))
            except Raised as problem:
                self.failed[attribute] = problem.reason
        return unknown(expr, len(self._tuples[1]))

    def errors_of(self, attribute: int, values: Values) -> int:
        """How many of its values could not be computed, if it was computed at all."""
        return 0 if attribute in self._barred or attribute in self.failed else values.errors

    def derived_bytes(self, attribute: int, values: Values) -> int:
        """The bytes of texts that were made; those of columns are there anyway."""
        derived = values.data is not None and not isinstance(self._attributes[attribute], AttributeRef)
        return len(values.data) if derived else 0  # type: ignore[arg-type]

    def __getitem__(self, attribute: int) -> Values:
        kept = self._kept.get(attribute)
        return self._compute(attribute) if kept is None else kept

    def __iter__(self) -> Iterator[int]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)


def values_of(column: Column) -> Values:
    """The column in the form of the kernels; memory is shared where it has that form already. O(n)."""
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
    """Values of which none could be computed: no interval has them."""
    text = expr.type.kind is Kind.TEXT
    keys = np.zeros(rows, np.uint64 if text else np.int64)
    offsets, data = (np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)) if text else (None, None)
    return Values(keys, offsets, data, np.zeros(rows, np.uint8), np.ones(rows, np.uint8))


def plain(array: Array) -> Array:
    """The array, or a copy if it is read-only or strided: one kind of array means one compiled kernel."""
    if array.flags.c_contiguous and array.flags.writeable:
        return array
    return array.copy()
