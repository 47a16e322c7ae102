"""The bits of all values of a group, of any value, or of an odd number of values.

    bit_and 6 3   ->   2        bit_or 6 3   ->   7        bit_xor 6 3   ->   5

The state is a flag for groups with a value, and the bits so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.aggregates.state import Rows, State, padded, taken
from psoup.model import BIGINT
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column

_OPERATORS: dict[str, np.ufunc] = {
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


@dataclass(frozen=True, slots=True)
class Bits:
    """The state of BIT_AND, BIT_OR and BIT_XOR of BIGINTs."""

    function: str
    exact: bool = True

    @property
    def _neutral(self) -> int:
        """The bits of a group without values."""
        return -1 if self.function == "bit_and" else 0

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return np.zeros(groups, np.uint8), np.full(groups, self._neutral, np.int64)

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        seen, bits = _arrays(state)
        return padded(seen, groups), padded(bits, groups, self._neutral)

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        seen, bits = _arrays(state)
        values, operator = rows.args[0].values.astype(np.int64, copy=False), _OPERATORS[self.function]
        if len(rows.mask):
            values = values[rows.counted]
        if not len(values):
            return state
        if rows.codes is None:
            seen[0], bits[0] = 1, operator(bits[0], operator.reduce(values))
        else:
            groups = rows.codes[rows.counted] if len(rows.mask) else rows.codes
            seen[groups] = 1
            operator.at(bits, groups, values)
        return state

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        (seen, bits), (some, more) = _arrays(into), _arrays(other)
        seen[places] |= some
        bits[places] = _OPERATORS[self.function](bits[places], more)
        return into

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return taken(state, order)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the bits of each group."""
        seen, bits = _arrays(state)
        seen, bits = seen[:groups], bits[:groups]
        if np.count_nonzero(seen) == groups:
            return Column(BIGINT, bits)
        return Column(BIGINT, np.where(seen > 0, bits, 0), seen > 0)


def _arrays(state: State) -> list[Array]:
    return [part for part in state if isinstance(part, np.ndarray)]
