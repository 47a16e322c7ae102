"""What the join needs of an attribute's values: order keys, and which rows have none.

    column or expression --values--> keys, NULLs, errors --Bounds.encode--> codes, anew in every index

An expression over the columns is computed here, once for all clauses that use it: a *derived attribute*. Texts of
derived attributes may take more memory than the tuples that they come from; then fewer tuples are evaluated together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.columns import Array, Column
from psoup.config import TextLimits
from psoup.expressions.evaluate import Scope, TooMuchText, evaluate
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Expr
from psoup.kernels import codes as kernels
from psoup.model import BIGINT, TIMESTAMP, Kind


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


def column_of(
    expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits = TextLimits()
) -> Column:
    """The values of an attribute for some tuples: a column as it is, or a computed one. Raises as `evaluate`."""
    if isinstance(expr, AttributeRef):
        if expr.index == ID_INDEX:
            return Column(BIGINT, ids)
        if expr.index == TIME_INDEX:
            return Column(TIMESTAMP, times)
        return columns[expr.index]
    return evaluate(expr, Scope(columns, len(ids), ids, times, None, texts))


class AllValues(Mapping[int, Values]):
    """The values of some attributes, by their IDs, for the same tuples.

    Raises TooMuchText, when it is made, if the derived texts take more than `texts` allows together: then ask for fewer
    tuples. Of a single tuple those beyond that are computed when they are asked for, each time.
    """

    def __init__(
        self,
        attributes: Mapping[int, Expr],
        tuples: tuple[Sequence[Column], Array, Array],
        texts: TextLimits,
    ) -> None:
        self._attributes, self._tuples, self._texts = attributes, tuples, texts
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
        return values_of(column_of(self._attributes[attribute], *self._tuples, self._texts))

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


def plain(array: Array) -> Array:
    """The array, or a copy if it is read-only or strided: one kind of array means one compiled kernel."""
    if array.flags.c_contiguous and array.flags.writeable:
        return array
    return array.copy()
