"""Arguments that the kernels of joins take together, each group under the names of its fields.

    SideArrays      one side of a small join: chunks, window, clause, where its matches lie, where its columns lie
    PairQuestion    the one factor between the sides
    KeyBuckets      rows of a side by their keys, as `fill_buckets` makes them

A caller passes a group as a plain tuple, and the kernel names its fields again: see `psoup.kernels.arrive.arrays`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class SideArrays(NamedTuple):
    """A side of a small join.

    `chunks` to `slot`: as `locate` asks. `size`: the matches that `locate` found, which wrote `located`; -1 if it was
    not called yet. `sources`, `stride`: of `gather`.
    """

    chunks: Array
    low: int
    high: int
    sqc_id: int
    slot: int
    size: int
    located: Array
    sources: Array
    stride: int


class PairQuestion(NamedTuple):
    """The factor between two sides: an equality of keys or a band.

    Kinds and columns of both keys: as `gather_keys` asks. `is_equality`, `has_low`, `has_high`: 1 or 0. Bounds: as of
    `probe_ranges`. `minimum`, `maximum`: of each side, the bounds of its keys between which no sum overflows.
    """

    kind: int
    other_kind: int
    column: int
    other_column: int
    is_equality: int
    has_low: int
    low: int
    has_high: int
    high: int
    minimum: int
    maximum: int
    other_minimum: int
    other_maximum: int


class BatchPlaces(NamedTuple):
    """Places in the header of a batch: of the rows, the body, the nodes and the buffers; how many buffers there are.

    `exact`: 1 if no value leaves padding.
    """

    rows: int
    body: int
    nodes: int
    buffers: int
    buffer_count: int
    exact: int


class PairLimits(NamedTuple):
    """At most so many rows of a side, places looked at, and rows and bytes of a message."""

    side_rows: int
    places: int
    rows: int
    bytes: int


class SideColumns(NamedTuple):
    """A side whose keys were read: sources and stride of `gather`, rows and keys of `read_side`."""

    sources: Array
    stride: int
    rows: Array
    keys: Array


class KeyBuckets(NamedTuple):
    """Buckets of `fill_buckets`: base, factor and shift (uint64), starts (int32), keys (int64) and rows (int32)."""

    base: np.uint64
    factor: np.uint64
    shift: np.uint64
    starts: Array
    place_keys: Array
    place_rows: Array


class BandBounds(NamedTuple):
    """Bounds of a band: left key + low <= right key, if `lower`; right key <= left key + high, if `upper`."""

    lower: bool
    low: int
    upper: bool
    high: int
