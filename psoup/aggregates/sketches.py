"""Approximate aggregates in little memory: APPROX_COUNT_DISTINCT and APPROX_QUANTILE, the same in every run.

    APPROX_COUNT_DISTINCT   2,048 registers a group: the greatest rank of a hash in each      error 2.3 % (standard)
    APPROX_QUANTILE         counts of values in buckets [1.0202^i, 1.0202^(i + 1))            error 1 % of the value

An entry is a register or a bucket in use. The upper bits of its key are the group. Entries are merged by key, so the
result does not depend on how the rows are divided into parts. A state is a list of runs of entries, each at least twice
as long as the next. New entries are merged only with runs of similar length. (HyperLogLog: Flajolet et al., 2007, with
the estimator of Ertl, 2017. DDSketch: Masson, Rim and Lee, 2019.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psoup.aggregates.state import Rows, State
from psoup.kernels.fold import group_numbers
from psoup.kernels.names import clause_names
from psoup.kernels.rows.radix_sort import order_keys
from psoup.model import BIGINT, Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, plain
from psoup.values.kinds import TYPES

_SEEDS: Array = np.array([0x5851F42D4C957F2D, 0x14057B7EF767814F], np.uint64)
_REGISTER_BITS = 11
_REGISTERS = 1 << _REGISTER_BITS
_RANKS = 64 - _REGISTER_BITS
_GAMMA = 1.0202
_BUCKET_BITS = 18
_MIDDLE = 1 << 17
"""The bucket of 0."""
_EDGE = (1 << 17) - 2
"""The bucket of NaN is this far from the middle."""
_BLOCK = 4_096
"""The number of groups whose registers `finish` counts in one step."""


def _arrays(state: State) -> list[Array]:
    """The arrays of a state: the keys and the values of each run in turn."""
    return [part for part in state if isinstance(part, np.ndarray)]


@dataclass(frozen=True, slots=True)
class Sketch(ABC):
    """The base of both sketches. An entry is a key and a number; the key is the group, and `bits` lower bits."""

    exact: ClassVar[bool] = True
    bits: ClassVar[int]
    """The number of lower bits of a key that name the register or the bucket."""
    adds: ClassVar[bool]
    """Whether the numbers of equal keys are added up. Otherwise the greatest number stays."""

    @abstractmethod
    def entries(self, column: Column) -> tuple[Array, Array]:
        """The register or bucket of each value, int64[n], and the number of its entry: a rank, or a count of 1."""

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def grow(self, state: State, groups: int) -> State:
        """Return the state as it is, as a group without rows takes no memory."""
        return state

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        column, groups = rows.args[0], rows.groups
        if len(rows.mask):
            column, groups = column.take(rows.counted), groups[rows.counted]
        names, values = self.entries(column)
        return self._more(state, groups.astype(np.int64) << self.bits | names, values)

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        keys, values = self._entries(other)
        return self._more(into, places[keys >> self.bits] << self.bits | keys & (1 << self.bits) - 1, values)

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        keys, values = self._entries(state)
        places = np.full(int(max(keys.max(initial=0) >> self.bits, order.max(initial=0))) + 1, -1)
        places[order] = np.arange(len(order))
        groups = places[keys >> self.bits]
        here = np.flatnonzero(groups >= 0)
        return self._more(
            self.empty(len(order)), groups[here] << self.bits | keys[here] & (1 << self.bits) - 1, values[here]
        )

    def _more(self, state: State, keys: Array, values: Array) -> State:
        """Add entries to a state. Amortised O(log n) for each entry."""
        runs = [*_arrays(state), *self._merged(keys, values)]
        while len(runs) > 2 and 2 * len(runs[-2]) >= len(runs[-4]):
            runs[-4:] = self._merged(np.concatenate(runs[-4::2]), np.concatenate(runs[-3::2]))
        return tuple(runs)

    def _entries(self, state: State) -> tuple[Array, Array]:
        """The entries of all runs of a state, merged into one run."""
        runs = _arrays(state)
        if len(runs) == 2:
            return runs[0], runs[1]
        return self._merged(np.concatenate(runs[::2]), np.concatenate(runs[1::2]))

    def _merged(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Sort entries by their keys. Equal keys become one entry, with the sum of the numbers, or the greatest."""
        order, spare = np.empty((2, len(keys)), np.int64)
        order_keys(keys, order, spare)
        keys, values = keys[order], values[order]
        count = group_numbers.merge_runs(keys, values, self.adds)
        return keys[:count].copy(), values[:count].copy()


class Registers(Sketch):
    """The state of APPROX_COUNT_DISTINCT, a HyperLogLog."""

    bits, adds = _REGISTER_BITS, False

    def entries(self, column: Column) -> tuple[Array, Array]:
        """The register of each value, from a hash with constant seeds, and the rank of the remaining bits."""
        hashes: Array = np.zeros((len(column), 2), np.uint64)
        if column.type.kind is Kind.TEXT:
            assert column.data is not None
            clause_names.mix_texts(plain(column.values), plain(column.data), _SEEDS, hashes)
        else:
            wide = column.type.kind is Kind.WIDE
            keys = np.ascontiguousarray(column.values if wide else column.order_keys())
            words = keys.view(np.uint64).reshape(-1, 1 + wide)
            clause_names.mix_words(plain(words), _SEEDS, hashes)
        rest = hashes[:, 0] >> np.uint64(_REGISTER_BITS)
        _, exponents = np.frexp(rest.astype(np.float64))  # of at most 53 bits: exact
        names = (hashes[:, 0] & np.uint64(_REGISTERS - 1)).astype(np.int64)
        return names, np.where(rest > 0, _RANKS - exponents + 1, _RANKS + 1).astype(np.int64)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the estimated number of different values of each group."""
        keys, ranks = self._entries(state)
        estimates = np.zeros(groups, np.int64)
        edges = np.searchsorted(keys, np.arange(0, groups + _BLOCK, _BLOCK) << self.bits)
        for block, first in enumerate(range(0, groups, _BLOCK)):
            part = slice(edges[block], edges[block + 1])
            size = min(_BLOCK, groups - first)
            counts = np.zeros((size, _RANKS + 2))
            np.add.at(counts, ((keys[part] >> self.bits) - first, ranks[part]), 1.0)
            counts[:, 0] = _REGISTERS - counts.sum(1)
            estimates[first : first + size] = _estimated(counts)
        return Column(BIGINT, estimates)


def _estimated(counts: Array) -> Array:
    """Estimate numbers of distinct values (Ertl, algorithm 6). counts[g, r]: the registers of group g with rank r."""
    share = 1.0 - counts[:, _RANKS + 1] / _REGISTERS
    total = _REGISTERS * _tau(share)
    for rank in range(_RANKS, 0, -1):
        total = 0.5 * (total + counts[:, rank])
    empty = counts[:, 0] / _REGISTERS
    with np.errstate(all="ignore"):
        whole = total + _REGISTERS * _sigma(empty)
        estimate = _REGISTERS**2 / (2 * math.log(2)) / whole
    return np.where(empty >= 1.0, 0.0, np.rint(estimate)).astype(np.int64)


def _sigma(share: Array) -> Array:
    """Ertl's sigma: x plus the sum of x^(2^k) * 2^(k - 1)."""
    power, weight, total = np.minimum(share, 1 - 1e-9), 1.0, np.minimum(share, 1 - 1e-9)
    for _ in range(40):
        power = power * power
        total = total + power * weight
        weight += weight
    return total


def _tau(share: Array) -> Array:
    """Ertl's tau: one minus x, less the sum of (1 - x^(2^-k))^2 * 2^-k, over three."""
    power, weight, total = share.copy(), 1.0, 1.0 - share
    for _ in range(40):
        power = np.sqrt(power)
        weight *= 0.5
        total = total - (1.0 - power) ** 2 * weight
    return np.where((share <= 0.0) | (share >= 1.0), 0.0, total / 3.0)


class LogBuckets(Sketch):
    """The state of APPROX_QUANTILE: counts of values in buckets, by the logarithm of their size (DDSketch)."""

    bits, adds = _BUCKET_BITS, True

    def entries(self, column: Column) -> tuple[Array, Array]:
        """The bucket of each value, and a count of 1 for each. The buckets have the order of their values."""
        values = column.values.astype(np.float64)
        size = np.abs(values)
        with np.errstate(all="ignore"):
            steps = np.floor(np.log(size) / math.log(_GAMMA)) + 40_000.0  # 5e-324 is step 3,000 or so
        places = np.where(size > 0, np.minimum(steps, 80_000.0), 0.0).astype(np.int64, casting="unsafe")
        names = np.where(values < 0, _MIDDLE - places, _MIDDLE + places)
        return np.where(np.isnan(values), _MIDDLE + _EDGE, names), np.ones(len(values), np.int64)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return, for each group, the middle value of the bucket that contains the quantile."""
        keys, numbers = self._entries(state)
        owners = keys >> self.bits
        counts = np.zeros(groups, np.int64)
        np.add.at(counts, owners, numbers)
        ends = np.cumsum(numbers)
        before = np.cumsum(counts) - counts
        wanted = before + np.floor(float(measure.fraction or 0.0) * np.maximum(counts - 1, 0)).astype(np.int64)
        places = np.minimum(np.searchsorted(ends, wanted, "right"), max(len(keys) - 1, 0))
        names = keys[places] & (1 << self.bits) - 1 if len(keys) else np.full(groups, _MIDDLE)
        values = _of_bucket(names - _MIDDLE)
        kind, some = measure.type.kind, counts > 0
        if kind is Kind.DOUBLE:
            values = values / 10.0 ** measure.args[0].type.scale
        else:
            values = np.clip(np.rint(values), -(2.0**63), 2.0**63 - 1024).astype(TYPES[kind].dtype)
        return Column(measure.type, np.where(some, values, np.zeros(1, values.dtype)), None if some.all() else some)


def _of_bucket(places: Array) -> Array:
    """The value in the middle of each bucket. `places`: the buckets, counted from the bucket of 0."""
    size = np.abs(places)
    with np.errstate(all="ignore"):
        value = np.exp((size - 40_000.0) * math.log(_GAMMA)) * (2 * _GAMMA / (1 + _GAMMA))
    value = np.where(size == 0, 0.0, np.where(size >= 80_000, np.inf, np.where(size == _EDGE, np.nan, value)))
    return np.where(size == _EDGE, np.nan, np.copysign(value, places))
