"""Twins of `psoup.kernels.join.parallel_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.arrays import PairQuestion, SideColumns
from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.code_columns import gather_coded
from psoup.kernels.plain.join.pair_columns import gather_keys
from psoup.kernels.plain.search.result_rows import write_rows
from psoup.kernels.rows.batch_body import PARTS


def read_side(
    located: Array,
    chunks: Array,
    slot: int,
    sources: Array,
    stride: int,
    kind: int,
    column: int,
    rows: Array,
    keys: Array,
    heads: Array,
    following: Array,
) -> tuple[bool, int, int]:
    """See the kernel."""
    if sources.reshape(-1, stride // PARTS, PARTS)[:, column, 1].any():
        return False, 0, 0
    write_rows(located, chunks, slot, rows)
    stops = located[:, 4].cumsum()
    _, minimum, maximum = gather_keys(kind, column, sources, stride, rows, stops, keys, np.zeros(len(rows), np.int32))
    rows += np.repeat(np.arange(len(stops)), located[:, 4]).astype(np.int32) << CODE_SHIFT
    if len(heads):
        if maximum - minimum >= len(heads):
            return False, minimum, maximum
        heads[:], following[0] = 0, 0
        for row in range(len(keys) - 1, -1, -1):
            following[row + 1], heads[keys[row] - minimum] = heads[keys[row] - minimum], row + 1
    return True, minimum, maximum


def gather_pairs(
    question: PairQuestion,
    shown: Array,
    left_side: SideColumns,
    right_side: SideColumns,
    left: Array,
    right: Array,
    places: Array,
    out: Array,
    nulls: Array,
) -> None:
    """See the kernel."""
    parts = tuple((np.flatnonzero(shown[:, 0] == side), *shown[shown[:, 0] == side, 1:].T) for side in (0, 1))
    (sources, stride, rows, _), (other_sources, other_stride, other_rows, _) = left_side, right_side
    tables = (sources, other_sources), (stride, other_stride)
    gather_coded(parts, *tables, rows[left], other_rows[right], places, out, nulls)
