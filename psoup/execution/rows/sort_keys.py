"""ORDER BY and DISTINCT over the columns of one answer, by radix sort of ranks.

A column is first converted to ranks: int64 that have the order of its values. NaN is the greatest number, -0.0 equals
0.0, and texts have the order of their UTF-8 bytes. NULL is sorted by a separate flag. Then rows are sorted by their
ranks (`psoup.kernels.rows.radix_sort`). The sort is stable, so DISTINCT keeps the row that came first.

All passes go by pieces of `PIECE` rows, and check the budget before each piece. A pass over millions of rows would
block other calls for some tens of milliseconds. One step still takes a whole column: the dictionary of texts that
mostly differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.kernels.rows.radix_sort import count_digits, digit_pass, mark_changes, move_rows
from psoup.model import Kind
from psoup.plan.nodes import OrderKey
from psoup.values.columns import Array, Column
from psoup.values.wide_order import wide_ranks
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_FEW = 8_192
"""The most rows for which a digit of the radix sort has 8 bits, not 11. A larger table would not pay for few rows."""


PIECE = 32_768
"""The number of rows between two checks of the budget. Most passes take some tenths of a millisecond for them."""

_SAME = 8
"""Texts are dictionary-encoded by pieces if the first piece has at least 8 rows for each distinct text."""


def pieces(rows: int, budget: ReadBudget) -> Iterator[slice]:
    """Yield the rows in pieces, and check the budget before each."""
    for start in range(0, rows, PIECE):
        budget.check()
        yield slice(start, min(start + PIECE, rows))


def ranks(column: Column, budget: ReadBudget = UNBOUNDED) -> Array:
    """The ranks of a column: int64[n] with the order and equality of its values. NULL has 0. O(n log n) for TEXT."""
    if column.type.kind is Kind.TEXT:
        return _text_ranks(column, budget)
    if column.type.kind is Kind.WIDE:
        wide = wide_ranks(column.values)
        return wide if column.valid is None else np.where(column.valid, wide, 0)
    if column.valid is None and column.values.dtype == np.int64:
        return column.order_keys()
    return _by_pieces(len(column), lambda piece: _narrow_ranks(column.slice(piece.start, piece.stop)), budget)


def _by_pieces(rows: int, make: Callable[[slice], Array], budget: ReadBudget) -> Array:
    """Compute int64[rows] piece by piece: `make` computes a piece."""
    if rows <= PIECE:
        return make(slice(0, rows))
    made: Array = np.empty(rows, np.int64)
    for piece in pieces(rows, budget):
        made[piece] = make(piece)
    return made


def _narrow_ranks(column: Column) -> Array:
    keys = column.order_keys()
    return keys if column.valid is None else np.where(column.valid, keys, 0)


def _text_ranks(column: Column, budget: ReadBudget) -> Array:
    """The ranks of texts: their places in the sorted dictionary of distinct texts."""
    first = pc.dictionary_encode(column.slice(0, min(len(column), PIECE)).to_arrow())
    if len(column) <= PIECE:
        return _ranked(first.dictionary)[_codes(first)]
    if _SAME * len(first.dictionary) > PIECE:
        encoded = pc.dictionary_encode(column.to_arrow())
        return _ranked(encoded.dictionary)[_codes(encoded)]
    parts = [
        pc.dictionary_encode(column.slice(piece.start, piece.stop).to_arrow()) for piece in pieces(len(column), budget)
    ]
    budget.check()
    texts = pc.dictionary_encode(pa.concat_arrays([part.dictionary.cast(pa.large_string()) for part in parts]))
    known, start = _ranked(texts.dictionary)[_codes(texts)], 0
    made: Array = np.empty(len(column), np.int64)
    for part, piece in zip(parts, pieces(len(column), budget), strict=True):
        stop = start + len(part.dictionary)
        if stop > start:
            made[piece] = known[start:stop][_codes(part)]
        if column.valid is not None:
            made[piece][~column.valid[piece]] = 0
        start = stop
    return made


def _ranked(dictionary: pa.Array) -> Array:
    """The rank of each text of a dictionary: int64[max(texts, 1)]."""
    order = pc.array_sort_indices(dictionary.cast(pa.large_binary()))
    rank: Array = np.zeros(max(len(order), 1), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    return rank


def _codes(encoded: pa.DictionaryArray) -> Array:
    """The dictionary code of each row. 0 for NULL."""
    codes: Array = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return codes


def sorted_rows(keys: Sequence[Column], order: Sequence[OrderKey], budget: ReadBudget) -> Array:
    """Sort the rows by the key columns: uint32[n]. The sort is stable. O(n) for each 11 bits of a key."""
    rows = np.arange(len(keys[0]), dtype=np.uint32)
    for column, key in zip(reversed(keys), reversed(order), strict=True):
        rank = ranks(column, budget)
        rows = sorted_by(_inverted(rank, budget) if key.descending else rank, rows, budget)
        if column.valid is not None:
            rows = sorted_by(_flags(column.valid if key.nulls_first else ~column.valid, budget), rows, budget)
    return rows


def _inverted(rank: Array, budget: ReadBudget) -> Array:
    """The ranks for descending order."""
    return _by_pieces(len(rank), lambda piece: ~rank[piece], budget)


def _flags(flags: Array, budget: ReadBudget) -> Array:
    """Convert bool[n] to int64, piece by piece."""
    return _by_pieces(len(flags), lambda piece: flags[piece].astype(np.int64), budget)


def sorted_by(keys: Array, rows: Array, budget: ReadBudget) -> Array:
    """Sort `rows` (uint32[k]) by `keys[row]` (int64). The sort is stable."""
    if len(rows) < 2:
        return rows
    ends_of = [(int(keys[piece].min()), int(keys[piece].max())) for piece in pieces(len(keys), budget)]
    least = min(low for low, _ in ends_of)
    bits = (max(high for _, high in ends_of) - least).bit_length()
    width = 8 if len(rows) <= _FEW else 11
    ends: Array = np.empty(1 << width, np.int64)
    spare: Array = np.empty(len(rows), np.uint32)
    owned = False
    for shift in range(0, bits, width):
        _pass(keys, least, shift, rows, ends, spare, budget)
        rows, spare = spare, rows if owned else np.empty(len(rows), np.uint32)
        owned = True
    return rows


def _pass(keys: Array, least: int, shift: int, rows: Array, ends: Array, out: Array, budget: ReadBudget) -> None:
    """Make the pass of `digit_pass` piece by piece."""
    if len(rows) <= PIECE:
        budget.check()
        digit_pass(keys, least, shift, rows, ends, out)
        return
    ends[:] = 0
    for piece in pieces(len(rows), budget):
        count_digits(keys, least, shift, rows[piece], ends)
    ends[:] = np.cumsum(ends) - ends
    for piece in pieces(len(rows), budget):
        move_rows(keys, least, shift, rows[piece], ends, out)


def distinct_rows(columns: Sequence[Column], budget: ReadBudget) -> Array:
    """The first row of every distinct combination of values, ascending, int64. NULL equals NULL here."""
    count = len(columns[0])
    rows: Array = np.arange(count, dtype=np.uint32)
    levels = list(_levels(columns, budget))
    for level in levels:
        rows = sorted_by(level, rows, budget)
    changed: Array = np.zeros(count, np.uint8)
    changed[:1] = 1
    first: Array = np.zeros(count, np.bool_)
    for piece in pieces(count, budget):
        known = slice(max(piece.start - 1, 0), piece.stop)
        for level in levels:
            mark_changes(level, rows[known], changed[known])
        first[rows[piece][changed[piece].view(np.bool_)]] = True
    return flagged(first, budget)


def flagged(flags: Array, budget: ReadBudget) -> Array:
    """The places of the flags (bool[n]) that are set: int64[k], ascending."""
    found: Array = np.empty(int(np.count_nonzero(flags)), np.int64)
    start = 0
    for piece in pieces(len(flags), budget):
        here = np.flatnonzero(flags[piece])
        stop = start + len(here)
        np.add(here, piece.start, out=found[start:stop])
        start = stop
    return found


def _levels(columns: Sequence[Column], budget: ReadBudget) -> Iterator[Array]:
    """Yield the arrays whose values together distinguish rows: ranks, and flags of NULL."""
    for column in columns:
        yield ranks(column, budget)
        if column.valid is not None:
            yield _flags(column.valid, budget)
