"""Approximate aggregates in little memory: APPROX_COUNT_DISTINCT and APPROX_QUANTILE, the same in every run.

    APPROX_COUNT_DISTINCT   2,048 registers a group: the greatest rank of a hash in each      error 2.3 % (standard)
    APPROX_QUANTILE         buckets of a group: [1.0202^i, 1.0202^(i + 1)), how many values   error 1 % of the value

An entry is a register or a bucket in use; its key has the group in the upper bits. Entries are merged by key, so the
result does not depend on how rows were cut into parts. A state is a list of runs of entries, each at least twice as
long as the next. New entries are merged only with runs of about their length. (Flajolet et al., 2007, with the
estimator of Ertl, 2017; Masson, Rim and Lee, 2019.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psoup.aggregates.state import Rows, State, places_in
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
"""The bucket of NaN, counted from the middle."""
_BLOCK = 4_096
"""Groups whose registers are counted together."""


def _arrays(state: State) -> list[Array]:
    """The arrays of a state: the keys and the values of each run in turn."""
    return [part for part in state if isinstance(part, np.ndarray)]


@dataclass(frozen=True, slots=True)
class Sketch(ABC):
    """Common part of both sketches: entries of (key, number), with `bits` bits of a key below the group's number."""

    exact: ClassVar[bool] = True
    bits: ClassVar[int]
    """The count of a key's bits that name the register or the bucket."""
    adds: ClassVar[bool]
    """Whether numbers of equal keys are added up; else the greatest stays."""

    @abstractmethod
    def entries(self, column: Column) -> tuple[Array, Array]:
        """The register or bucket of each value (int64[n]), and its number."""

    def empty(self, groups: int) -> State:
        """Make the state of groups without a row."""
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def grow(self, state: State, groups: int) -> State:
        """Make room for more groups: a group without a row takes none."""
        return state

    def add(self, state: State, rows: Rows) -> State:
        """Add rows."""
        column, groups = rows.args[0], rows.groups
        if len(rows.mask):
            column, groups = column.take(rows.counted), groups[rows.counted]
        names, values = self.entries(column)
        return self._more(state, groups.astype(np.int64) << self.bits | names, values)

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add a state of later rows."""
        keys, values = self._entries(other)
        return self._more(into, places[keys >> self.bits] << self.bits | keys & (1 << self.bits) - 1, values)

    def arrange(self, state: State, order: Array) -> State:
        """Give the groups in an order."""
        return self.combine(self.empty(len(order)), state, places_in(order))

    def _more(self, state: State, keys: Array, values: Array) -> State:
        """A state with more entries. O(log n) for each, amortised."""
        runs = [*_arrays(state), *self._merged(keys, values)]
        while len(runs) > 2 and 2 * len(runs[-2]) >= len(runs[-4]):
            runs[-4:] = self._merged(np.concatenate(runs[-4::2]), np.concatenate(runs[-3::2]))
        return tuple(runs)

    def _entries(self, state: State) -> tuple[Array, Array]:
        """The entries of all runs as one run."""
        runs = _arrays(state)
        if len(runs) == 2:
            return runs[0], runs[1]
        return self._merged(np.concatenate(runs[::2]), np.concatenate(runs[1::2]))

    def _merged(self, keys: Array, values: Array) -> tuple[Array, Array]:
        """Entries in the order of their keys; equal keys become one entry, with the sum or the greatest number."""
        order, spare = np.empty((2, len(keys)), np.int64)
        order_keys(keys, order, spare)
        keys, values = keys[order], values[order]
        count = group_numbers.merge_runs(keys, values, self.adds)
        return keys[:count].copy(), values[:count].copy()


class Registers(Sketch):
    """HyperLogLog: the state of APPROX_COUNT_DISTINCT."""

    bits, adds = _REGISTER_BITS, False

    def entries(self, column: Column) -> tuple[Array, Array]:
        """The register of each value, by a hash with constant seeds, and the rank of the hash's other bits."""
        hashes: Array = np.zeros((len(column), 2), np.uint64)
        if column.type.kind is Kind.TEXT:
            assert column.data is not None
            clause_names.mix_texts(plain(column.values), plain(column.data), _SEEDS, hashes)
        else:
            words = np.ascontiguousarray(column.order_keys()).view(np.uint64).reshape(-1, 1)
            clause_names.mix_words(plain(words), _SEEDS, hashes)
        rest = hashes[:, 0] >> np.uint64(_REGISTER_BITS)
        _, exponents = np.frexp(rest.astype(np.float64))  # of at most 53 bits: exact
        names = (hashes[:, 0] & np.uint64(_REGISTERS - 1)).astype(np.int64)
        return names, np.where(rest > 0, _RANKS - exponents + 1, _RANKS + 1).astype(np.int64)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Give the estimates."""
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
    """Estimates of distinct values from registers, of which counts[:, r] have rank r (Ertl, algorithm 6)."""
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
    """Counts of values by the logarithm of their size: the state of APPROX_QUANTILE."""

    bits, adds = _BUCKET_BITS, True

    def entries(self, column: Column) -> tuple[Array, Array]:
        """The bucket of each value, and 1. Buckets are in the order of their values."""
        values = column.values.astype(np.float64)
        size = np.abs(values)
        with np.errstate(all="ignore"):
            steps = np.floor(np.log(size) / math.log(_GAMMA)) + 40_000.0  # 5e-324 is step 3,000 or so
        places = np.where(size > 0, np.minimum(steps, 80_000.0), 0.0).astype(np.int64, casting="unsafe")
        names = np.where(values < 0, _MIDDLE - places, _MIDDLE + places)
        return np.where(np.isnan(values), _MIDDLE + _EDGE, names), np.ones(len(values), np.int64)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Give the middle value of the bucket in which the quantile lies."""
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
    """The value in the middle of a bucket."""
    size = np.abs(places)
    with np.errstate(all="ignore"):
        value = np.exp((size - 40_000.0) * math.log(_GAMMA)) * (2 * _GAMMA / (1 + _GAMMA))
    value = np.where(size == 0, 0.0, np.where(size >= 80_000, np.inf, np.where(size == _EDGE, np.nan, value)))
    return np.where(size == _EDGE, np.nan, np.copysign(value, places))
