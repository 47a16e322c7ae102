"""Addresses of the arrays of one chunk's results, for `psoup.kernels.search.result_rows`.

sealed   [PACKED, covered before, packs]   [ids, how many, counts, place, lists, bitmaps, words] …
open     [OPEN, covered before, runs]      [row_of_slot, …, rows in use]   [slots, offsets, starts, blocks] …
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.kernels.search.result_rows import OPEN, PACKED
from psoup.results.open import OpenView
from psoup.results.pack import Pack
from psoup.values.columns import Array, address_of


class ChunkPlaces(NamedTuple):
    """The addresses and lengths of the arrays of one chunk's results, int64[size], and the address of that array.

    The user must keep the results alive.
    """

    numbers: Array
    address: int
    size: int


def places_of(view: OpenView | None, packs: tuple[Pack, ...], covered_before: int) -> ChunkPlaces:
    """The addresses and lengths of the arrays of a chunk's results. O(packs + runs)."""
    if view is None:
        numbers = [PACKED, covered_before, len(packs)]
        for pack in packs:
            numbers += [address_of(pack.ids), len(pack.ids)]
            numbers += map(address_of, (pack.counts, pack.place, pack.lists, pack.bitmaps))
            numbers.append(pack.bitmaps.shape[1])
    else:
        numbers = [OPEN, covered_before, len(view.runs), address_of(view.row_of_slot), len(view.row_of_slot)]
        numbers += [address_of(view.rows), *view.rows.shape, view.count]
        for run in view.runs:
            numbers += [*map(address_of, run), len(run.starts)]
    numbers_array = np.array(numbers, np.int64)
    return ChunkPlaces(numbers_array, address_of(numbers_array), len(numbers_array))
