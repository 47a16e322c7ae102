"""A column of a closed chunk in 8 or 16 bits a value, which a search for a clause reads first.

    keys   1000  1007  NULL  1003          least 1000, shift 0     codes   1   8   0   4        in [1003, 1008): 4 .. 8
    keys   1000  1007  1255  1003          no NULL: from 0 on      codes   0   7 255   3        in [1003, 1008): 3 .. 7
    keys   0.25  0.50  -7.5  0.75          wide: shift > 0         codes say where a value may lie; at the first and the
                                                                   last code of an interval the value itself is asked

A code is (order key - least of the chunk) >> shift; one more, and 0 for NULL, in a column that has NULLs. Where the
keys of a chunk are close together the shift is 0 and codes say all: answers are gathered from them too. TEXT has none.
Codes are never stored nor sent.

Columns whose keys are further apart, up to 2**32, and of which joins read many, are there in 32 bits as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.columns import Array, Column, plain
from psoup.kernels.select import narrow_codes
from psoup.plan.factors import Interval

_MOST = 65_534
_ALL_VALID: Array = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class KeySpan:
    """Codes `first` to `last` may lie in an interval; none if last < first. `exact`: they do."""

    first: int
    last: int
    exact: bool


_NONE = KeySpan(1, 0, True)


@dataclass(frozen=True, slots=True)
class Narrow:
    """`codes`: uint8 or uint16[n]; `least` and `greatest`: order keys of the chunk; `first`: the code of `least`."""

    codes: Array
    least: int
    greatest: int
    shift: int
    first: int

    def span(self, interval: Interval) -> KeySpan:
        """The span of the keys of an interval among the codes. O(1)."""
        low = self.least if interval.low is None else max(int(interval.low), self.least)
        high = self.greatest if interval.high is None else min(int(interval.high) - 1, self.greatest)
        if low > high:
            return _NONE
        below, upto = low - self.least, high - self.least
        whole = (1 << self.shift) - 1
        exact = not below & whole and (high == self.greatest or not (upto + 1) & whole)
        return KeySpan(self.first + (below >> self.shift), self.first + (upto >> self.shift), exact)

    def share(self, span: KeySpan) -> float:
        """The part of the rows that lies in a span, about, if values are spread evenly."""
        return (span.last - span.first + 1) / (2 + ((self.greatest - self.least) >> self.shift))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Short:
    """Values without NULL, less the `least` of them, as `codes`: uint32[n]."""

    codes: Array
    least: int


def short(column: Column, least: int, greatest: int) -> Short | None:
    """A column of whole numbers in 32 bits; None if it has NULLs, or narrow codes say all, or if its keys are further
    apart. O(n)."""
    if column.valid is not None or not _MOST < greatest - least < 2**32:
        return None
    return Short((column.values - least).astype(np.uint32), least)


def narrow(column: Column, least: int, greatest: int) -> Narrow:
    """The codes of a column with a value, of any type but TEXT. O(n)."""
    span = greatest - least
    shift = max(span.bit_length() - 16, 0)
    shift += (span >> shift) > _MOST
    first = int(column.valid is not None)
    codes: Array = np.empty(len(column), np.uint8 if span + first <= 255 else np.uint16)
    valid = _ALL_VALID if column.valid is None else plain(column.valid).view(np.uint8)
    narrow_codes(plain(column.order_keys()), valid, least, shift, codes)
    return Narrow(codes, least, greatest, shift, first)
