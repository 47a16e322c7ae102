"""ORDER BY and DISTINCT over the columns of one answer.

Every column becomes int64 ranks that order as its values do (NaN greatest, -0.0 = 0.0, text by UTF-8 bytes), NULL
set apart; then rows are sorted by ranks alone, by counting (`psoup.kernels.order`). Equal rows keep their order, so
the first row of each group is the row that came first. The budget is checked after each pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.columns import Array, Column
from psoup.kernels.order import digit_pass, mark_changes
from psoup.limbs import integers
from psoup.model import TEXT, Kind
from psoup.plan.nodes import OrderKey
from psoup.reading import UNBOUNDED, ReadBudget

_FEW = 8_192
"""Rows up to which a digit has 8 bits: with more its table is larger than what is sorted."""


def ranks(column: Column) -> Array:
    """int64[n] that order as the values do, equal where they are equal; NULL rows have 0. O(n log n) for TEXT."""
    if column.type.kind is not Kind.TEXT:
        keys = _wide_ranks(column.values) if column.type.kind is Kind.WIDE else column.order_keys()
        return keys if column.valid is None else np.where(column.valid, keys, 0)
    encoded = pc.dictionary_encode(column.to_arrow())
    order = pc.array_sort_indices(encoded.dictionary.cast(pa.large_binary()))
    rank: Array = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return rank[codes] if len(rank) else np.zeros(len(column), np.int64)


def _wide_ranks(values: Array) -> Array:
    """The ranks of numbers of up to 128 bits; themselves if all fit. O(n), else O(n log n)."""
    numbers = integers(values)
    if numbers.dtype != object:
        return numbers
    order = np.lexsort((values["low"], values["high"]))
    rank: Array = np.empty(len(values), np.int64)
    rank[order] = np.cumsum(np.append(False, values[order[1:]] != values[order[:-1]]))
    return rank


def sorted_rows(keys: Sequence[Column], order: Sequence[OrderKey], budget: ReadBudget) -> Array:
    """The rows (uint32[n]) sorted by the key columns; equal rows keep their order. O(n) for each 11 bits of a key."""
    rows = np.arange(len(keys[0]), dtype=np.uint32)
    for column, key in zip(reversed(keys), reversed(order), strict=True):
        rank = ranks(column)
        rows = sorted_by(~rank if key.descending else rank, rows, budget)
        if column.valid is not None:
            rows = sorted_by((column.valid if key.nulls_first else ~column.valid).astype(np.int64), rows, budget)
    return rows


def sorted_by(keys: Array, rows: Array, budget: ReadBudget) -> Array:
    """`rows` (uint32[k]) sorted by `keys` (int64, at their places); those with equal keys keep their order."""
    if len(rows) < 2:
        return rows
    budget.check()
    least = int(keys.min())
    bits = (int(keys.max()) - least).bit_length()
    width = 8 if len(rows) <= _FEW else 11
    ends: Array = np.empty(1 << width, np.int64)
    spare: Array = np.empty(len(rows), np.uint32)
    owned = False
    for shift in range(0, bits, width):
        budget.check()
        digit_pass(keys, least, shift, rows, ends, spare)
        rows, spare = spare, rows if owned else np.empty(len(rows), np.uint32)
        owned = True
    return rows


def distinct_rows(columns: Sequence[Column], budget: ReadBudget) -> Array:
    """The first row of every distinct combination, in the order the rows came, int64. NULLs are equal here."""
    count = len(columns[0])
    rows: Array = np.arange(count, dtype=np.uint32)
    levels = list(_levels(columns))
    for level in levels:
        rows = sorted_by(level, rows, budget)
    changed: Array = np.zeros(count, np.uint8)
    changed[:1] = 1
    for level in levels:
        budget.check()
        mark_changes(level, rows, changed)
    first: Array = np.zeros(count, np.bool_)
    first[rows[changed.view(np.bool_)]] = True
    return np.flatnonzero(first)


def compile_kernels() -> None:
    """Compile for keys of memory and of disks, which may not be written, so that the first sort does not wait."""
    rows: Array = np.arange(3, dtype=np.uint32)
    for writeable in (True, False):
        keys: Array = np.arange(3, dtype=np.int64)
        texts: Array = np.zeros(3, np.uint8)
        keys.flags.writeable = texts.flags.writeable = writeable
        sorted_by(keys, rows, UNBOUNDED)
        mark_changes(keys, rows, np.zeros(3, np.uint8))
        Column(TEXT, keys, data=texts).take(np.arange(2))


def _levels(columns: Sequence[Column]) -> Iterator[Array]:
    """The arrays that rows are told apart by."""
    for column in columns:
        yield ranks(column)
        if column.valid is not None:
            yield column.valid.astype(np.int64)
