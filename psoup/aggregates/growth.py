"""Upper bounds of the bytes of states, before a reader makes a state, or adds rows to it.

    groups 131,072 x sum of integers   24 bytes a group     known from the folding alone
    MAX of texts                       texts of the rows    known from the offsets of the added rows
    MEDIAN, DISTINCT, sketches         entries of the rows  an upper bound

A reader charges these bytes to its budget before it allocates them. So the budget refuses a state that is too large
before the state takes memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.bits import Bits
from psoup.aggregates.measures import states_for
from psoup.aggregates.moments import Moments
from psoup.aggregates.ordered_rows import OrderedRows
from psoup.aggregates.picks import Extreme, Pick
from psoup.aggregates.state import Folding, Rows, State, size_of
from psoup.aggregates.sums import Count, DoubleSum, IntegerSum
from psoup.model import Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column

_SAMPLE = 64
"""The number of groups of the empty state that `group_bytes` measures."""
_ENTRY_BYTES = 64
"""Bytes of an entry of a list or a sketch, without its value, while the state adds and sorts it."""
_COPIES = 3
"""The number of copies of a list's values while it is finished: the list, the sorted texts and the result."""


def group_bytes(folding: Folding) -> int:
    """The bytes that a group without rows takes in a state."""
    return -(-size_of(folding.empty(_SAMPLE)) // _SAMPLE)


def states_bytes(measures: Sequence[Measure]) -> int:
    """The bytes that a group without rows takes in the states of all measures and in its count of rows."""
    return 8 + sum(group_bytes(folding) for folding, *_ in states_for(measures))


def is_fixed(folding: Folding) -> bool:
    """Whether the size of a state depends only on its number of groups."""
    if isinstance(folding, Pick):
        return Kind.TEXT not in (folding.type.kind, folding.key and folding.key.kind)
    return isinstance(folding, Count | IntegerSum | Extreme | Moments | Bits)


def room_to_add(folding: Folding, state: State, rows: Rows) -> int:
    """An upper bound of the bytes that `add` allocates in addition to the state: its growth and temporary copies."""
    if isinstance(folding, Moments):
        return size_of(state)
    if is_fixed(folding):
        return 0
    if isinstance(folding, DoubleSum):
        return folding.room_to_add(state, rows)
    if isinstance(folding, Pick):
        return 2 * size_of(state) + 2 * sum(column.nbytes for column in rows.args)
    if isinstance(folding, OrderedRows):
        return folding.room_to_add(rows)
    return _ENTRY_BYTES * rows.count + _COPIES * sum(column.nbytes for column in rows.args)


def room_to_combine(folding: Folding, into: State, other: State) -> int:
    """An upper bound of the bytes that `combine` allocates in addition to the two states, which many queries share."""
    if isinstance(folding, DoubleSum):
        return folding.room_to_combine(into, other)
    return 0 if is_fixed(folding) else 2 * (size_of(into) + size_of(other))


def bytes_taken(state: State, groups: Array | None) -> int:
    """The bytes of some `groups` of a state (int64[k]; None for all), once its integers have 64 bits. O(k)."""
    size = 0
    for part in state:
        if isinstance(part, Column):
            size += part.nbytes if groups is None else part.bytes_at(groups)
        else:
            rows = len(part) if groups is None else len(groups)
            size += 8 * rows * max(int(np.prod(part.shape[1:])), part.ndim)
    return size
