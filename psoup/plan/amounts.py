"""The amount of materialization of a query: how much of its answer the service keeps. No answer depends on it.

    NONE       nothing; an invocation evaluates its window             (NoMat in PSoup, section 5)
    PARTIAL    the matches of its clause, or of the sides of a join    (PSoup-P; the default)
    COMPLETE   the matches and the answer                              (PSoup-C)

An inactive query is kept as NONE until it is active again. The text, values and bound form of a parked one are not in
memory (`psoup.published.parked_queries`). The service chooses the amount of an AUTO query, and begins with PARTIAL
(`psoup.answer.automatic`). `Keeping` has the amount with its switches. Columns hold a `Keeping` as a code of one byte,
and the default has the code 0.
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


AUTO = "AUTO"
"""The name of the amount that the service chooses."""
AMOUNTS = (Amount.PARTIAL, Amount.NONE, Amount.COMPLETE)
"""The amounts in the order of their codes."""
_AMOUNT_BITS = 3
_EAGER = 4
_INACTIVE = 8
_AUTO = 16
_PARKED = 32
CODES = 64
"""The number of codes; some are not in use. Every code is less."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """The keeping of a query.

    `eager`: of a COMPLETE query, whether the service updates the kept answer after new tuples, before anybody asks.
    `active`: whether new tuples are told to the query. An inactive query remembers its amount. `parked`: of an inactive
    query, whether its statement is not in memory. `auto`: whether the service chooses the amount; `amount` is then the
    present choice, which is in no event.
    """

    amount: Amount = Amount.PARTIAL
    eager: bool = False
    active: bool = True
    parked: bool = False
    auto: bool = False

    @property
    def name(self) -> str:
        """The amount that was asked for: AUTO, or the name of `amount`."""
        return AUTO if self.auto else self.amount.name

    @property
    def idle(self) -> bool:
        """Whether the query has no clause in the index: its amount is NONE, or it is inactive."""
        return self.amount is Amount.NONE or not self.active

    @property
    def ahead(self) -> bool:
        """Whether the service updates the kept answer now: the query is COMPLETE, eager and active, but not AUTO."""
        return self.eager and self.active and self.amount is Amount.COMPLETE and not self.auto

    @property
    def untold(self) -> bool:
        """Whether followers are not told the query's matches; see `untold_codes`."""
        return self.idle and not (self.auto and self.active)

    @property
    def of_side(self) -> Keeping:
        """The keeping of the sides of a join with this keeping. A COMPLETE join keeps the matches of its sides."""
        return replace(self, auto=False) if self.idle else AS_USUAL

    @property
    def code(self) -> int:
        """The code of this value in columns: 0 for the default."""
        switches = (_EAGER if self.eager else 0) | (0 if self.active else _INACTIVE) | (_PARKED if self.parked else 0)
        return AMOUNTS.index(self.amount) | switches | (_AUTO if self.auto else 0)

    @staticmethod
    def of(code: int) -> Keeping:
        """The value of a code."""
        return _KEEPINGS[code]


def _keeping(code: int) -> Keeping:
    amount = AMOUNTS[min(code & _AMOUNT_BITS, len(AMOUNTS) - 1)]
    return Keeping(amount, code & _EAGER > 0, code & _INACTIVE == 0, code & _PARKED > 0, code & _AUTO > 0)


_KEEPINGS = tuple(map(_keeping, range(CODES)))
AS_USUAL = Keeping()
"""The default: PARTIAL and active."""
AUTOMATIC = Keeping(auto=True)
"""The keeping of a new AUTO query, and of every one after a start."""


def asked_keeping(name: str) -> Keeping:
    """The keeping of a query that is registered with the amount of this name, AUTO or one of `Amount`. Raises KeyError
    for any other name."""
    return AUTOMATIC if name == AUTO else Keeping(Amount[name])


@dataclass(frozen=True, slots=True)
class KeepingChange:
    """A change of some queries' keeping. None leaves a part as it is.

    A query that is parked becomes inactive. An activated query is not parked any more. `auto`: whether the service
    chooses the amount from now on, beginning with `amount`. Only with an amount.
    """

    amount: Amount | None = None
    eager: bool | None = None
    active: bool | None = None
    parked: bool | None = None
    auto: bool = False

    @property
    def name(self) -> str:
        """The name of the new amount, AUTO or one of `Amount`; "" if the amount stays."""
        return "" if self.amount is None else Keeping(self.amount, auto=self.auto).name

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
            switches = changed & np.uint8(CODES - 1 - _AMOUNT_BITS - _AUTO)
            changed = switches | np.uint8(AMOUNTS.index(self.amount) | (_AUTO if self.auto else 0))
        inactive = True if self.parked else None if self.active is None else not self.active
        for bit, wanted in ((_EAGER, self.eager), (_INACTIVE, inactive), (_PARKED, self.parks)):
            if wanted is not None:
                changed = changed | np.uint8(bit) if wanted else changed & np.uint8(CODES - 1 - bit)
        return changed


NO_CHANGE = KeepingChange()


def amount_change(name: str) -> KeepingChange:
    """The change to the amount of this name, AUTO or one of `Amount`. Raises KeyError for any other name."""
    keeping = asked_keeping(name)
    return KeepingChange(keeping.amount, auto=keeping.auto)


@dataclass(frozen=True, slots=True)
class ChosenAmount:
    """The choice of an amount for AUTO queries. It leaves a query as it is that is not AUTO any more."""

    amount: Amount

    def of(self, codes: Array) -> Array:
        """The codes (uint8[n]) of queries after the choice. O(n)."""
        chosen = (codes & np.uint8(CODES - 1 - _AMOUNT_BITS)) | np.uint8(AMOUNTS.index(self.amount))
        return np.where(auto_codes(codes), chosen, codes).astype(np.uint8)


def side_codes(codes: Array) -> Array:
    """The codes of the sides of joins with these codes (uint8[n]); see `Keeping.of_side`."""
    return np.where(idle_codes(codes), codes & np.uint8(CODES - 1 - _AUTO), np.uint8(AS_USUAL.code))


def idle_codes(codes: Array) -> Array:
    """Flags, bool[n]: whether the queries with these codes (uint8[n]) have no clause in the index."""
    return ((codes & _AMOUNT_BITS) == AMOUNTS.index(Amount.NONE)) | ((codes & _INACTIVE) > 0)


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
    complete = (codes & _AMOUNT_BITS) == AMOUNTS.index(Amount.COMPLETE)
    return complete & ((codes & _EAGER) > 0) & ((codes & (_INACTIVE | _AUTO)) == 0)


def auto_codes(codes: Array) -> Array:
    """Flags, bool[n]: whether the service chooses the amounts of the queries with these codes (uint8[n])."""
    return (codes & _AUTO) > 0


def untold_codes(codes: Array) -> Array:
    """Flags, bool[n]: whether followers are not told the matches of the queries with these codes (uint8[n]).

    These are idle queries, but not active AUTO queries: what they are told does not depend on the choice.
    """
    return idle_codes(codes) & (inactive_codes(codes) | ~auto_codes(codes))


def amount_places(codes: Array) -> Array:
    """The places in `AMOUNTS` of the amounts of queries with these codes (uint8[n]): int64[n]."""
    return np.minimum(codes & _AMOUNT_BITS, len(AMOUNTS) - 1).astype(np.int64)
