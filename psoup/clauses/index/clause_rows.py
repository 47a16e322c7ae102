"""Clauses as lists of lists: the arrays of a predicate index before its boundaries are known.

    clause 0      factor 0      interval 0 1
                  factor 1      interval 2           clause_ptr 0 2 3     factor_ptr 0 2 3 4
    clause 1      factor 2      interval 3

The functions take, reorder and concatenate such lists by vector operations, without a loop over clauses. `clause_ptr`
and `factor_ptr` are CSR offsets: list k has the elements from ptr[k] to ptr[k + 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.values.columns import Array


def gather(pointers: Array, keep: Array) -> tuple[Array, Array]:
    """Select the lists `keep` (int64[k]) from a list of lists with the CSR offsets `pointers`.

    Returns the new offsets, int32[k + 1], and the old positions of the selected elements.
    """
    starts = pointers[keep].astype(np.int64)
    sizes = pointers[keep + 1] - starts
    new = np.zeros(len(keep) + 1, np.int64)
    np.cumsum(sizes, out=new[1:])
    return new.astype(np.int32), np.repeat(starts - new[:-1], sizes) + np.arange(new[-1])


@dataclass(frozen=True, slots=True)
class ClauseRows:
    """Clauses without boundaries: arrays as in a predicate index. `low`, `high`: rows of the index they came from."""

    slots: Array
    clause_ptr: Array
    factor_ptr: Array
    attributes: Array
    low: Array
    high: Array

    def take(self, keep: Array) -> ClauseRows:
        """Some clauses, in the order of `keep` (int64[k]). O(their size)."""
        clause_ptr, factors = gather(self.clause_ptr, keep)
        factor_ptr, intervals = gather(self.factor_ptr, factors)
        return ClauseRows(
            self.slots[keep],
            clause_ptr,
            factor_ptr,
            self.attributes[intervals],
            self.low[intervals],
            self.high[intervals],
        )


def concatenate(parts: Sequence[ClauseRows]) -> ClauseRows:
    """The clauses of all parts, concatenated."""
    empty = np.zeros(0, np.int32)
    return ClauseRows(
        np.concatenate([np.zeros(0, np.uint32), *(part.slots for part in parts)]),
        _chain([part.clause_ptr for part in parts]),
        _chain([part.factor_ptr for part in parts]),
        np.concatenate([np.zeros(0, np.int64), *(part.attributes for part in parts)]),
        np.concatenate([empty, *(part.low for part in parts)]),
        np.concatenate([empty, *(part.high for part in parts)]),
    )


def _chain(pointers: Sequence[Array]) -> Array:
    """The CSR offsets of concatenated lists of lists."""
    sizes = [np.diff(ends) for ends in pointers]
    chained = np.zeros(sum(len(part) for part in sizes) + 1, np.int32)
    np.cumsum(np.concatenate([np.zeros(0, np.int32), *sizes]), out=chained[1:])
    return chained
