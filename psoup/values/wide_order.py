"""The order of numbers of 128 bits, as int64 ranks. Numbers that fit in 64 bits are their own ranks.

5   2**70   -3        ranks  1 2 0
5   7       -3        ranks  5 7 -3
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.model import Kind
from psoup.values.columns import Array, Column
from psoup.values.limbs import integers


def wide_ranks(values: Array) -> Array:
    """The ranks of numbers (LIMBS[n]), int64[n], with their order and equality.

    O(n) if all fit in 64 bits, else O(n log n).
    """
    numbers = integers(values)
    if numbers.dtype != object:
        return numbers
    order = np.lexsort((values["low"], values["high"]))
    rank: Array = np.empty(len(values), np.int64)
    rank[order] = np.cumsum(np.append(False, values[order[1:]] != values[order[:-1]]))
    return rank


def joint_order_keys(columns: Sequence[Column]) -> list[Array]:
    """Order keys of columns of one type, int64, that compare across the columns. Arbitrary for NULL. Not for TEXT."""
    if columns[0].type.kind is not Kind.WIDE:
        return [column.order_keys() for column in columns]
    ranks = wide_ranks(np.concatenate([column.values for column in columns]))
    return np.split(ranks, np.cumsum([len(column) for column in columns[:-1]]))
