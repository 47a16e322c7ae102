"""Arrays that the kernels of arrival take together, each group under the names of its fields.

    IndexArrays    clause ──clause_ptr──> factors ──factor_ptr──> intervals: iv_lo, iv_hi, iv_attr
    CellLists      cell ──cell_ptr──> groups ──group_ptr──> entries
    PlannedWork    plan writes it, emit reads it

A caller passes a group as a plain tuple in the order of its fields, and the kernel names them again.
A NamedTuple as an argument costs 0.7 us more: Numba looks up its class in each call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.uint8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class IndexArrays(NamedTuple):
    """The factors and intervals of the clauses of an index: int32; see `psoup.kernels.arrive.index_probe`."""

    clause_ptr: Int32
    factor_ptr: Int32
    iv_lo: Int32
    iv_hi: Int32
    iv_attr: Int32


class PieceArrays(NamedTuple):
    """A piece of tuples by its codes; see `psoup.kernels.arrive.codes`."""

    codes: Int32
    counts: Int32
    ranks: Int32
    starts: Int64
    order: Int32


class PlannedWork(NamedTuple):
    """Clauses that can match, the factor to walk or -1 (int32), and places of their pairs (int64, one more)."""

    clauses: Int32
    walked: Int32
    room: Int64


class AttributeUses(NamedTuple):
    """Flags of attributes, uint8[A]: whether their tuples must be sorted; whether their bitmaps are needed."""

    order: Flags
    prefix: Flags


class SlotRows(NamedTuple):
    """Rows of bits of slots: int32[capacity], -1 for a slot without a row; uint64[B, R, W] of `bit_blocks`."""

    row_of_slot: Int32
    rows: npt.NDArray[np.uint64]


class EmittedPairs(NamedTuple):
    """Room for pairs (uint32, uint16), and for the positions of work that needs a row first (int32)."""

    slots: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.uint16]
    needs: Int32


class CellGrids(NamedTuple):
    """Grids of cells: attribute and width (int32), first cell (int64); see `psoup.kernels.arrive.posting_lists`."""

    attr: Int32
    shift: Int32
    first: Int64


class CellLists(NamedTuple):
    """Groups of cells, their entries and their kinds: int32, flags uint8; see `posting_lists.reach`."""

    cell_ptr: Int32
    group_ptr: Int32
    group_kind: Int32
    kind_flags: Flags
    entries: Int32


class ListTests(NamedTuple):
    """Bounds that the entries of a group are tested against; see `posting_lists.match_lists`."""

    group_test: Int64
    kind_ptr: Int32
    kind_attr: Int32
    bounds: Array
