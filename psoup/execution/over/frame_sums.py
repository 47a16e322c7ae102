"""Counts and sums over frames: differences of two sums from the first row on, which are exact integers.

    x                 3 5 1 4           frames of two rows: [0, 1) [0, 2) [1, 3) [2, 4)
    sums from 0 on  0 3 8 9 13          differences: 3 - 0, 8 - 0, 9 - 3, 13 - 8

The states are the ones of `psoup.aggregates.sums`, with a group for each row. So a sum has 128 bits. A sum of DOUBLEs
has as many words as its exponents need, and is rounded once at the end. No bit is lost, whatever the frames are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from psoup.aggregates.growth import group_bytes, room_to_add
from psoup.aggregates.measures import folding_of
from psoup.aggregates.state import Rows, State, size_of
from psoup.aggregates.sums import IntegerSum
from psoup.execution.over.gathered_rows import SortBytes
from psoup.execution.over.partitions import Partitions
from psoup.model import DOUBLE, Kind
from psoup.plan.over import WindowFunction
from psoup.values.columns import Array, Column
from psoup.values.limbs import limbs

_QUICK = 2.0**126
"""The bound of the sum of absolute values below which no sum leaves 128 bits."""
_BEYOND = 10**38
"""The first integer with more than 38 digits."""
_PIECE = 65_536
"""The number of rows for which differences are computed at once."""
_SUMS = 32
"""Bytes of a row for the sums from the first row on, of one word."""


def frame_sums(function: WindowFunction, rows: Partitions, ordered: Rows, account: SortBytes) -> Column:
    """The count, sum or mean of the frame at each position. `ordered`: the arguments over positions.

    Raises ResourceExhausted. O(n) for each word of a sum.
    """
    low, high = rows.frame(function.frame)
    measure, count = function.call, len(rows)
    if ordered.args and ordered.args[0].type.kind is Kind.WIDE:
        return _of_wide(function, ordered, low, high)
    folding = folding_of(measure)
    each = replace(ordered, codes=rows.positions.astype(np.int32))
    with account.while_held(group_bytes(folding) * count):
        state = folding.empty(count)
        with account.while_held(room_to_add(folding, state, each)):
            state = folding.add(state, each)
            with account.while_held(size_of(state) + _SUMS * count):
                return folding.finish(_between(state, low, high), measure, count)


def _between(state: State, low: Array, high: Array) -> State:
    """The state of the rows [low, high) for each frame, from the state of each row."""
    counts, *rest = [part for part in state if isinstance(part, np.ndarray)]
    if not rest:
        return (_counted(counts, low, high),)
    sums, *scale_and_odd = rest
    parts = [_counted(counts, low, high), _summed(sums, low, high)]
    if scale_and_odd:
        scale, odd = scale_and_odd
        parts += [scale, _counted(odd, low, high) if len(odd) else odd]
    return tuple(parts)


def _counted(counts: Array, low: Array, high: Array) -> Array:
    """The sums of small integers over frames. `counts`: int64[n], or int64[n, k]."""
    sums = np.zeros((len(counts) + 1, *counts.shape[1:]), np.int64)
    np.cumsum(counts, axis=0, out=sums[1:])
    return sums[high] - sums[low]


def _summed(numbers: Array, low: Array, high: Array) -> Array:
    """The sums of integers of several words over frames. `numbers`: int64[n, words], the lowest word first."""
    words = numbers.view(np.uint64)
    out: Array = np.empty(numbers.shape, np.uint64)
    carries = np.zeros(len(numbers) + 1, np.uint64)
    borrow = np.zeros(len(numbers), np.bool_)
    for k in range(numbers.shape[1]):
        sums = np.zeros(len(numbers) + 1, np.uint64)
        np.cumsum(words[:, k], out=sums[1:])
        beyond = np.zeros(len(numbers) + 1, np.uint64)
        np.cumsum(sums[1:] < words[:, k], out=beyond[1:])
        sums += carries
        beyond += sums < carries
        carries = beyond
        for start in range(0, len(numbers), _PIECE):
            piece = slice(start, start + _PIECE)
            left, right = sums[high[piece]], sums[low[piece]]
            difference = left - right
            out[piece, k] = difference - borrow[piece]
            borrow[piece] = (left < right) | (difference < borrow[piece])
    return out.view(np.int64)


def _of_wide(function: WindowFunction, ordered: Rows, low: Array, high: Array) -> Column:
    """The sum or mean of integers of 128 bits over frames. A sum with more than 38 digits is an error of its row."""
    values = ordered.args[0].values
    counts = np.ones(len(values), np.int64)
    if len(ordered.mask):
        counts = ordered.mask.astype(np.int64)
        values = np.where(ordered.mask.view(np.bool_), values, np.zeros(1, values.dtype))
    numbers = np.ascontiguousarray(values).view(np.int64).reshape(-1, 2)
    if float(np.abs(numbers[:, 1].astype(np.float64)).sum() + len(numbers)) * 2.0**64 < _QUICK:
        return IntegerSum().finish(_between((counts, numbers), low, high), function.call, len(values))
    every = (values["high"].astype(object) << 64) + values["low"].astype(object)
    sums = np.append(0, np.cumsum(every))
    totals, frame_counts = sums[high] - sums[low], _counted(counts, low, high)
    valid = frame_counts > 0
    if function.name == "avg":
        unit = 10 ** ordered.args[0].type.scale
        means = [int(total) / (max(n, 1) * unit) for total, n in zip(totals, frame_counts.tolist(), strict=True)]
        return Column(DOUBLE, np.array(means), valid)
    over = (np.abs(totals) >= _BEYOND).astype(np.bool_)
    return Column(function.call.type, limbs(np.where(over, 0, totals)), valid & ~over, None, over)
