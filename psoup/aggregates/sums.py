"""Counts, and exact sums: integers of 128 bits, and DOUBLEs as integers in units of 2^base.

    count    int64[groups]
    sum      counts, and int64[groups, words]: two words for BIGINT, BOOLEAN and DECIMAL, which cannot overflow
    DOUBLE   counts, words, (base, top, rows), and the numbers of values that were NaN, infinite, minus infinite

A sum of DOUBLEs is rounded once, at the end. It equals `math.fsum` of the values, in any order. Usually a sum needs two
words; values with exponents far apart need more, at most 34.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from psoup.aggregates.state import Rows, State, padded, taken
from psoup.kernels.fold import group_states, wide_integers
from psoup.model import BIGINT, SECOND, DataType, Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, plain
from psoup.values.kinds import BEYOND, LEAST, TYPES

_UNIT = 1075
"""The exponent bias of a double, for its value in units of its last binary digit."""
_DIGITS = 53
"""The binary digits of a double."""
_DAY = 86_400 * SECOND
_NEAR = 40
"""The greatest difference between exponents with which values are summed in two int64, the quick way."""
_FAR = 900
"""The greatest size of the unit's exponent with which values are summed in two int64."""
_NEAR_ROWS = 65_536
"""The most rows whose sums fit into two int64."""
_SPLIT = 46
"""The bit at which a value is split between the two int64."""
_SLACK = 6
"""Spare bits below the least exponent, so that a slightly smaller value in the next part needs no shift."""
_NOTHING = (2_000, -2_000, 0)
"""The base, top and rows of a sum without rows."""
_NONE: Array = np.zeros((0, 3), np.int64)


def _counted(counts: Array, rows: Rows) -> None:
    if rows.codes is None:
        counts[0] += np.count_nonzero(rows.mask) if len(rows.mask) else rows.count
    else:
        group_states.count_rows(rows.mask, rows.codes, counts)


@dataclass(frozen=True, slots=True)
class Count:
    """The state of COUNT: the number of rows that count."""

    exact: bool = True

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return (np.zeros(groups, np.int64),)

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        (counts,) = state
        assert isinstance(counts, np.ndarray)
        return (padded(counts, groups),)

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        (counts,) = state
        assert isinstance(counts, np.ndarray)
        _counted(counts, rows)
        return state

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        (counts,), (more,) = into, other
        assert isinstance(counts, np.ndarray)
        assert isinstance(more, np.ndarray)
        counts[places] += more
        return into

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return taken(state, order)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the count of each group."""
        (counts,) = state
        assert isinstance(counts, np.ndarray)
        return Column(BIGINT, counts[:groups])


@dataclass(frozen=True, slots=True)
class IntegerSum:
    """The state of SUM and AVG of BIGINT, BOOLEAN, DECIMAL, TIMESTAMP or DATE."""

    exact: bool = True

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return np.zeros(groups, np.int64), np.zeros((groups, 2), np.int64)

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        counts, sums = _arrays(state)
        return padded(counts, groups), padded(sums, groups)

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        counts, sums = _arrays(state)
        values = plain(rows.args[0].values.astype(np.int64, copy=False))
        _counted(counts, rows)
        if rows.codes is None:
            low, high = group_states.sum_whole(values, rows.mask)
            total = int(low) + (int(high) << 32)
            words = np.array([[total & 2**64 - 1, total >> 64 & 2**64 - 1]], np.uint64).view(np.int64)
            wide_integers.add_wide(words, np.zeros(1, np.int64), sums)
        else:
            group_states.sum_integers(values, rows.mask, rows.codes, sums)
        return state

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        (counts, sums), (more, added) = _arrays(into), _arrays(other)
        counts[places] += more
        wide_integers.add_wide(added, places, sums)
        return into

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return taken(state, order)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the sum of each group, or the mean for AVG."""
        counts, sums = _arrays(state)
        if len(counts) != groups:
            counts, sums = counts[:groups], sums[:groups]
        valid = None if np.count_nonzero(counts) == groups else counts > 0
        kind, source = measure.type.kind, measure.args[0].type
        if measure.function == "sum" and kind is not Kind.DOUBLE:
            return Column(measure.type, np.ndarray(groups, TYPES[kind].dtype, plain(sums)), valid)
        if kind in (Kind.TIMESTAMP, Kind.DATE):
            return Column(measure.type, _mean_times(counts, sums, source, measure.type), valid)
        fractions, exponents = _rounded(sums)
        values = np.ldexp(fractions, exponents.astype(np.int32))
        if measure.function == "avg":
            values /= np.maximum(counts, 1) * 10.0**source.scale
        return Column(measure.type, values, valid)


class WideSum(IntegerSum):
    """The state of SUM and AVG of numbers of 128 bits, such as sums of a subselect. A sum beyond 128 bits wraps."""

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to.

        A number is its low word, as int64, plus 2**64 times the rest: the high word, less the sign of the low word.
        """
        (column,) = rows.args
        low = column.values["low"].view(np.int64)
        rest = column.values["high"] - (low >> 63)
        counts, sums = _arrays(IntegerSum.add(self, state, replace(rows, args=[Column(BIGINT, low)])))
        if len(rows.mask):
            rest = np.where(rows.mask != 0, rest, 0)
        if rows.codes is None:
            sums[0, 1] += rest.sum()
        else:
            np.add.at(sums[:, 1], rows.codes, rest)
        return counts, sums


def _mean_times(counts: Array, sums: Array, source: DataType, result: DataType) -> Array:
    """The means of TIMESTAMPs or DATEs, as TIMESTAMPs, rounded down."""
    if source.kind is Kind.DATE:
        means = [days * _DAY // max(count, 1) for days, count in zip(sums[:, 0].tolist(), counts.tolist(), strict=True)]
        return np.array([min(max(mean, LEAST), BEYOND - 1) for mean in means], np.int64)
    out = np.empty(len(counts), np.int64)
    wide_integers.divide_wide(plain(sums), np.maximum(counts, 1), out)
    return out.astype(TYPES[result.kind].dtype, copy=False)


def _rounded(sums: Array) -> tuple[Array, Array]:
    """Round sums of several words to doubles. Returns fractions of 53 bits, and their exponents."""
    fractions, exponents = np.empty(len(sums)), np.empty(len(sums), np.int64)
    wide_integers.round_wide(plain(sums), fractions, exponents)
    return fractions, exponents


@dataclass(frozen=True, slots=True)
class DoubleSum:
    """The state of SUM and AVG of DOUBLE."""

    exact: bool = True

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return np.zeros(groups, np.int64), np.zeros((groups, 2), np.int64), np.array(_NOTHING), _NONE

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        counts, sums, scale, odd = _arrays(state)
        return padded(counts, groups), padded(sums, groups), scale, padded(odd, groups) if len(odd) else odd

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        counts, sums, scale, odd = _arrays(state)
        _counted(counts, rows)
        values = plain(rows.args[0].values)
        lowest, greatest, strange = group_states.span_of_doubles(values.view(np.int64), rows.mask)
        if strange:
            odd = odd if len(odd) else np.zeros((len(counts), 3), np.int64)
            group_states.count_odd(values, rows.mask, rows.groups, odd)
        if greatest:
            sums, scale = _with_room(sums, scale, lowest - _UNIT, greatest - _UNIT, rows.count)
            _add_doubles(values, rows, int(scale[0]), greatest - _UNIT, sums)
        return counts, sums, scale, odd

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        (counts, sums, scale, odd), (more, added, its_scale, strange) = _arrays(into), _arrays(other)
        counts[places] += more
        if len(strange):
            odd = odd if len(odd) else np.zeros((len(counts), 3), np.int64)
            odd[places] += strange
        base, top, count = its_scale.tolist()
        if count:
            sums, scale = _with_room(sums, scale, base, top, count)
            aligned = np.zeros((len(added), sums.shape[1]), np.int64)
            wide_integers.shift_wide(added, base - int(scale[0]), aligned)
            wide_integers.add_wide(aligned, places, sums)
        return counts, sums, scale, odd

    def room_to_add(self, state: State, rows: Rows) -> int:
        """An upper bound of the bytes that `add` allocates in addition to the state. O(rows)."""
        _, sums, scale, odd = _arrays(state)
        values = plain(rows.args[0].values)
        lowest, greatest, strange = group_states.span_of_doubles(values.view(np.int64), rows.mask)
        words = _words(sums, scale, lowest - _UNIT, greatest - _UNIT, rows.count) if greatest else 0
        return _more(sums, words, odd, bool(strange))

    def room_to_combine(self, into: State, other: State) -> int:
        """An upper bound of the bytes that `combine` allocates in addition to the states. O(1)."""
        (_, sums, scale, odd), (_, added, its_scale, strange) = _arrays(into), _arrays(other)
        base, top, count = its_scale.tolist()
        words = _words(sums, scale, base, top, count) if count else 0
        return _more(sums, words, odd, len(strange) > 0) + 8 * words * len(added)

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        counts, sums, scale, odd = _arrays(state)
        return counts[order], sums[order], scale, odd[order] if len(odd) else odd

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the sum of each group, rounded once, or the mean for AVG."""
        counts, sums, scale, odd = _arrays(state)
        counts = counts[:groups]
        fractions, exponents = _rounded(sums[:groups])
        if measure.function == "avg":
            fractions /= np.maximum(counts, 1)
        with np.errstate(over="ignore"):
            values = np.ldexp(fractions, (exponents + scale[0] * (fractions != 0)).astype(np.int32))
        if len(odd):
            nan, plus, minus = (odd[:groups, k] > 0 for k in range(3))
            values[plus], values[minus] = np.inf, -np.inf
            values[nan | (plus & minus)] = np.nan
        return Column(measure.type, values, None if counts.all() else counts > 0)


def _more(sums: Array, words: int, odd: Array, strange: bool) -> int:
    """The bytes that a step allocates for sums of `words` words, and for new counts of non-finite values."""
    wider = 8 * words * len(sums) if words > sums.shape[1] else sums.nbytes
    return wider + (24 * len(sums) if strange and not len(odd) else 0)


def _add_doubles(values: Array, rows: Rows, base: int, top: int, sums: Array) -> None:
    """Add values to `sums`, in units of 2^base. `top`: the greatest exponent of a value."""
    if top - base > _NEAR or not -_FAR < base < _FAR or rows.count > _NEAR_ROWS:
        group_states.sum_doubles(values.view(np.int64), rows.mask, rows.groups, base, sums)
    elif rows.codes is None:
        halves = np.array([group_states.sum_near(values, rows.mask, 2.0**-base)], np.int64)
        wide_integers.add_halves(halves, _SPLIT, sums)
    elif 2 * len(sums) > rows.count:  # many groups: adding the two int64 of each takes longer than the quick way saves
        group_states.sum_doubles(values.view(np.int64), rows.mask, rows.codes, base, sums)
    else:
        halves = np.zeros((len(sums), 2), np.int64)
        group_states.sum_groups_near(values, rows.mask, rows.codes, 2.0**-base, halves)
        wide_integers.add_halves(halves, _SPLIT, sums)


def _words(sums: Array, scale: Array, bottom: int, ceiling: int, rows: int) -> int:
    """The number of words that a sum needs for its old exponents, the new ones, and `rows` more rows."""
    base, top, count = scale.tolist()
    bits = max(top, ceiling) - min(base, bottom) + _DIGITS + 1 + (count + rows).bit_length()
    return max(-(-bits // 64), sums.shape[1])


def _with_room(sums: Array, scale: Array, bottom: int, ceiling: int, rows: int) -> tuple[Array, Array]:
    """Give the sums a unit that fits the old and the new exponents, and words for `rows` more rows.

    Returns the sums, and their new (base, top, rows).
    """
    base, top, count = scale.tolist()
    lower, upper, more = min(base, bottom), max(top, ceiling), count + rows
    bits = upper - lower + _DIGITS + 1 + more.bit_length()
    words = _words(sums, scale, bottom, ceiling, rows)
    if count and (lower < base or words > sums.shape[1]):
        # spare bits below the new exponent, as the next part likely has a smaller one
        lower = max(lower - min((64 * words - bits) // 2, _SLACK), -_UNIT) if lower < base else lower
        shifted = np.zeros((len(sums), words), np.int64)
        wide_integers.shift_wide(sums, base - lower, shifted)
        sums = shifted
    elif words > sums.shape[1]:
        sums = np.zeros((len(sums), words), np.int64)
    return sums, np.array([lower, upper, more])


def _arrays(state: State) -> list[Array]:
    return [part for part in state if isinstance(part, np.ndarray)]
