"""The amount of materialization of a query: how much of its answer the service keeps. No answer depends on it.

    NONE       nothing; an invocation evaluates its window             (NoMat in PSoup, section 5)
    PARTIAL    the matches of its clause, or of the sides of a join    (PSoup-P; the default)
    COMPLETE   the matches and the answer                              (PSoup-C)

An inactive query is kept as NONE until it is active again. The text, values and bound form of a parked one are not in
memory (`psoup.published.parked_queries`). `Keeping` has the amount with its switches. Columns hold a `Keeping` as a
code of one byte, and the default has the code 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # a process reads its settings, with this module, before it chooses the folder of compiled kernels
    from psoup.values.columns import Array


class Amount(Enum):
    """The part of a query's answer that the service keeps."""

    NONE = "NONE"
    PARTIAL = "PARTIAL"
    COMPLETE = "COMPLETE"


_AMOUNTS = (Amount.PARTIAL, Amount.NONE, Amount.COMPLETE)
_AMOUNT_BITS = 3
_EAGER = 4
_INACTIVE = 8
_PARKED = 32
CODES = 64
"""The number of codes; some are not in use. Every code is less."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """The keeping of a query.

    `eager`: of a COMPLETE query, whether the service updates the kept answer after new tuples, before anybody asks.
    `active`: whether new tuples are told to the query. An inactive query remembers its amount. `parked`: of an inactive
    query, whether its statement is not in memory.
    """

    amount: Amount = Amount.PARTIAL
    eager: bool = False
    active: bool = True
    parked: bool = False

    @property
    def idle(self) -> bool:
        """Whether the query has no clause in the index: its amount is NONE, or it is inactive."""
        return self.amount is Amount.NONE or not self.active

    @property
    def ahead(self) -> bool:
        """Whether the service updates the kept answer now: the query is COMPLETE, eager and active."""
        return self.eager and self.active and self.amount is Amount.COMPLETE

    @property
    def of_side(self) -> Keeping:
        """The keeping of the sides of a join with this keeping. A COMPLETE join keeps the matches of its sides."""
        return self if self.idle else AS_USUAL

    @property
    def code(self) -> int:
        """The code of this value in columns: 0 for the default."""
        switches = (_EAGER if self.eager else 0) | (0 if self.active else _INACTIVE) | (_PARKED if self.parked else 0)
        return _AMOUNTS.index(self.amount) | switches

    @staticmethod
    def of(code: int) -> Keeping:
        """The value of a code."""
        return _KEEPINGS[code]


def _keeping(code: int) -> Keeping:
    amount = _AMOUNTS[min(code & _AMOUNT_BITS, len(_AMOUNTS) - 1)]
    return Keeping(amount, code & _EAGER > 0, code & _INACTIVE == 0, code & _PARKED > 0)


_KEEPINGS = tuple(map(_keeping, range(CODES)))
AS_USUAL = Keeping()
"""The default: PARTIAL and active."""


@dataclass(frozen=True, slots=True)
class KeepingChange:
    """A change of some queries' keeping. None leaves a part as it is.

    A query that is parked becomes inactive. An activated query is not parked any more.
    """

    amount: Amount | None = None
    eager: bool | None = None
    active: bool | None = None
    parked: bool | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no part would change."""
        return self == NO_CHANGE

    @property
    def parks(self) -> bool | None:
        """Whether the queries are parked after the change. None if it leaves that as it is."""
        return False if self.active else self.parked

    def of(self, codes: Array) -> Array:
        """The codes (uint8[n]) of queries after the change. O(n)."""
        changed: Array = codes.astype(np.uint8, copy=True)
        if self.amount is not None:
            changed = (changed & np.uint8(CODES - 1 - _AMOUNT_BITS)) | np.uint8(_AMOUNTS.index(self.amount))
        inactive = True if self.parked else None if self.active is None else not self.active
        for bit, wanted in ((_EAGER, self.eager), (_INACTIVE, inactive), (_PARKED, self.parks)):
            if wanted is not None:
                changed = changed | np.uint8(bit) if wanted else changed & np.uint8(CODES - 1 - bit)
        return changed


NO_CHANGE = KeepingChange()


def side_codes(codes: Array) -> Array:
    """The codes of the sides of joins with these codes (uint8[n]); see `Keeping.of_side`."""
    return np.where(idle_codes(codes), codes, np.uint8(AS_USUAL.code))


def idle_codes(codes: Array) -> Array:
    """Flags, bool[n]: whether the queries with these codes (uint8[n]) have no clause in the index."""
    return ((codes & _AMOUNT_BITS) == _AMOUNTS.index(Amount.NONE)) | ((codes & _INACTIVE) > 0)


def inactive_codes(codes: Array) -> Array:
    """Flags, bool[n]: whether the queries with these codes (uint8[n]) are inactive."""
    return (codes & _INACTIVE) > 0


def parked_codes(codes: Array) -> Array:
    """Flags, bool[n]: whether the queries with these codes (uint8[n]) are parked."""
    return (codes & _PARKED) > 0


def with_places_of(codes: Array, before: Array) -> Array:
    """The codes (uint8[n]), but active, inactive or parked as in the codes `before` (uint8[n]): uint8[n]."""
    places = np.uint8(_INACTIVE | _PARKED)
    return (codes & ~places) | (before & places)


def parked_as(keeping: Keeping) -> Keeping:
    """The keeping of a parked query that had another `keeping` before. It remembers its amount."""
    return replace(keeping, active=False, parked=True)


def ahead_codes(codes: Array) -> Array:
    """Flags, bool[n]: whether the service updates the answers of the queries with these codes; see `Keeping.ahead`."""
    complete = (codes & _AMOUNT_BITS) == _AMOUNTS.index(Amount.COMPLETE)
    return complete & ((codes & _EAGER) > 0) & ((codes & _INACTIVE) == 0)
