"""The rows of two inputs in the order of their keys and bands, for searches that look at no pairs.

    left    k 1, t 7    k 2, t 1         group: the number of the keys among all distinct keys of both inputs
    right   k 1: t 3 5 5 9   k 3: t 2    place: group * ranks + rank of t, sorted

A row of the left searches the range of places in its group that satisfies the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.joins.key_columns import Edge, JoinKeys
from psoup.joins.sort_builds import all_rows
from psoup.values.columns import Array

ROW_BYTES = 64
"""Bytes of a row of an input while the rows are searched, for each band and for all keys together."""


class KeyGroups(NamedTuple):
    """The rows of both inputs that take part, ascending, and the group of each."""

    left: Array
    right: Array
    left_groups: Array
    right_groups: Array


def key_groups(keys: JoinKeys, equal: Sequence[Edge], sizes: tuple[int, int]) -> KeyGroups:
    """Number the keys of all rows. `sizes`: the rows of both inputs. O(n log n)."""
    left, right = (
        all_rows(size) if flags is None else np.flatnonzero(flags)
        for size, flags in zip(sizes, keys.alive, strict=True)
    )
    groups: Array = np.zeros(len(left) + len(right), np.int64)
    for edge in equal:
        numbers = numbered_values(np.concatenate([edge.left_keys[left], edge.right_keys[right]]))
        groups = numbered_values(groups * (int(numbers.max(initial=0)) + 1) + numbers)
    return KeyGroups(left, right, groups[: len(left)], groups[len(left) :])


def numbered_values(values: Array) -> Array:
    """The number of each value among all distinct values, in their order: int64[n]."""
    numbers: Array = np.unique(values, return_inverse=True)[1]
    return numbers
