"""Operands of factors with numbers of 128 bits, such as sums of a subselect, as int64 keys that compare exactly.

    sum   DECIMAL(38,2)   1050      10.50
    n     BIGINT          1000      10, in units of the finer scale
    x     DOUBLE 7.9      7 or 8    an integer with the same comparisons

If a number leaves 64 bits, the keys are ranks.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from psoup.model import Kind
from psoup.values.columns import Array, Column
from psoup.values.limbs import integers, largest

_BEYOND = 2**200
"""A number that is greater than all numbers of 128 bits at any scale."""
_MOST = 2**63


def wide_keys(left: Column, right: Column, operator: str) -> tuple[Array, Array, Array, str]:
    """Keys of both operands: int64 by row. `left` has an exact type, and one of them has 128 bits.

    Returns the keys of the left, the keys of the right, flags of rows, and the operator between keys. The flags mark
    the rows of the right that can have a partner. O(rows) if all numbers fit in 64 bits, else O(rows * log rows), with
    a large constant.
    """
    scale = max(left.type.scale, right.type.scale)
    first = _scaled(left, scale)
    can: Array = np.ones(len(right), np.bool_)
    if right.type.kind is Kind.DOUBLE:
        second, can = _of_doubles(right.values, scale, operator)
        operator = {"lt": "le", "gt": "ge"}.get(operator, operator)
    else:
        second = _scaled(right, scale)
    if first.dtype != object and second.dtype != object:
        return first, second, can, operator
    both = np.concatenate([first.astype(object), second.astype(object)])
    _, ranks = np.unique(both, return_inverse=True)
    ranks = ranks.astype(np.int64)
    return ranks[: len(first)], ranks[len(first) :], can, operator


def _scaled(column: Column, scale: int) -> Array:
    """The numbers in units of 10**-scale: int64, or Python's integers if one does not fit."""
    numbers = integers(column.values) if column.type.kind is Kind.WIDE else column.values.astype(np.int64)
    factor = 10 ** (scale - column.type.scale)
    if factor == 1:
        return numbers
    return numbers * factor if largest(numbers) * factor < _MOST else numbers.astype(object) * factor


def _of_doubles(values: Array, scale: int, operator: str) -> tuple[Array, Array]:
    """Integers for DOUBLEs in units of 10**-scale, and flags of the values that an exact number can satisfy.

    For every integer `number`, `number operator value` equals its comparison with the key. The latter uses <= in place
    of <, and >= in place of >. NaN is greater than all numbers.
    """
    keys: Array = np.zeros(len(values), object)
    can: Array = np.ones(len(values), np.bool_)
    for row, value in enumerate(values.tolist()):
        if not math.isfinite(value):
            keys[row], can[row] = -_BEYOND if value == -math.inf else _BEYOND, operator != "eq"
            continue
        exact = Fraction(value) * 10**scale
        floor, ceiling = math.floor(exact), math.ceil(exact)
        can[row] = operator != "eq" or floor == ceiling
        keys[row] = {"gt": floor + 1, "lt": ceiling - 1, "ge": ceiling}.get(operator, floor)
    return keys, can
