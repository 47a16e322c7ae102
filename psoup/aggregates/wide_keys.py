"""Keys of 128 bits, such as sums of a subselect, as two BIGINT keys each. The keys have the order of the numbers.

    5            0, 5 - 2**63
    2**64 + 5    1, 5 - 2**63
    NULL         NULL, NULL

The first key is the high word. The second one is the low word, which is unsigned, less 2**63.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.data.dictionary_column import Coded
from psoup.model import BIGINT, DataType, Kind
from psoup.values.columns import Array, Column
from psoup.values.limbs import LIMBS

_FLIP = np.uint64(1 << 63)


def halved_types(types: Sequence[DataType]) -> list[DataType]:
    """The types of the keys: two BIGINTs for a type of 128 bits."""
    return [half for kind in types for half in ([BIGINT, BIGINT] if kind.kind is Kind.WIDE else [kind])]


def halved(columns: Sequence[Column | Coded]) -> list[Column | Coded]:
    """The key columns, with both halves of each column of 128 bits. O(rows)."""
    return [half for column in columns for half in _halves(column)]


def _halves(column: Column | Coded) -> Iterator[Column | Coded]:
    if isinstance(column, Coded) or column.type.kind is not Kind.WIDE:
        yield column
        return
    low: Array = (column.values["low"] ^ _FLIP).view(np.int64)
    valid = column.valid
    for half in (np.ascontiguousarray(column.values["high"]), low):
        yield Column(BIGINT, half if valid is None else np.where(valid, half, 0), valid)


def joined(types: Sequence[DataType], halves: Sequence[Column]) -> list[Column]:
    """The opposite of `halved`. `types`: the types of the joined columns."""
    rest, columns = iter(halves), list[Column]()
    for kind in types:
        first = next(rest)
        if kind.kind is not Kind.WIDE:
            columns.append(first)
            continue
        values: Array = np.zeros(len(first), LIMBS)
        values["high"], values["low"] = first.values, next(rest).values.view(np.uint64) ^ _FLIP
        if first.valid is not None:
            values[~first.valid] = 0
        columns.append(Column(kind, values, first.valid))
    return columns
