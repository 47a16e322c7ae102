"""The pairs of two larger sides by an equality, in steps that two threads share: a side each, then half of the pairs.

    left    rows, keys                      ─┐     first half of its rows   ─> pairs ─> columns
    right   rows, keys, and a chain of each  ┴──>  second half              ─> pairs ─> columns

`heads` has the first row of each key, which lie close together, `following` the next row with the same key. The steps
of smaller sides are one kernel: `psoup.kernels.join.small_join`.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner
from psoup.kernels.join.arrays import PairQuestion, SideColumns
from psoup.kernels.join.code_columns import _column, _copy_keys, _nullable_at
from psoup.kernels.join.pair_columns import gather_keys
from psoup.kernels.join.small_pairs import CODE_SHIFT, _chain_all, _is_key
from psoup.kernels.search.result_rows import write_rows


@njit(cache=True, nogil=True)
def read_side(located, chunks, slot, sources, stride, kind, column, rows, keys, heads, following):
    """Read the keys of a side, and chain its rows by key; returns whether it can be, the least key, the greatest.

    located, chunks, slot: of `locate`; sources, stride: of `gather`; kind, column: as `gather_keys` asks; read. rows:
    int32[k], k what was located, at least 1; written: codes of tuples. keys: int64[k], written. heads: int32[places],
    following: int32[k + 1], written: a row, counted from 1, or 0: none; or both of no length: not wanted. It can not be
    done if a key may be NULL, or if there are more keys from the least to the greatest than places. O(k + places).
    """
    stops, nothing = located[:, 4].cumsum(), np.empty(0, np.int32)
    if _nullable_at(column, sources, stride) or write_rows(located, chunks, slot, rows) != rows.shape[0]:
        return False, np.int64(0), np.int64(0)
    _, minimum, maximum = gather_keys(kind, column, sources, stride, rows, stops, keys, nothing)
    start = np.int64(0)
    for part in range(stops.shape[0]):
        code = np.int32(part << CODE_SHIFT)
        for i in range(start, stops[part]):
            rows[i] += code
        start = stops[part]
    if heads.shape[0]:
        if np.uint64(maximum) - np.uint64(minimum) >= np.uint64(heads.shape[0]):
            return False, minimum, maximum
        _chain_all(keys, minimum, heads, following)
    return True, minimum, maximum


@inner
def _at(rows, positions, codes):
    for i in range(positions.shape[0]):
        codes[i] = rows[np.uint64(positions[i])]


@njit(cache=True, nogil=True)
def gather_pairs(question, shown, left_side, right_side, left, right, places, out, nulls):
    """Write the columns of pairs into the body of a record batch.

    question, shown: of `answer_located`. left_side, right_side: `SideColumns` of both sides. left, right: int32[n],
    positions of both; places: int64[c, 3], of `lay_out`. All read. out: uint8[body], nulls: int64[c], written, as of
    `gather`. O(n * c).
    """
    question, left_side, right_side = PairQuestion(*question), SideColumns(*left_side), SideColumns(*right_side)
    codes, other_codes = np.empty(left.shape[0], np.int32), np.empty(right.shape[0], np.int32)
    _at(left_side.rows, left, codes)
    _at(right_side.rows, right, other_codes)
    for w in range(shown.shape[0]):
        side, kind, column = shown[w]
        if places[w, 0] < 0 and _is_key(shown[w], question):
            at = np.int64(out.ctypes.data) + places[w, 1]
            nulls[w] = 0
            if side:
                _copy_keys(right_side.keys, right, at)
            else:
                _copy_keys(left_side.keys, left, at)
        elif side:
            nulls[w] = _column(kind, column, right_side.sources, right_side.stride, other_codes, places[w], out)
        else:
            nulls[w] = _column(kind, column, left_side.sources, left_side.stride, codes, places[w], out)
