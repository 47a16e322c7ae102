"""Narrow codes: a column of a closed chunk in 8 or 16 bits a value, which a search reads first.

    keys   1000  1007  NULL  1003          least 1000, shift 0     codes   1   8   0   4        in [1003, 1008): 4 .. 8
    keys   1000  1007  1255  1003          no NULL: from 0 on      codes   0   7 255   3        in [1003, 1008): 3 .. 7
    keys   0.25  0.50  -7.5  0.75          wide: shift > 0         a code stands for a range of values;
                                                                   at the ends of an interval the value itself is read

A code is (order key - least key of the chunk) >> shift. In a column with NULLs it is one more, and 0 stands for NULL.
If the keys of a chunk are close together, the shift is 0 and codes are exact. Then kernels also gather the values of
answers from them. TEXT has no codes. Codes are never stored or sent.

Columns with keys further apart, up to 2**32, are stored in 32 bits too, if joins read many of their rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.kernels.search.row_masks import narrow_codes
from psoup.plan.factors import Interval
from psoup.values.columns import Array, Column, plain

_MOST = 65_534
"""The greatest code of a column without NULLs."""
_ALL_VALID: Array = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class KeySpan:
    """The codes `first` to `last` of the values that may be in an interval; no code if last < first.

    `exact`: whether all values with these codes are in the interval.
    """

    first: int
    last: int
    exact: bool


_NONE = KeySpan(1, 0, True)


@dataclass(frozen=True, slots=True)
class Narrow:
    """A column in narrow codes. `codes`: uint8 or uint16[n]. `shift`: see the module. `first`: the code of `least`.

    `least`, `greatest`: the least and the greatest order key of the column.
    """

    codes: Array
    least: int
    greatest: int
    shift: int
    first: int

    def span(self, interval: Interval) -> KeySpan:
        """The codes of the keys in an interval. O(1)."""
        low = self.least if interval.low is None else max(int(interval.low), self.least)
        high = self.greatest if interval.high is None else min(int(interval.high) - 1, self.greatest)
        if low > high:
            return _NONE
        below, upto = low - self.least, high - self.least
        whole = (1 << self.shift) - 1
        exact = not below & whole and (high == self.greatest or not (upto + 1) & whole)
        return KeySpan(self.first + (below >> self.shift), self.first + (upto >> self.shift), exact)

    def share(self, span: KeySpan) -> float:
        """The approximate part of the rows in a span, assuming evenly spread values."""
        return (span.last - span.first + 1) / (2 + ((self.greatest - self.least) >> self.shift))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Short:
    """A column without NULLs in 32 bits a value. `codes`: uint32[n], each value minus `least`."""

    codes: Array
    least: int


def short(column: Column, lowest: int, highest: int) -> Short | None:
    """A column of whole numbers in 32 bits a value. O(n).

    Returns None if it has NULLs, if narrow codes are exact, or if the keys are too far apart.
    """
    if column.valid is not None or not _MOST < highest - lowest < 2**32:
        return None
    return Short((column.values - lowest).astype(np.uint32), lowest)


def narrow(column: Column, lowest: int, highest: int) -> Narrow:
    """The codes of a column with at least one value, of any type but TEXT. O(n)."""
    span = highest - lowest
    shift = max(span.bit_length() - 16, 0)
    shift += (span >> shift) > _MOST
    first = int(column.valid is not None)
    codes: Array = np.empty(len(column), np.uint8 if span + first <= 255 else np.uint16)
    valid = _ALL_VALID if column.valid is None else plain(column.valid).view(np.uint8)
    narrow_codes(plain(column.order_keys()), valid, lowest, shift, codes)
    return Narrow(codes, lowest, highest, shift, first)
